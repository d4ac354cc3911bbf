"""Requests to S3: sources of copies, ranges, bodies, and the required permissions."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from simulation.aws.endpoint.api import PARTITION, Check, ServiceError
from simulation.aws.endpoint.parameters import not_simulated

MOST_KEY_BYTES = 1024
RANGE = re.compile(r"bytes=(\d*)-(\d*)")
TRANSPORT = {"aws:securetransport": "true", "s3:tlsversion": "1.3"}
"""Condition keys that bucket policies use."""


def arn(bucket: str, key: str | None = None) -> str:
    name = f"arn:{PARTITION}:s3:::{bucket}"
    return name if key is None else f"{name}/{key}"


def source_of(source: str | Mapping[str, str]) -> tuple[str, str, str | None]:
    """Return bucket, key and version of a CopySource."""
    if not isinstance(source, str):
        return source["Bucket"], source["Key"], source.get("VersionId")
    path, _, version = source.lstrip("/").partition("?versionId=")
    bucket, _, key = unquote(path).partition("/")
    return bucket, key, version or None


def delete_check(bucket: str, key: str, version: str | None) -> Check:
    action = "s3:DeleteObjectVersion" if version else "s3:DeleteObject"
    return Check(action, arn(bucket, key), TRANSPORT)


def byte_range(asked: str, size: int) -> tuple[int, int]:
    """Return the index of the first byte, and the index after the last."""
    match = RANGE.fullmatch(asked)
    if match is None or not (match[1] or match[2]):
        raise not_simulated(f"the Range {asked}")
    if match[1]:
        first, end = int(match[1]), min(int(match[2]) + 1, size) if match[2] else size
    else:
        first, end = max(0, size - int(match[2])), size
    if first >= size or end <= first:
        raise ServiceError("InvalidRange", "The requested range is not satisfiable", status=416)
    return first, end


def bytes_of(body: Any) -> bytes:
    """Return the body as bytes. botocore passes a BytesIO."""
    if isinstance(body, io.BytesIO):
        return body.getvalue()
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    raise not_simulated(f"a Body of type {type(body).__name__}")
