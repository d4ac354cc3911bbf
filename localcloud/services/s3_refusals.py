"""Requests that S3 refuses because of the bucket, the object, the upload or the key that they name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from ministack.services import kms as stock_kms
from ministack.services import s3

from localcloud.base.refusals import Refusal, Request, Rule, objects
from localcloud.base.refusals.objects import MALFORMED_XML, invalid_argument, invalid_request
from localcloud.services import kms

SMALLEST_PART = 5 * 1024 * 1024
INVALID_PART = (
    "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified "
    "entity tag may not match the part's entity tag."
)


def _write_key(request: Request) -> Refusal | None:
    key = request.get("SSEKMSKeyId")
    if not key or str(key).endswith(":alias/aws/s3"):
        return None
    return _by_kms(kms.unusable(str(key)))


def _by_kms(wrong: Refusal | None) -> Refusal | None:
    return Refusal(f"KMS.{wrong.code}", wrong.message) if wrong else None


def _read(request: Request) -> Refusal | None:
    record = (s3._buckets.get(request.get("Bucket")) or {}).get("objects", {}).get(request.get("Key"))
    if record is None or request.get("VersionId"):
        return None
    key = (record.get("preserved_headers") or {}).get("x-amz-server-side-encryption-aws-kms-key-id")
    if key and stock_kms._resolve_key(key) and (wrong := kms.unusable(key)):
        return _by_kms(wrong)
    parts = len(record.get("parts") or ()) or 1
    if int(request.get("PartNumber", 1)) > parts:
        return Refusal("InvalidPartNumber", "The requested partnumber is not satisfiable", 416)
    return None


def _copy(request: Request) -> Refusal | None:
    source, _, version = str(request.get("CopySource", "")).removeprefix("/").partition("?versionId=")
    bucket, _, key = unquote(source).partition("/")
    kept = s3._object_versions.get((bucket, key)) or ()
    if any(each["version_id"] == version and each.get("is_delete_marker") for each in kept):
        words = "The source of a copy request may not specifically refer to a delete marker by version id."
        return invalid_request(words)
    return _write_key(request)


def _complete(request: Request) -> Refusal | None:
    upload = s3._multipart_uploads.get(request.get("UploadId"))
    if upload is None:
        return None
    chosen = request["MultipartUpload"]["Parts"]
    for each in chosen:
        stored = upload["parts"].get(each["PartNumber"])
        if stored is None or str(each.get("ETag", "")).strip('"') != stored["etag"].strip('"'):
            return Refusal("InvalidPart", INVALID_PART)
    if any(len(upload["parts"][each["PartNumber"]]["body"]) < SMALLEST_PART for each in chosen[:-1]):
        return Refusal("EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
    return None


def _delete_bucket(request: Request) -> Refusal | None:
    name = request.get("Bucket")
    if name not in s3._bucket_versioning or not any(
        versions and bucket == name for (bucket, _), versions in s3._object_versions.items()
    ):
        return None
    words = "The bucket you tried to delete is not empty. You must delete all versions in the bucket."
    return Refusal("BucketNotEmpty", words, 409)


def _put_versioning(request: Request) -> Refusal | None:
    if (request.get("VersioningConfiguration") or {}).get("Status"):
        return None
    code = "IllegalVersioningConfigurationException"
    return Refusal(code, "The Versioning element must be specified")


def _put_policy(request: Request) -> Refusal | None:
    text = request.get("Policy") or ""
    try:
        policy = json.loads(text)
    except ValueError:
        policy = None
    if not isinstance(policy, dict):
        return Refusal("MalformedPolicy", "Policies must be valid JSON and the first byte must be '{'")
    return None if "Statement" in policy else Refusal("MalformedPolicy", "Missing required field Statement")


def _put_encryption(request: Request) -> Refusal | None:
    rules = (request.get("ServerSideEncryptionConfiguration") or {}).get("Rules") or ()
    if not rules:
        return Refusal("MalformedXML", MALFORMED_XML)
    for rule in rules:
        chosen = rule.get("ApplyServerSideEncryptionByDefault") or {}
        if chosen.get("SSEAlgorithm") == "AES256" and chosen.get("KMSMasterKeyID"):
            wanted = "the default sse algorithm is not aws:kms or aws:kms:dsse"
            return invalid_argument(f"a KMSMasterKeyID is not applicable if {wanted}")
    return None


def _tags(request: Request) -> Refusal | None:
    keys = [str(tag["Key"]) for tag in (request.get("Tagging") or {}).get("TagSet") or ()]
    wrong = None
    if len(keys) != len(set(keys)):
        wrong = "Cannot provide multiple Tags with the same key"
    elif any(key.startswith("aws:") for key in keys):
        wrong = "System tags cannot be added/updated by requester"
    return Refusal("InvalidTag", wrong) if wrong else None


def _create_bucket(request: Request) -> Refusal | None:
    given = request.get("ObjectOwnership")
    if given in (None, "BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"):
        return None
    return invalid_argument(f"Invalid x-amz-object-ownership header: {given}")


def _notification(request: Request) -> Refusal | None:
    chosen = request.get("NotificationConfiguration") or {}
    lists = [each for each in chosen.values() if isinstance(each, list)]
    rules = [
        rule["Name"]
        for each in lists
        for target in each
        for rule in ((target.get("Filter") or {}).get("Key") or {}).get("FilterRules") or ()
    ]
    if all(str(name).lower() in ("prefix", "suffix") for name in rules):
        return None
    return invalid_argument("filter rule name must be either prefix or suffix")


_OWN: Mapping[str, Any] = {
    "PutObject": _write_key,
    "GetObject": _read,
    "HeadObject": _read,
    "CopyObject": _copy,
    "CreateMultipartUpload": _write_key,
    "CompleteMultipartUpload": _complete,
    "DeleteBucket": _delete_bucket,
    "PutBucketVersioning": _put_versioning,
    "PutBucketPolicy": _put_policy,
    "PutBucketTagging": _tags,
    "CreateBucket": _create_bucket,
    "PutBucketNotificationConfiguration": _notification,
    "PutBucketEncryption": _put_encryption,
}


def refusal(operation: str, request: Request) -> Refusal | None:
    """Return why S3 refuses the request: by its parameters first, then by what it names."""
    by_parameters: Rule = objects.RULES.get(operation, objects.owner)
    return by_parameters(request) or (_OWN[operation](request) if operation in _OWN else None)
