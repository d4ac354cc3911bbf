"""Requests for S3 objects that S3 refuses only because of their parameters."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import parse_qsl

from localcloud.base.refusals import Refusal, Request, Rule, first

DIGEST_BYTES = {"CRC32": 4, "CRC32C": 4, "CRC64NVME": 8, "SHA1": 20, "SHA256": 32}
COMPOSED = {
    "CRC32": "BOTH",
    "CRC32C": "BOTH",
    "CRC64NVME": "FULL_OBJECT",
    "SHA1": "COMPOSITE",
    "SHA256": "COMPOSITE",
}
"""The types of a multipart checksum that each algorithm supports."""
DIGESTS: Mapping[str, Callable[[bytes], bytes]] = {
    "CRC32": lambda body: zlib.crc32(body).to_bytes(4),
    "SHA1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    "SHA256": lambda body: hashlib.sha256(body).digest(),
}
MD5_BYTES = 16
VERSION = re.compile(r"[\w.-]{32}|[0-9a-f-]{36}|null", re.ASCII)
"""A version ID of S3 or of ministack."""
ACCOUNT = re.compile(r"\d{12}")
OWN_ACCOUNT = "123456789012"
TAG = re.compile(r"[\w\s.:/=+@-]*")
MOST_PARTS = 10_000
MALFORMED_XML = "The XML you provided was not well-formed or did not validate against our published schema"


def invalid_argument(message: str) -> Refusal:
    return Refusal("InvalidArgument", message)


def invalid_request(message: str) -> Refusal:
    return Refusal("InvalidRequest", message)


def owner(request: Request) -> Refusal | None:
    """Refuse an expected owner that is not an account number, or is another account."""
    given = request.get("ExpectedBucketOwner")
    if given in (None, OWN_ACCOUNT):
        return None
    if ACCOUNT.fullmatch(str(given)):
        return Refusal("AccessDenied", "Access Denied", 403)
    words = "The value of the expected bucket owner parameter must be an AWS Account ID..."
    return Refusal("InvalidBucketOwnerAWSAccountID", f"{words} [{given}]")


def version(request: Request) -> Refusal | None:
    """Refuse a version ID that S3 never gives."""
    given = request.get("VersionId")
    if given is None or VERSION.fullmatch(str(given)):
        return None
    return invalid_argument("Invalid version id specified")


def deleted(request: Request) -> Refusal | None:
    """Refuse a bypass of retention, because no bucket has an object lock, and a malformed version."""
    if "BypassGovernanceRetention" in request:
        words = "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets."
        return invalid_argument(words)
    return version(request)


def malformed_tag(tags: Iterable[tuple[str, str]]) -> str | None:
    """Return S3's words for a key or a value with a foreign character."""
    for key, value in tags:
        if not key or not TAG.fullmatch(key):
            return "The TagKey you have provided is invalid"
        if not TAG.fullmatch(value):
            return "The TagValue you have provided is invalid"
    return None


def _checksums(request: Request) -> Refusal | None:
    given = [name for name in DIGEST_BYTES if request.get(f"Checksum{name}")]
    if len(given) > 1:
        words = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        return invalid_request(words)
    for name in given:
        if _size(str(request[f"Checksum{name}"])) != DIGEST_BYTES[name]:
            return invalid_request(f"Value for x-amz-checksum-{name.lower()} header is invalid.")
    body = request.get("Body")
    return _digests(request, body) if isinstance(body, bytes) else None


def _digests(request: Request, body: bytes) -> Refusal | None:
    """Compare the digests with the body, if there is one: the local cloud compares them when it stores the body."""
    for name, digest in DIGESTS.items():
        given = request.get(f"Checksum{name}")
        if given is not None and base64.b64decode(given) != digest(body):
            return Refusal("BadDigest", f"The {name} you specified did not match the calculated checksum.")
    given = request.get("ContentMD5")
    if given is not None and _size(str(given)) != MD5_BYTES:
        return Refusal("InvalidDigest", "The Content-MD5 you specified was invalid.")
    if given is not None and base64.b64decode(given) != hashlib.md5(body, usedforsecurity=False).digest():
        return Refusal("BadDigest", "The Content-MD5 you specified did not match what we received.")
    return None


def _size(digest: str) -> int | None:
    try:
        return len(base64.b64decode(digest, validate=True))
    except binascii.Error:
        return None


def _put(request: Request) -> Refusal | None:
    if request.get("IfNoneMatch") not in (None, "*"):
        words = "A header you provided implies functionality that is not implemented"
        return Refusal("NotImplemented", words, 501)
    tags = parse_qsl(str(request.get("Tagging") or ""), keep_blank_values=True)
    if len(tags) != len(dict(tags)):
        return invalid_argument(
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without "
            "tag name duplicates."
        )
    if wrong := malformed_tag(tags):
        return Refusal("InvalidTag", wrong)
    return _checksums(request)


def _get(request: Request) -> Refusal | None:
    if wrong := version(request):
        return wrong
    if request.get("Range") and request.get("PartNumber"):
        return invalid_request("Cannot specify both Range header and partNumber query parameter")
    return None


def _copy(request: Request) -> Refusal | None:
    source = str(request.get("CopySource", "")).removeprefix("/")
    if "/" not in source.partition("?")[0] or source.partition("?")[0].endswith("/"):
        return invalid_argument("Invalid copy source object key")
    changes = {
        "StorageClass",
        "ServerSideEncryption",
        "WebsiteRedirectLocation",
        "SSECustomerKey",
        "ChecksumAlgorithm",
    }
    is_changed = bool(changes & set(request)) or request.get("MetadataDirective") == "REPLACE"
    if source != f"{request.get('Bucket')}/{request.get('Key')}" or is_changed:
        return None
    return invalid_request(
        "This copy request is illegal because it is trying to copy an object to itself without changing the object's "
        "metadata, storage class, website redirect location or encryption attributes."
    )


def _create_upload(request: Request) -> Refusal | None:
    algorithm, kind = request.get("ChecksumAlgorithm"), request.get("ChecksumType")
    if algorithm and algorithm not in DIGEST_BYTES:
        known = "[CRC32, CRC32C, CRC64NVME, SHA1, SHA256]"
        words = f"Checksum algorithm provided is unsupported. Please try again with any of the valid types: {known}"
        return invalid_request(words)
    if kind and not algorithm:
        words = "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
        return invalid_request(words)
    if kind and algorithm and COMPOSED[algorithm] not in ("BOTH", kind):
        name = str(algorithm).lower()
        return invalid_request(f"The {kind} checksum type cannot be used with the {name} checksum algorithm.")
    return None


def _part(request: Request) -> Refusal | None:
    if 1 <= int(request.get("PartNumber", 1)) <= MOST_PARTS:
        return _checksums(request)
    return invalid_argument(f"Part number must be an integer between 1 and {MOST_PARTS}, inclusive")


def _complete(request: Request) -> Refusal | None:
    if "MultipartUpload" not in request:
        return invalid_request("You must specify at least one part")
    numbers = [each.get("PartNumber") for each in request["MultipartUpload"].get("Parts") or ()]
    if not numbers or None in numbers:
        return Refusal("MalformedXML", MALFORMED_XML)
    if numbers != sorted(set(numbers)):
        words = "The list of parts was not in ascending order. Parts must be ordered by part number."
        return Refusal("InvalidPartOrder", words)
    return None


def _and_owner(rule: Callable[[Request], Refusal | None]) -> Rule:
    return lambda request: first(owner(request), rule(request))


RULES: Mapping[str, Rule] = {
    "PutObject": _and_owner(_put),
    "GetObject": _and_owner(_get),
    "HeadObject": _and_owner(_get),
    "DeleteObject": _and_owner(deleted),
    "DeleteObjects": _and_owner(deleted),
    "CopyObject": _and_owner(_copy),
    "CreateMultipartUpload": _and_owner(_create_upload),
    "UploadPart": _and_owner(_part),
    "CompleteMultipartUpload": _and_owner(_complete),
}
