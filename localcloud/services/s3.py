"""S3 behavior that differs in ministack.

Covers the object's version in events, a full disk, the key `aws/s3`, ETags of encrypted objects, and listings during
the deletion of versions.
"""

from __future__ import annotations

import contextvars
import json
import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from ministack import app
from ministack.core.responses import error_response_xml
from ministack.core.router import detect_service
from ministack.services import s3

from localcloud.base.context import ACCOUNT, REGION, Context
from localcloud.patches import MINISTACK

KEY_BYTES = 1024
"""Length of the longest key in S3."""

_version: contextvars.ContextVar[str | None] = contextvars.ContextVar("s3_event_version", default=None)
_keyed: contextvars.ContextVar[bool] = contextvars.ContextVar("s3_keyed", default=False)
_failures: contextvars.ContextVar[list[OSError] | None] = contextvars.ContextVar("s3_failures", default=None)


def install(context: Context) -> None:
    name_the_version_in_events()
    refuse_on_a_full_disk(context.state)
    encrypt_by_the_managed_key()
    refuse_what_no_bucket_takes()
    list_past_deleted_versions()
    answer_the_checksum_of_a_copy()


def name_the_version_in_events() -> None:
    """Add `detail.object.version-id` to S3's events on the default bus."""
    stock_fire = MINISTACK.stock("services.s3:_fire_s3_event")
    stock_dispatch = MINISTACK.stock("services.eventbridge:_dispatch_event")

    def fire_s3_event(*arguments: Any, version_id: str | None = None, **named: Any) -> None:
        _version.set(version_id)  # events are sent from another thread with another context
        stock_fire(*arguments, version_id=version_id, **named)

    def dispatch_event(event: Mapping[str, Any], view: Any = None) -> Any:
        version = _version.get()
        if event.get("Source") == "aws.s3" and version:
            detail = json.loads(event["Detail"])
            detail["object"]["version-id"] = version
            event = {**event, "Detail": json.dumps(detail)}
        return stock_dispatch(event, view)

    MINISTACK.replace("services.s3:_fire_s3_event", fire_s3_event)
    MINISTACK.replace("services.eventbridge:_dispatch_event", dispatch_event)


def encrypt_by_the_managed_key() -> None:
    """Accept a write with `aws:kms` and no key, such as CDK assets: every account has the key `aws/s3`.

    The ETag of an encrypted object is not a hash of its bytes. (For multipart uploads it still is one here.)
    """
    stock_headers = MINISTACK.stock("services.s3:_resolve_sse_write_headers")
    stock_sum = MINISTACK.stock("services.s3:md5_hash")
    key = "x-amz-server-side-encryption-aws-kms-key-id"

    def headers_of(headers: Mapping[str, str], bucket: str) -> Any:
        if headers.get("x-amz-server-side-encryption") == "aws:kms" and not headers.get(key):
            headers = {**headers, key: f"arn:aws:kms:{REGION}:{ACCOUNT}:alias/aws/s3"}
        kept, refusal = stock_headers(headers, bucket)
        _keyed.set(bool(kept) and kept.get("x-amz-server-side-encryption") == "aws:kms")
        return kept, refusal

    def etag_of(body: bytes) -> str:
        return str(stock_sum(b"keyed" + body if _keyed.get() else body))

    MINISTACK.replace("services.s3:_resolve_sse_write_headers", headers_of)
    MINISTACK.replace("services.s3:md5_hash", etag_of)


def refuse_what_no_bucket_takes() -> None:
    """Refuse a key of more than 1,024 bytes, and a malformed list of keys to delete, before IAM's check."""
    stock = MINISTACK.stock("app:_handle_post_body_shortcuts")

    async def looked_at(
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        query: Mapping[str, Any],
        request_id: str,
    ) -> Any:
        answer = await stock(method, path, headers, body, query, request_id)
        if answer is not None:
            return answer
        deletes = method == "POST" and "delete" in query
        if (deletes or len(path) > KEY_BYTES // 4) and detect_service(method, path, headers, query) == "s3":
            return _unfit(path, headers, body if deletes else None)
        return None

    MINISTACK.replace("app:_handle_post_body_shortcuts", looked_at)


def _unfit(path: str, headers: Mapping[str, str], deleted: bytes | None) -> Any:
    in_host = app._extract_s3_vhost_bucket(headers.get("host", ""))
    key = path[1:] if in_host else s3._parse_bucket_key(path, dict(headers))[1]
    if len(key.encode()) > KEY_BYTES:
        return error_response_xml("KeyTooLongError", "Your key is too long", 400)
    if deleted is not None:
        try:
            s3.fromstring(deleted)  # safe parser
        except (ParseError, ValueError):
            message = (
                "The XML you provided was not well-formed or did not validate against our published schema"
            )
            return error_response_xml("MalformedXML", message, 400)
    return None


def list_past_deleted_versions() -> None:
    """Continue a listing whose marker version was deleted. ministack would skip older versions of that key.

    The whole key is listed again, because the marker's position is unknown.
    """
    name = "services.s3:_list_object_versions"
    stock = MINISTACK.stock(name)

    def listed(bucket: str, query: dict[str, Any]) -> Any:
        key, version = s3._qp(query, "key-marker"), s3._qp(query, "version-id-marker")
        kept = s3._object_versions.get((bucket, key)) or ()
        if version and not any(each["version_id"] == version for each in kept):
            before = f"{key[:-1]}{chr(ord(key[-1]) - 1)}{chr(sys.maxunicode)}"  # the last name before the key
            query = {**query, "key-marker": [before], "version-id-marker": [""]}
        return stock(bucket, query)

    MINISTACK.replace(name, listed)


def refuse_on_a_full_disk(state: Path) -> None:
    """Answer InsufficientStorage (507, which clients do not retry) if an object cannot be written below `state`.

    ministack accepts such an object and loses it later.
    """
    stock_write = MINISTACK.stock("services.s3:_atomic_write")
    stock_handle = MINISTACK.stock("app:SERVICE_HANDLERS")["s3"]

    def write(*arguments: Any, **named: Any) -> None:
        try:
            stock_write(*arguments, **named)
        except OSError as error:
            failures = _failures.get()
            if failures is not None:
                failures.append(error)
            raise

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Any:
        failures: list[OSError] = []
        _failures.set(failures)  # only this request's failures: it has its own context
        answer = await stock_handle(method, path, headers, body, query_params)
        if not failures:
            return answer
        message = f"The object could not be written below {state}: {failures[0].strerror}."
        return error_response_xml("InsufficientStorage", message, 507)

    MINISTACK.replace("services.s3:_atomic_write", write)
    MINISTACK.extend("app:SERVICE_HANDLERS", {"s3": handle})


def answer_the_checksum_of_a_copy() -> None:
    """Compute the checksum that a copy requests, and name the checksums of each copy in its answer."""
    name = "services.s3:_copy_object"
    stock = MINISTACK.stock(name)

    def copied(bucket: str, key: str, headers: Mapping[str, str]) -> Any:
        asked = headers.get("x-amz-checksum-algorithm")
        code, answered, body = stock(
            bucket, key, {**headers, **({"x-amz-sdk-checksum-algorithm": asked} if asked else {})}
        )
        if code != HTTPStatus.OK:
            return code, answered, body
        made, root = s3._buckets[bucket]["objects"][key], s3.fromstring(body)
        if asked:
            made["checksums"] = {asked: made["checksums"][asked]}  # S3 keeps only the last one
        for algorithm, digest in made["checksums"].items():
            s3.SubElement(root, f"Checksum{algorithm}").text = digest
            s3.SubElement(root, "ChecksumType").text = "FULL_OBJECT"
        return code, answered, s3._xml_body(root)

    MINISTACK.replace(name, copied)
