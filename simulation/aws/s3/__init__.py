"""S3: versioned buckets with strong consistency, conditional writes, ranges, and pages of 1,000 keys."""

from __future__ import annotations

import base64
import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from simulation.aws.endpoint.api import Answer, Caller, Check, Request, ServiceError, Structure
from simulation.aws.endpoint.parameters import LAST, not_simulated, only
from simulation.aws.s3.buckets import Bucket, Version, find_version
from simulation.aws.s3.listing import (
    describe_object,
    encoder_for,
    list_entries,
    read_token,
    take_page,
    write_token,
)
from simulation.aws.s3.requests import (
    MOST_KEY_BYTES,
    TRANSPORT,
    arn,
    byte_range,
    bytes_of,
    delete_check,
    source_of,
)
from simulation.world.world import World

MOST_KEYS = 1000
OF_SDK = ("ChecksumAlgorithm", "ChecksumCRC32", "ChecksumMode", "ContentLength", "ContentMD5")
"""Parameters that SDKs add on their own. Checksums never fail here."""
MISSING = "The specified key does not exist."
UNMET = "At least one of the pre-conditions you specified did not hold"
MARKER_COPIED = "The source of a copy request may not specifically refer to a delete marker by version id."
OnEvent = Callable[[str, str, str, str, int, str], None]
"""(detail type, bucket, key, version, size, ETag)"""


class S3:
    """The S3 service.

    `on_event` is called for every `Object Created`. `may` checks the permission for each object of a
    DeleteObjects.
    """

    def __init__(
        self,
        world: World,
        on_event: OnEvent = lambda *about: None,
        may: Callable[[Caller, Check], bool] = lambda caller, check: True,
    ) -> None:
        self.world = world
        self.on_event = on_event
        self.may = may
        self.page_size = MOST_KEYS
        """The maximum number of keys on a page, if 1,000 are too many for a test."""
        self.conflicts: Callable[[Caller, str], bool] = lambda caller, key: False
        """Returns True while another conditional write of the key is in progress."""
        self._buckets: dict[str, Bucket] = {}

    # what the world and the oracle use

    def create_bucket(self, name: str) -> None:
        self._buckets[name] = Bucket(name)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return every key with the prefix, in order."""
        keys = self._buckets[bucket].keys
        return keys[bisect_left(keys, prefix) : bisect_right(keys, prefix + LAST)]

    def body(self, bucket: str, key: str) -> bytes | None:
        version = self._buckets[bucket].newest(key)
        return version.body if version else None

    def versions(self, bucket: str, key: str) -> tuple[Version, ...]:
        """Return all versions, the oldest first, including delete markers."""
        return tuple(self._buckets[bucket].versions.get(key, ()))

    def write(
        self, bucket: str, key: str, body: bytes, *, media_type: str = "binary/octet-stream"
    ) -> Version:
        """Write an object without checking permissions."""
        version = Version(self.world.new_id("v-", 30), self._second(), body, f'"{_digest(body)}"', media_type)
        self._bucket(bucket).add(key, version)
        self.on_event("Object Created", bucket, key, version.id, len(body), version.etag.strip('"'))
        return version

    def _second(self) -> datetime:
        return self.world.now.replace(microsecond=0)

    # permissions

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        bucket, key = str(request["Bucket"]), str(request.get("Key", ""))
        if operation in ("get_object", "head_object"):
            return self._read_checks(bucket, key, request.get("VersionId"))
        if operation == "list_objects_v2":
            asked = {"s3:prefix": "Prefix", "s3:delimiter": "Delimiter", "s3:max-keys": "MaxKeys"}
            context = {word: str(request[name]) for word, name in asked.items() if name in request}
            return [Check("s3:ListBucket", arn(bucket), TRANSPORT | context)]
        if operation == "put_object":
            return [Check("s3:PutObject", arn(bucket, key), TRANSPORT)]
        if operation == "delete_object":
            return [delete_check(bucket, key, request.get("VersionId"))]
        if operation == "delete_objects":
            return []  # checked for each object when it is deleted
        if operation == "copy_object":
            source, source_key, version = source_of(request["CopySource"])
            written = Check("s3:PutObject", arn(bucket, key), TRANSPORT)
            return [*self._read_checks(source, source_key, version), written]
        raise not_simulated(f"s3.{operation}")

    def _read_checks(self, bucket: str, key: str, version: str | None) -> list[Check]:
        """Return the checks of a read. Callers without s3:ListBucket get "access denied" for a missing object."""
        action = "s3:GetObjectVersion" if version else "s3:GetObject"
        check = Check(action, arn(bucket, key), TRANSPORT)
        known = self._buckets.get(bucket)
        if known is None or find_version(known, key, version) is not None:
            return [check]
        return [check, Check("s3:ListBucket", arn(bucket), TRANSPORT)]

    # objects

    def put_object(self, caller: Caller, request: Request) -> Answer:
        only(
            request, ("Bucket", "Key", "Body", "ContentType", "IfNoneMatch", "IfMatch", *OF_SDK), "PutObject"
        )
        bucket, key = self._bucket(request["Bucket"]), str(request["Key"])
        if len(key.encode()) > MOST_KEY_BYTES:
            raise ServiceError("KeyTooLongError", "Your key is too long")
        self._check_conditions(caller, bucket, key, request)
        version = self.write(
            bucket.name,
            key,
            bytes_of(request.get("Body", b"")),
            media_type=request.get("ContentType", "binary/octet-stream"),
        )
        return {"ETag": version.etag, "VersionId": version.id, "ServerSideEncryption": "AES256"}

    def _check_conditions(self, caller: Caller, bucket: Bucket, key: str, request: Mapping[str, Any]) -> None:
        absent, same = request.get("IfNoneMatch"), request.get("IfMatch")
        if absent is None and same is None:
            return
        if self.conflicts(caller, key):
            raise ServiceError(
                "ConditionalRequestConflict",
                "The conditional request cannot succeed due to a conflicting operation against this resource.",
                status=409,
            )
        if absent not in (None, "*"):
            raise ServiceError(
                "NotImplemented",
                "A header you provided implies functionality that is not implemented",
                status=501,
            )
        there = bucket.newest(key)
        if same is not None and there is None:
            raise ServiceError("NoSuchKey", MISSING, status=404)
        is_other = same is not None and there is not None and there.etag.strip('"') != same.strip('"')
        if is_other or (absent == "*" and there is not None):
            raise ServiceError("PreconditionFailed", UNMET, status=412)

    def get_object(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Bucket", "Key", "Range", "VersionId", "IfNoneMatch", *OF_SDK), "GetObject")
        version = self._require_version(request)
        if request.get("IfNoneMatch") == version.etag:
            raise ServiceError("304", "Not Modified", status=304)
        answer = _version_fields(version) | {"AcceptRanges": "bytes"}
        assert version.body is not None
        body, size = version.body, len(version.body)
        if "Range" not in request:
            return answer | {"Body": body, "ContentLength": size}
        first, end = byte_range(request["Range"], size)
        part = body[first:end]
        return answer | {
            "Body": part,
            "ContentLength": len(part),
            "ContentRange": f"bytes {first}-{end - 1}/{size}",
        }

    def head_object(self, caller: Caller, request: Request) -> Answer:
        """Return the metadata. Errors have no body, so botocore shows only their status."""
        only(request, ("Bucket", "Key", "VersionId", *OF_SDK), "HeadObject")
        try:
            version = self._require_version(request)
        except ServiceError as error:
            words = {404: "Not Found", 405: "Method Not Allowed"}.get(error.status, "Bad Request")
            raise ServiceError(str(error.status), words, status=error.status) from error
        return _version_fields(version) | {"AcceptRanges": "bytes", "ContentLength": len(version.body or b"")}

    def copy_object(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Bucket", "Key", "CopySource", "CopySourceIfMatch", *OF_SDK), "CopyObject")
        bucket, key, version = source_of(request["CopySource"])
        asked = {"Bucket": bucket, "Key": key} | ({"VersionId": version} if version else {})
        known = find_version(self._bucket(bucket), key, version)
        if version and known is not None and known.body is None:
            raise ServiceError("InvalidRequest", MARKER_COPIED)
        source = self._require_version(asked)
        same = request.get("CopySourceIfMatch")
        if same is not None and source.etag.strip('"') != same.strip('"'):
            raise ServiceError("PreconditionFailed", UNMET, status=412)
        made = self.write(request["Bucket"], request["Key"], source.body or b"", media_type=source.media_type)
        digest = base64.b64encode(hashlib.sha256(made.body or b"").digest()).decode()
        checksum = {"ChecksumSHA256": digest} if request.get("ChecksumAlgorithm") == "SHA256" else {}
        return {
            "CopyObjectResult": {"ETag": made.etag, "LastModified": made.at} | checksum,
            "CopySourceVersionId": source.id,
            "VersionId": made.id,
        }

    def delete_object(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Bucket", "Key", "VersionId"), "DeleteObject")
        return self._delete(self._bucket(request["Bucket"]), str(request["Key"]), request.get("VersionId"))

    def delete_objects(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Bucket", "Delete", *OF_SDK), "DeleteObjects")
        bucket, asked = self._bucket(request["Bucket"]), request["Delete"]
        only(asked, ("Objects", "Quiet"), "DeleteObjects")
        if not 1 <= len(asked["Objects"]) <= MOST_KEYS:
            raise ServiceError(
                "MalformedXML",
                "The XML you provided was not well-formed or did not validate against our published schema",
            )
        deleted, errors = [], []
        for each in asked["Objects"]:
            if self.may(caller, delete_check(bucket.name, each["Key"], each.get("VersionId"))):
                deleted.append(_as_deleted(each, self._delete(bucket, each["Key"], each.get("VersionId"))))
            else:
                errors.append({**each, "Code": "AccessDenied", "Message": "Access Denied"})
        answer = {} if asked.get("Quiet") else {"Deleted": deleted}
        return answer | ({"Errors": errors} if errors else {})

    def _delete(self, bucket: Bucket, key: str, version: str | None) -> Answer:
        if version is None:
            marker = Version(self.world.new_id("v-", 30), self._second(), None)
            bucket.add(key, marker)
            return {"DeleteMarker": True, "VersionId": marker.id}
        gone = bucket.remove(key, version)
        was_marker = {"DeleteMarker": True} if gone is not None and gone.body is None else {}
        return {"VersionId": version} | was_marker

    # lists

    def list_objects_v2(self, caller: Caller, request: Request) -> Answer:
        known = (
            "Bucket",
            "Prefix",
            "Delimiter",
            "MaxKeys",
            "ContinuationToken",
            "StartAfter",
            "EncodingType",
        )
        only(request, known, "ListObjectsV2")
        bucket = self._bucket(request["Bucket"])
        prefix, delimiter = request.get("Prefix", ""), request.get("Delimiter", "")
        after = read_token(request.get("ContinuationToken")) or request.get("StartAfter", "")
        limit = int(request.get("MaxKeys", MOST_KEYS))
        found = list_entries(bucket.keys, prefix, delimiter, after)
        page, more = take_page(found, min(limit, self.page_size, MOST_KEYS))
        encoded = encoder_for(request.get("EncodingType"))
        contents = [describe_object(bucket, entry, encoded) for entry, is_group in page if not is_group]
        groups = [{"Prefix": encoded(entry)} for entry, is_group in page if is_group]
        answer: Answer = {
            "Name": bucket.name,
            "Prefix": encoded(prefix),
            "MaxKeys": limit,
            "KeyCount": len(page),
            "IsTruncated": more,
        }
        more_facts = {
            "Contents": contents,
            "CommonPrefixes": groups,
            "Delimiter": encoded(delimiter),
            "EncodingType": request.get("EncodingType"),
            "ContinuationToken": request.get("ContinuationToken"),
            "StartAfter": encoded(request.get("StartAfter", "")),
            "NextContinuationToken": write_token(page[-1][0]) if more and page else None,
        }
        return answer | {name: value for name, value in more_facts.items() if value}

    def _require_version(self, request: Mapping[str, Any]) -> Version:
        """Return the requested version. Raises AWS's error if it is missing."""
        bucket, key, wanted = self._bucket(request["Bucket"]), str(request["Key"]), request.get("VersionId")
        version = find_version(bucket, key, wanted)
        if version is None and wanted:
            raise ServiceError("NoSuchVersion", "The specified version does not exist.", status=404)
        if version is None:
            raise ServiceError("NoSuchKey", MISSING, status=404)
        if version.body is None:
            raise ServiceError(
                "MethodNotAllowed", "The specified method is not allowed against this resource.", status=405
            )
        return version

    def _bucket(self, name: str) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            raise ServiceError("NoSuchBucket", "The specified bucket does not exist", status=404)
        return found


def _version_fields(version: Version) -> Structure:
    return {
        "ETag": version.etag,
        "VersionId": version.id,
        "LastModified": version.at,
        "ContentType": version.media_type,
        "ServerSideEncryption": "AES256",
        "Metadata": {},
    }


def _as_deleted(asked: Mapping[str, str], answer: Mapping[str, Any]) -> Structure:
    """Return an object's entry in the answer of DeleteObjects."""
    marker = {"DeleteMarker": True, "DeleteMarkerVersionId": answer["VersionId"]}
    return {**asked, **(marker if answer.get("DeleteMarker") else {})}


def _digest(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
