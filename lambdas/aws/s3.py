"""Objects in S3, mostly in the yard's bucket."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import call_or_none
from lambdas.aws.clients import NO_ANSWER, as_unavailable, client
from trainyard.core.model.errors import AccessDenied, ServiceUnavailable
from trainyard.values.lazy import dataclass

GONE = ("NoSuchKey", "NoSuchVersion", "404", "MethodNotAllowed")
"""Codes of a missing object. MethodNotAllowed means that the requested version is a delete marker."""
EMPTY = "InvalidRange"
NO_BUCKET = ("NoSuchBucket", "404")
MOST_DELETED = 1000
"""The most objects of one DeleteObjects request."""
LARGEST_DOCUMENT = 16 * 2**20
ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")
"""Storage classes whose objects S3 returns only after a restore."""
ALREADY_WRITTEN = ("PreconditionFailed", "ConditionalRequestConflict")


@dataclass(frozen=True)
class Object:
    """The first bytes of an object, and the size of the whole."""

    start: bytes
    size: int


@dataclass(frozen=True)
class Opened:
    """An object whose content is not read yet."""

    size: int
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Tagged:
    """A whole object with its ETag, for conditional writes."""

    content: bytes
    etag: str


def get_start(bucket: str, key: str, *, most: int, version: str | None = None) -> Object | None:
    """Return the first `most` bytes of the object; None if the object or version is missing."""
    request = {"Bucket": bucket, "Key": key, "Range": f"bytes=0-{most - 1}"}
    if version:
        request["VersionId"] = version
    try:
        answer = client("s3").get_object(**request)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == EMPTY:
            return Object(b"", 0)
        if code in GONE:
            return None
        raise
    whole = str(answer.get("ContentRange", "")).rpartition("/")[2]
    content = _content(answer)
    return Object(content, int(whole) if whole.isdigit() else len(content))


def get(bucket: str, key: str) -> bytes | None:
    """Return the whole object; None if it is missing. Raises ValueError if it is larger than LARGEST_DOCUMENT: a host
    may have written it."""
    answer = call_or_none(GONE, client("s3").get_object, Bucket=bucket, Key=key)
    if answer is None:
        return None
    if answer["ContentLength"] > LARGEST_DOCUMENT:
        raise ValueError(
            f"{key} has {answer['ContentLength']} bytes, and at most {LARGEST_DOCUMENT} are read"
        )
    return _content(answer)


def open_object(bucket: str, key: str) -> Opened | None:
    """Return the object, of any size; None if it is missing."""
    answer = call_or_none(GONE, client("s3").get_object, Bucket=bucket, Key=key)
    return Opened(answer["ContentLength"], lambda: _content(answer)) if answer else None


def get_tagged(bucket: str, key: str) -> Tagged | None:
    """Return the whole object with its ETag; None if it is missing."""
    answer = call_or_none(GONE, client("s3").get_object, Bucket=bucket, Key=key)
    return Tagged(_content(answer), answer["ETag"]) if answer else None


def _content(answer: Mapping[str, Any]) -> bytes:
    """Read the body of the answer. The connection may break while it is read."""
    try:
        content: bytes = answer["Body"].read()
    except NO_ANSWER as error:
        raise as_unavailable(error) from error
    return content


def get_json(bucket: str, key: str) -> dict[str, Any] | None:
    """Return the JSON object under that key; None if it is missing or not an object. Raises ValueError if the content
    is not JSON or is too large."""
    content = get(bucket, key)
    document = None if content is None else json.loads(content)
    return document if isinstance(document, dict) else None


def put(bucket: str, key: str, content: bytes, *, media_type: str) -> None:
    client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType=media_type)


def put_version(bucket: str, key: str, content: bytes, *, media_type: str) -> tuple[str | None, str]:
    """Write an object; return its version ID (None in a bucket without versions) and its ETag, in the form that S3
    events use."""
    made = client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType=media_type)
    return made.get("VersionId"), made["ETag"].strip('"')


def put_json(bucket: str, key: str, document: Mapping[str, Any]) -> None:
    put(bucket, key, as_bytes(document), media_type="application/json")


def put_json_once(bucket: str, key: str, document: Mapping[str, Any], *, over: str | None = None) -> bool:
    """Write the document if the key is unused, or, with `over`, only if the object still has that ETag. Return False
    otherwise. If two calls write at once, exactly one succeeds."""
    condition = {"IfNoneMatch": "*"} if over is None else {"IfMatch": over}
    written = call_or_none(
        (*ALREADY_WRITTEN, *GONE),
        client("s3").put_object,
        Bucket=bucket,
        Key=key,
        Body=as_bytes(document),
        ContentType="application/json",
        **condition,
    )
    return written is not None


def copy(bucket: str, key: str, target: str) -> str:
    """Copy an object of at most 5 GB within the bucket, and return the SHA-256 of the copy, which S3 computes."""
    source = {"Bucket": bucket, "Key": key}
    answer = client("s3").copy_object(
        Bucket=bucket, Key=target, CopySource=source, ChecksumAlgorithm="SHA256"
    )
    return base64.b64decode(answer["CopyObjectResult"]["ChecksumSHA256"]).hex()


def list_first_page(bucket: str, prefix: str) -> tuple[tuple[str, int], ...]:
    """Return (key, size) of up to 1,000 objects under a prefix."""
    return list_sizes(bucket, prefix, most=1000)


def list_sizes(bucket: str, prefix: str, *, most: int) -> tuple[tuple[str, int], ...]:
    """Return (key, size) of the first `most` objects under a prefix."""
    return tuple((key, size) for key, size, _ in list_objects(bucket, prefix, most=most))


def list_objects(bucket: str, prefix: str, *, most: int) -> tuple[tuple[str, int, str], ...]:
    """Return (key, size, storage class) of the first `most` objects under a prefix."""
    pages = client("s3").get_paginator("list_objects_v2")
    found = pages.paginate(Bucket=bucket, Prefix=prefix, PaginationConfig={"MaxItems": most})
    return tuple(
        (each["Key"], each["Size"], each.get("StorageClass", ""))
        for page in found
        for each in page.get("Contents", [])
    )


def delete(bucket: str, keys: Sequence[str]) -> None:
    """Delete these objects. Raises ServiceUnavailable if S3 did not delete all of them."""
    for begin in range(0, len(keys), MOST_DELETED):
        objects = [{"Key": key} for key in keys[begin : begin + MOST_DELETED]]
        answer = client("s3").delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        if failed := answer.get("Errors"):
            raise ServiceUnavailable(
                f"S3 did not delete {len(failed)} of {len(objects)} objects; the first is {failed[0]['Key']} "
                f"({failed[0]['Code']})"
            )


def explain_unreadable(bucket: str, prefix: str) -> str | None:
    """Return the reason why objects under the prefix of a data bucket cannot be read; None if they can, or if there are
    none."""
    s3 = client("s3")
    try:
        answer = call_or_none(NO_BUCKET, s3.head_bucket, Bucket=bucket)
        if answer is None:
            return f"the bucket {bucket} does not exist; check its name"
        here, there = s3.meta.region_name, answer.get("BucketRegion") or s3.meta.region_name
        if there != here:
            return f"the bucket is in {there} and the yard in {here}; copy the data to a bucket in {here}: aws s3 sync"
        first = next((key for key, size in list_first_page(bucket, prefix) if size), None)
        if first:
            get_start(bucket, first, most=1)
    except AccessDenied as error:
        return (
            f"S3 denies access ({error}); the bucket's policy must allow this account s3:GetObject and s3:ListBucket; "
            "data that a KMS key encrypts needs the ARN of the key in data_buckets and kms:Decrypt in the key's policy"
        )
    return None


def list_keys(bucket: str, prefix: str) -> tuple[str, ...]:
    pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return tuple(found["Key"] for page in pages for found in page.get("Contents", []))


def as_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the bytes that `put_json` writes."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
