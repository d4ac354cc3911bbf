"""ListObjectsV2: the keys and groups of a page, and its tokens."""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from urllib.parse import quote

from simulation.aws.endpoint.api import ServiceError, Structure
from simulation.aws.endpoint.parameters import LAST, not_simulated
from simulation.aws.s3.buckets import Bucket


def list_entries(keys: list[str], prefix: str, delimiter: str, after: str) -> Iterator[tuple[str, bool]]:
    """Yield sorted keys, and common prefixes up to the delimiter (as True). Skips the other keys of a group."""
    index = max(bisect_left(keys, prefix), bisect_right(keys, after) if after else 0)
    if delimiter and after.endswith(delimiter):
        index = max(index, bisect_right(keys, after + LAST))
    while index < len(keys) and keys[index].startswith(prefix):
        key = keys[index]
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            yield key, False
            index += 1
        else:
            group = key[: cut + len(delimiter)]
            yield group, True
            index = bisect_right(keys, group + LAST)


def take_page(found: Iterator[tuple[str, bool]], count: int) -> tuple[list[tuple[str, bool]], bool]:
    """Return this many entries, and True if there are more."""
    page: list[tuple[str, bool]] = []
    for entry in found:
        if len(page) == count:
            return page, True
        page.append(entry)
    return page, False


def describe_object(bucket: Bucket, key: str, encoded: Callable[[str], str]) -> Structure:
    version = bucket.versions[key][-1]
    return {
        "Key": encoded(key),
        "Size": len(version.body or b""),
        "ETag": version.etag,
        "LastModified": version.at,
        "StorageClass": "STANDARD",
    }


def encoder_for(kind: str | None) -> Callable[[str], str]:
    """Return the encoder. boto3 always requests `url`, and decodes it."""
    if kind not in (None, "url"):
        raise not_simulated(f"the EncodingType {kind}")
    return quote if kind else str


def write_token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode()


def read_token(token: str | None) -> str:
    """Return the last entry of the previous page."""
    if not token:
        return ""
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except ValueError as error:
        raise ServiceError("InvalidArgument", "The continuation token provided is incorrect") from error
