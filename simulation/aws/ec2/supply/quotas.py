"""Service Quotas, as far as the product uses it: the EC2 quotas of the account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localcloud.base.settings import Quota
from simulation.aws.ec2.supply.capacity import Pools
from simulation.aws.endpoint.api import (
    ACCOUNT,
    PARTITION,
    REGION,
    Answer,
    Caller,
    Check,
    Request,
    ServiceError,
    Structure,
)


class ServiceQuotas:
    """Returns the current values of `pools.quotas`."""

    def __init__(self, pools: Pools) -> None:
        self.pools = pools

    def get_service_quota(self, caller: Caller, request: Request) -> Answer:
        """Return the applied quota. Raises an error if only AWS's default exists."""
        code, quota = self._quota(request)
        value = self.pools.quotas[code]
        if quota.applied is None and value == quota.default:
            raise _unknown()
        return {"Quota": _describe(code, quota, value)}

    def get_aws_default_service_quota(self, caller: Caller, request: Request) -> Answer:
        code, quota = self._quota(request)
        return {"Quota": _describe(code, quota, quota.default)}

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        if operation == "get_aws_default_service_quota":
            return [Check("servicequotas:GetAWSDefaultServiceQuota", "*")]
        arn = f"arn:{PARTITION}:servicequotas:{REGION}:{ACCOUNT}:ec2/{request.get('QuotaCode')}"
        return [Check("servicequotas:GetServiceQuota", arn)]

    def _quota(self, request: Mapping[str, Any]) -> tuple[str, Quota]:
        quota = self.pools.catalogue.settings.quotas.get(request["QuotaCode"])
        if request["ServiceCode"] != "ec2" or quota is None:
            raise _unknown()
        return request["QuotaCode"], quota


def _unknown() -> ServiceError:
    return ServiceError(
        "NoSuchResourceException", "The request failed because the specified quota does not exist."
    )


def _describe(code: str, quota: Quota, value: float) -> Structure:
    return {
        "ServiceCode": "ec2",
        "QuotaCode": code,
        "QuotaName": quota.name,
        "Value": float(value),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
