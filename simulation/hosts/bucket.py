"""The real agent's Bucket on the simulated S3, with the same calls and the same errors."""

import io
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from simulation.aws.endpoint.api import Answer, Request, ServiceError
from training.host.bucket import Bucket

TRIES = 6
PASSING = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "ProvisionedThroughputExceeded",
}

Call = Callable[..., Answer]


class Unreachable(Exception):  # noqa: N818 - as botocore's
    """The network of this host is cut off."""


def patient(call: Call) -> Call:
    """Retry temporary errors as often as the agent's clients do, without their pauses."""

    def call_with_retries(*names: str, **request: Any) -> Answer:
        for left in reversed(range(TRIES)):
            try:
                return call(*names, **request)
            except ServiceError as error:
                if not left or not (error.status >= 500 or error.code in PASSING):
                    raise
        raise AssertionError("the last attempt returns or raises")

    return call_with_retries


class S3:
    """The part of boto3's S3 client that Bucket uses for small objects."""

    def __init__(self, call: Call) -> None:
        self._call_aws = call

    def get_object(self, **request: Any) -> Answer:
        answer = self._call("get_object", request)
        body = answer["Body"]
        return {**answer, "Body": body if hasattr(body, "read") else io.BytesIO(body)}

    def put_object(self, **request: Any) -> Answer:
        return self._call("put_object", request)

    def delete_objects(self, **request: Any) -> Answer:
        return self._call("delete_objects", request)

    def get_paginator(self, operation: str) -> "S3Pages":
        assert operation == "list_objects_v2"
        return S3Pages(self._call)

    def _call(self, operation: str, request: Request) -> Answer:
        try:
            return self._call_aws("s3", operation, **request)
        except ServiceError as error:
            response = {"Error": {"Code": error.code, "Message": error.message}}
            raise ClientError(response, operation) from error
        except Unreachable as error:
            raise EndpointConnectionError(endpoint_url="https://s3") from error


class S3Pages:
    def __init__(self, call: Callable[[str, Request], Answer]) -> None:
        self._call = call

    def paginate(self, **request: Any) -> Iterator[Answer]:
        more: Request = {}
        while True:
            page = self._call("list_objects_v2", request | more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}


def bucket_of(call: Call, name: str) -> Bucket:
    return Bucket(S3(call), name)
