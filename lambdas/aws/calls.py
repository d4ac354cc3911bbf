"""Paginated calls, and calls whose errors are answers."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client


def list_items(service: str, operation: str, key: str, **request: Any) -> Iterator[Any]:
    """Yield the items under `key` of every page."""
    pages = client(service).get_paginator(operation).paginate(**request)
    return (item for page in pages for item in page[key])


def call_or_none(codes: Collection[str], call: Callable[..., Any], **request: Any) -> Any:
    """Return the answer of the call, or None if AWS refuses it with one of these codes."""
    try:
        return call(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] in codes:
            return None
        raise
