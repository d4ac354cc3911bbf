"""Calls as all modules beside this one make them: every page of an answer, and errors that are answers."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client


def listed(service: str, operation: str, key: str, **request: Any) -> Iterator[Any]:
    """What every page of the answer holds under this key."""
    pages = client(service).get_paginator(operation).paginate(**request)
    return (item for page in pages for item in page[key])


def unless(codes: Collection[str], call: Callable[..., Any], **request: Any) -> Any:
    """What the call answers; None where that is an error of one of these codes."""
    try:
        return call(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] in codes:
            return None
        raise
