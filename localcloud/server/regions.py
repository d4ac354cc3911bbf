"""Refusals of requests signed for a region that AWS lacks, or that the account has not enabled.

AWS has no endpoint for an unknown region. Clients with a configured endpoint, as here, get a signature error instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
from ministack.core.responses import get_region

from localcloud.base.context import REGION
from localcloud.server import refusals
from localcloud.server.refusals import Answer, Handler

ENABLED = frozenset(
    f"{area}-{number}"
    for area, numbers in {
        "us-east": "12", "us-west": "12", "ca-central": "1", "sa-east": "1", "ap-south": "1", "ap-northeast": "123",
        "ap-southeast": "12", "eu-central": "1", "eu-west": "123", "eu-north": "1",
    }.items()
    for number in numbers
)  # fmt: skip
"""Regions enabled by default: docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html"""
NO_SCOPE = {"ec2": "AuthFailure", "s3": "AuthorizationHeaderMalformed"}
"""Error codes for an unknown region. Other services use the code of a wrong signature."""


def install() -> None:
    session = boto3.Session()
    known = {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("ec2", partition_name=partition)
    }

    def of_enabled_regions(service: str, handler: Handler) -> Handler:
        async def handle(
            method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
        ) -> Answer:
            region = get_region()
            if region in ENABLED:
                return await handler(method, path, headers, body, query_params)
            if region in known:
                message = (
                    "The security token included in the request is invalid: "
                    f"this account has not enabled the region {region}."
                )
                return refusals.answer(service, headers, "UnrecognizedClientException", message)
            message = (
                f"Credential should be scoped to a valid region: AWS has no region '{region}'; "
                f"the region of this local cloud is {REGION}."
            )
            return refusals.answer(service, headers, NO_SCOPE.get(service, "SignatureDoesNotMatch"), message)

        return handle

    refusals.wrap_services(of_enabled_regions)
