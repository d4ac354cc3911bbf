"""S3: one versioned bucket or more, read after write always; conditional writes, ranges, pages of a thousand keys."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from simulation.aws.door.api import PARTITION, Caller, Check, ServiceError
from simulation.aws.door.parameters import not_simulated, only
from simulation.world.world import World

MOST_KEYS = 1000
MOST_KEY_BYTES = 1024
LAST = chr(0x10FFFF)
RANGE = re.compile(r"bytes=(\d*)-(\d*)")
TRANSPORT = {"aws:securetransport": "true", "s3:tlsversion": "1.3"}
"""What bucket policies ask about a request."""

OF_SDK = ("ChecksumAlgorithm", "ChecksumCRC32", "ChecksumMode", "ContentLength", "ContentMD5")
"""What SDKs add of their own accord; a simulated line garbles nothing."""
MISSING = "The specified key does not exist."

OnEvent = Callable[[str, str, str, str, int, str], None]
"""(detail type, bucket, key, version, size, ETag)"""


@dataclass(frozen=True)
class Version:
    """One version of an object, of that second; without a body it is a delete marker."""

    id: str
    at: datetime
    body: bytes | None
    etag: str = ""
    media_type: str = "binary/octet-stream"


@dataclass
class Bucket:
    """`versions` by key, the newest last; `keys` are those whose newest is no delete marker, in order."""

    name: str
    keys: list[str] = field(default_factory=list)
    versions: dict[str, list[Version]] = field(default_factory=dict)

    def newest(self, key: str) -> Version | None:
        """The object as it is; None where there is none (any more)."""
        known = self.versions.get(key)
        return known[-1] if known and known[-1].body is not None else None

    def add(self, key: str, version: Version) -> None:
        was_there = self.newest(key) is not None
        self.versions.setdefault(key, []).append(version)
        self._list(key, was_there=was_there)

    def remove(self, key: str, version: str) -> Version | None:
        """Takes one version away for ever."""
        was_there = self.newest(key) is not None
        known = self.versions.get(key, [])
        gone = next((each for each in known if each.id == version), None)
        if gone is not None:
            known.remove(gone)
            self._list(key, was_there=was_there)
        return gone

    def _list(self, key: str, *, was_there: bool) -> None:
        is_there = self.newest(key) is not None
        if is_there and not was_there:
            insort(self.keys, key)
        elif was_there and not is_there:
            del self.keys[bisect_left(self.keys, key)]


class S3:
    """`on_event` hears of every `Object Created`. `may` judges each object of a DeleteObjects."""

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
        """Keys of a page at most, where a thousand are too many for a test."""
        self.conflicts: Callable[[Caller, str], bool] = lambda caller, key: False
        """Whether somebody else writes that key conditionally at this moment."""
        self._buckets: dict[str, Bucket] = {}

    # what the world and the oracle use

    def create_bucket(self, name: str) -> None:
        self._buckets[name] = Bucket(name)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Every key under the prefix, in order."""
        keys = self._buckets[bucket].keys
        return keys[bisect_left(keys, prefix) : bisect_right(keys, prefix + LAST)]

    def body(self, bucket: str, key: str) -> bytes | None:
        version = self._buckets[bucket].newest(key)
        return version.body if version else None

    def versions(self, bucket: str, key: str) -> tuple[Version, ...]:
        """Oldest first, delete markers among them."""
        return tuple(self._buckets[bucket].versions.get(key, ()))

    def write(
        self, bucket: str, key: str, body: bytes, *, media_type: str = "binary/octet-stream"
    ) -> Version:
        """Whoever may: a person, or the world."""
        version = Version(self.world.new_id("v-", 8), self._second(), body, f'"{_digest(body)}"', media_type)
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
            return [_delete_check(bucket, key, request.get("VersionId"))]
        if operation == "delete_objects":
            return []  # one by one, as its answer tells
        if operation == "copy_object":
            source, source_key, version = source_of(request["CopySource"])
            written = Check("s3:PutObject", arn(bucket, key), TRANSPORT)
            return [*self._read_checks(source, source_key, version), written]
        raise not_simulated(f"s3.{operation}")

    def _read_checks(self, bucket: str, key: str, version: str | None) -> list[Check]:
        """Who may not list a bucket is not told that an object is not there: denied, is the answer then."""
        action = "s3:GetObjectVersion" if version else "s3:GetObject"
        check = Check(action, arn(bucket, key), TRANSPORT)
        known = self._buckets.get(bucket)
        if known is None or _version(known, key, version) is not None:
            return [check]
        return [check, Check("s3:ListBucket", arn(bucket), TRANSPORT)]

    # objects

    def put_object(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
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
            _bytes(request.get("Body", b"")),
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
            raise ServiceError(
                "PreconditionFailed",
                "At least one of the pre-conditions you specified did not hold",
                status=412,
            )

    def get_object(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        only(request, ("Bucket", "Key", "Range", "VersionId", "IfNoneMatch", *OF_SDK), "GetObject")
        version = self._found(request)
        if request.get("IfNoneMatch") == version.etag:
            raise ServiceError("304", "Not Modified", status=304)
        answer = _facts(version) | {"AcceptRanges": "bytes"}
        assert version.body is not None
        body, size = version.body, len(version.body)
        if "Range" not in request:
            return answer | {"Body": body, "ContentLength": size}
        first, end = _bounds(request["Range"], size)
        part = body[first:end]
        return answer | {
            "Body": part,
            "ContentLength": len(part),
            "ContentRange": f"bytes {first}-{end - 1}/{size}",
        }

    def head_object(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        """Its refusals have no body: botocore shows their status."""
        only(request, ("Bucket", "Key", "VersionId", *OF_SDK), "HeadObject")
        try:
            version = self._found(request)
        except ServiceError as error:
            words = {404: "Not Found", 405: "Method Not Allowed"}.get(error.status, "Bad Request")
            raise ServiceError(str(error.status), words, status=error.status) from error
        return _facts(version) | {"AcceptRanges": "bytes", "ContentLength": len(version.body or b"")}

    def copy_object(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        only(request, ("Bucket", "Key", "CopySource", *OF_SDK), "CopyObject")
        bucket, key, version = source_of(request["CopySource"])
        asked = {"Bucket": bucket, "Key": key} | ({"VersionId": version} if version else {})
        source = self._found(asked)
        made = self.write(request["Bucket"], request["Key"], source.body or b"", media_type=source.media_type)
        return {
            "CopyObjectResult": {"ETag": made.etag, "LastModified": made.at},
            "CopySourceVersionId": source.id,
            "VersionId": made.id,
        }

    def delete_object(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        only(request, ("Bucket", "Key", "VersionId"), "DeleteObject")
        return self._delete(self._bucket(request["Bucket"]), str(request["Key"]), request.get("VersionId"))

    def delete_objects(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
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
            if self.may(caller, _delete_check(bucket.name, each["Key"], each.get("VersionId"))):
                deleted.append(_as_deleted(each, self._delete(bucket, each["Key"], each.get("VersionId"))))
            else:
                errors.append({**each, "Code": "AccessDenied", "Message": "Access Denied"})
        answer = {} if asked.get("Quiet") else {"Deleted": deleted}
        return answer | ({"Errors": errors} if errors else {})

    def _delete(self, bucket: Bucket, key: str, version: str | None) -> dict[str, Any]:
        if version is None:
            marker = Version(self.world.new_id("v-", 8), self._second(), None)
            bucket.add(key, marker)
            return {"DeleteMarker": True, "VersionId": marker.id}
        gone = bucket.remove(key, version)
        was_marker = {"DeleteMarker": True} if gone is not None and gone.body is None else {}
        return {"VersionId": version} | was_marker

    # lists

    def list_objects_v2(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
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
        after = _after(request.get("ContinuationToken")) or request.get("StartAfter", "")
        limit = int(request.get("MaxKeys", MOST_KEYS))
        found = _entries(bucket.keys, prefix, delimiter, after)
        page, more = _first(found, min(limit, self.page_size, MOST_KEYS))
        encoded = _encoder(request.get("EncodingType"))
        contents = [_listed(bucket, entry, encoded) for entry, is_group in page if not is_group]
        groups = [{"Prefix": encoded(entry)} for entry, is_group in page if is_group]
        answer: dict[str, Any] = {
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
            "NextContinuationToken": _token(page[-1][0]) if more and page else None,
        }
        return answer | {name: value for name, value in more_facts.items() if value}

    def _found(self, request: Mapping[str, Any]) -> Version:
        """What a read asks for; raises what AWS says where it is not there."""
        bucket, key, wanted = self._bucket(request["Bucket"]), str(request["Key"]), request.get("VersionId")
        version = _version(bucket, key, wanted)
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


def arn(bucket: str, key: str | None = None) -> str:
    name = f"arn:{PARTITION}:s3:::{bucket}"
    return name if key is None else f"{name}/{key}"


def source_of(source: str | Mapping[str, str]) -> tuple[str, str, str | None]:
    """Bucket, key and version of a CopySource."""
    if not isinstance(source, str):
        return source["Bucket"], source["Key"], source.get("VersionId")
    path, _, version = source.lstrip("/").partition("?versionId=")
    bucket, _, key = unquote(path).partition("/")
    return bucket, key, version or None


def _delete_check(bucket: str, key: str, version: str | None) -> Check:
    action = "s3:DeleteObjectVersion" if version else "s3:DeleteObject"
    return Check(action, arn(bucket, key), TRANSPORT)


def _version(bucket: Bucket, key: str, wanted: str | None) -> Version | None:
    if not wanted:
        return bucket.newest(key)
    return next((each for each in bucket.versions.get(key, ()) if each.id == wanted), None)


def _facts(version: Version) -> dict[str, Any]:
    return {
        "ETag": version.etag,
        "VersionId": version.id,
        "LastModified": version.at,
        "ContentType": version.media_type,
        "ServerSideEncryption": "AES256",
        "Metadata": {},
    }


def _bounds(asked: str, size: int) -> tuple[int, int]:
    """First byte, and the one after the last."""
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


def _entries(keys: list[str], prefix: str, delimiter: str, after: str) -> Iterator[tuple[str, bool]]:
    """Keys and, as True, what several have in common up to the delimiter; in order, without looking at each."""
    place = max(bisect_left(keys, prefix), bisect_right(keys, after) if after else 0)
    if delimiter and after.endswith(delimiter):
        place = max(place, bisect_right(keys, after + LAST))
    while place < len(keys) and keys[place].startswith(prefix):
        key = keys[place]
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            yield key, False
            place += 1
        else:
            group = key[: cut + len(delimiter)]
            yield group, True
            place = bisect_right(keys, group + LAST)


def _first(found: Iterator[tuple[str, bool]], count: int) -> tuple[list[tuple[str, bool]], bool]:
    """So many of them, and whether there are more."""
    page: list[tuple[str, bool]] = []
    for entry in found:
        if len(page) == count:
            return page, True
        page.append(entry)
    return page, False


def _listed(bucket: Bucket, key: str, encoded: Callable[[str], str]) -> dict[str, Any]:
    version = bucket.versions[key][-1]
    return {
        "Key": encoded(key),
        "Size": len(version.body or b""),
        "ETag": version.etag,
        "LastModified": version.at,
        "StorageClass": "STANDARD",
    }


def _as_deleted(asked: Mapping[str, str], answer: Mapping[str, Any]) -> dict[str, Any]:
    """How DeleteObjects tells what became of one object."""
    marker = {"DeleteMarker": True, "DeleteMarkerVersionId": answer["VersionId"]}
    return {**asked, **(marker if answer.get("DeleteMarker") else {})}


def _encoder(kind: str | None) -> Callable[[str], str]:
    """boto3 always asks for `url`, and decodes it."""
    if kind not in (None, "url"):
        raise not_simulated(f"the EncodingType {kind}")
    return quote if kind else str


def _token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode()


def _after(token: str | None) -> str:
    """The last entry of the page before."""
    if not token:
        return ""
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except ValueError as error:
        raise ServiceError("InvalidArgument", "The continuation token provided is incorrect") from error


def _bytes(body: Any) -> bytes:
    """botocore makes a BytesIO of what it is given."""
    if isinstance(body, io.BytesIO):
        return body.getvalue()
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    raise not_simulated(f"a Body of type {type(body).__name__}")


def _digest(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
