"""The real agent's Bucket on the simulated S3, with the same calls and the same errors."""

import io
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from simulation.aws.door.api import Answer, Request, ServiceError
from training.host.bucket import Bucket

TRIES = 6
PASSING = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "ProvisionedThroughputExceeded",
}

Ask = Callable[..., Answer]


class Unreachable(Exception):  # noqa: N818 - as botocore's
    """The network of this host is cut off."""


def patient(ask: Ask) -> Ask:
    """Retry temporary errors as often as the agent's clients do, without their pauses."""

    def calling(*asked: str, **request: Any) -> Answer:
        for left in reversed(range(TRIES)):
            try:
                return ask(*asked, **request)
            except ServiceError as error:
                if not left or not (error.status >= 500 or error.code in PASSING):
                    raise
        raise AssertionError("the last attempt returns or raises")

    return calling


class S3:
    """The part of boto3's S3 client that Bucket uses for small objects."""

    def __init__(self, ask: Ask) -> None:
        self._ask_aws = ask

    def get_object(self, **request: Any) -> Answer:
        answer = self._ask("get_object", request)
        body = answer["Body"]
        return {**answer, "Body": body if hasattr(body, "read") else io.BytesIO(body)}

    def put_object(self, **request: Any) -> Answer:
        return self._ask("put_object", request)

    def delete_objects(self, **request: Any) -> Answer:
        return self._ask("delete_objects", request)

    def get_paginator(self, operation: str) -> "S3Pages":
        assert operation == "list_objects_v2"
        return S3Pages(self._ask)

    def _ask(self, operation: str, request: Request) -> Answer:
        try:
            return self._ask_aws("s3", operation, **request)
        except ServiceError as error:
            said = {"Error": {"Code": error.code, "Message": error.message}}
            raise ClientError(said, operation) from error
        except Unreachable as error:
            raise EndpointConnectionError(endpoint_url="https://s3") from error


class S3Pages:
    def __init__(self, ask: Callable[[str, Request], Answer]) -> None:
        self._ask = ask

    def paginate(self, **request: Any) -> Iterator[Answer]:
        more: Request = {}
        while True:
            page = self._ask("list_objects_v2", request | more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}


def bucket_of(ask: Ask, name: str) -> Bucket:
    return Bucket(S3(ask), name)
