"""Requests that S3 refuses because of the bucket, the object, the upload or the key that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import time
from typing import Any
from urllib.parse import unquote

from ministack.services import kms as stock_kms
from ministack.services import lambda_svc, s3, sns, sqs

from localcloud.base.refusals import Refusal, Request, Rule, objects
from localcloud.base.refusals.objects import MALFORMED_XML, invalid_argument, invalid_request
from localcloud.services import kms

SMALLEST_PART = 5 * 1024 * 1024
WHOLE = "FULL_OBJECT"
SYSTEM_TAGS = "System tags cannot be added/updated by requester"
RESERVED_TAGS = (
    'User-defined tag keys can\'t start with "aws:". This prefix is reserved for system tags. '
    'Remove "aws:" from your tag keys and try again.'
)
COPIED = re.compile(r"bytes=(\d+)-\d+")
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


def _copy_part(request: Request) -> Refusal | None:
    source, _, _ = str(request.get("CopySource", "")).removeprefix("/").partition("?")
    bucket, _, key = unquote(source).partition("/")
    record = (s3._buckets.get(bucket) or {}).get("objects", {}).get(key)
    chosen = COPIED.fullmatch(str(request.get("CopySourceRange", "")))
    if record is None or chosen is None or int(chosen[1]) < record["size"]:
        return None
    return invalid_request("The specified copy range is invalid for the source object size")


def _part(request: Request) -> Refusal | None:
    """Refuse a part whose checksum is of another algorithm than its upload's."""
    upload = s3._multipart_uploads.get(request.get("UploadId")) or {}
    expected = upload.get("checksum_algorithm")
    given = next((each for each in objects.DIGEST_BYTES if request.get(f"Checksum{each}")), None)
    actual = given or request.get("ChecksumAlgorithm")
    if expected is None or actual == expected or (actual is None and _mode(expected) == WHOLE):
        return None
    kinds = (
        f"expected checksum Type: {expected.lower()}, actual checksum Type: {str(actual or 'null').lower()}"
    )
    return invalid_request(f"Checksum Type mismatch occurred, {kinds}")


def _mode(algorithm: str | None) -> str:
    """Return the mode of an upload's checksum that S3 chooses."""
    return {None: "null", "CRC64NVME": WHOLE}.get(algorithm, "COMPOSITE")


def _complete(request: Request) -> Refusal | None:
    upload = s3._multipart_uploads.get(request.get("UploadId"))
    if upload is None:
        return None
    chosen = request["MultipartUpload"]["Parts"]
    return _parts(upload, chosen) or _whole(upload, chosen, request)


def _whole(
    upload: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]], request: Request
) -> Refusal | None:
    algorithm = upload.get("checksum_algorithm")
    mode, kind = _mode(algorithm), request.get("ChecksumType")
    if kind not in (None, mode) and (algorithm not in ("CRC32", "CRC32C")):
        same = "The complete request must use the same checksum mode."
        return invalid_request(f"The upload was created using the {mode} checksum mode. {same}")
    for each in chosen if mode == "COMPOSITE" and kind != WHOLE else ():
        number, given = each["PartNumber"], each.get(f"Checksum{algorithm}")
        if given is None:
            return invalid_request(
                f"The upload was created using a {str(algorithm).lower()} checksum. The complete request must include "
                f"the checksum for each part. It was missing for part {number} in the request."
            )
        if given != upload["parts"][number]["checksums"].get(algorithm):
            words = f"The {str(algorithm).lower()} you specified for part {number} did not match what we received."
            return Refusal("BadDigest", words)
    size = sum(len(upload["parts"][each["PartNumber"]]["body"]) for each in chosen)
    if int(request.get("MpuObjectSize", size)) == size:
        return None
    given = f"header value {request['MpuObjectSize']} does not match what was computed: {size}"
    return invalid_request(f"The provided 'x-amz-mp-object-size' {given}")


def _parts(upload: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]) -> Refusal | None:
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
    wrong = _unfit_tags((request.get("Tagging") or {}).get("TagSet") or (), SYSTEM_TAGS)
    return Refusal("InvalidTag", wrong) if wrong else None


def _object_tags(request: Request) -> Refusal | None:
    prefixed = "Your TagKey cannot be prefixed with aws:"
    wrong = _unfit_tags((request.get("Tagging") or {}).get("TagSet") or (), prefixed)
    return Refusal("InvalidTag", wrong) if wrong else None


def _unfit_tags(tags: Sequence[Mapping[str, str]], reserved: str) -> str | None:
    pairs = [(str(tag["Key"]), str(tag.get("Value") or "")) for tag in tags]
    if len(pairs) != len(dict(pairs)):
        return "Cannot provide multiple Tags with the same key"
    if any(key.startswith("aws:") for key, _ in pairs):
        return reserved
    return objects.malformed_tag(pairs)


def _create_bucket(request: Request) -> Refusal | None:
    given = request.get("ObjectOwnership")
    if given not in (None, "BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"):
        return invalid_argument(f"Invalid x-amz-object-ownership header: {given}")
    wrong = _unfit_tags((request.get("CreateBucketConfiguration") or {}).get("Tags") or (), RESERVED_TAGS)
    return Refusal("InvalidTag", wrong) if wrong else None


def _lifecycle(request: Request) -> Refusal | None:
    smallest = request.get("TransitionDefaultMinimumObjectSize")
    if smallest not in (None, "varies_by_storage_class", "all_storage_classes_128K"):
        return invalid_request(f"Invalid TransitionDefaultMinimumObjectSize found: {smallest}")
    for rule in (request.get("LifecycleConfiguration") or {}).get("Rules") or ():
        keys = [tag["Key"] for tag in ((rule.get("Filter") or {}).get("And") or {}).get("Tags") or ()]
        if len(keys) != len(set(keys)):
            return invalid_request("Duplicate Tag Keys are not allowed.")
        dates = [
            each.get("Date") for each in (rule.get("Expiration") or {}, *(rule.get("Transitions") or ()))
        ]
        if any(date and date.time() != time() for date in dates):
            return invalid_argument("'Date' must be at midnight GMT")
    return None


def _notification(request: Request) -> Refusal | None:
    chosen = request.get("NotificationConfiguration") or {}
    lists = [each for each in chosen.values() if isinstance(each, list)]
    rules = [
        rule["Name"]
        for each in lists
        for target in each
        for rule in ((target.get("Filter") or {}).get("Key") or {}).get("FilterRules") or ()
    ]
    if not all(str(name).lower() in ("prefix", "suffix") for name in rules):
        return invalid_argument("filter rule name must be either prefix or suffix")
    arns = [arn for each in lists for target in each if (arn := _destination(target)) is not None]
    if any(arn.count(":") < 5 for arn in arns):
        return invalid_argument("The ARN could not be parsed")
    if request.get("SkipDestinationValidation") or all(map(_is_there, arns)):
        return None
    return invalid_argument("Unable to validate the following destination configurations")


def _destination(target: Mapping[str, Any]) -> str | None:
    return next((str(target[each]) for each in DESTINATIONS if each in target), None)


def _is_there(arn: str) -> bool:
    service, name = arn.split(":")[2], arn.rpartition(":")[2]
    match service:
        case "sns":
            return arn in sns._topics
        case "sqs":
            return any(url.endswith(f"/{name}") for url in sqs._queues)
        case _:
            return name in lambda_svc._functions


DESTINATIONS = ("QueueArn", "TopicArn", "LambdaFunctionArn")


_OWN: Mapping[str, Any] = {
    "PutObject": _write_key,
    "GetObject": _read,
    "HeadObject": _read,
    "CopyObject": _copy,
    "CreateMultipartUpload": _write_key,
    "CompleteMultipartUpload": _complete,
    "UploadPart": _part,
    "UploadPartCopy": _copy_part,
    "PutObjectTagging": _object_tags,
    "PutBucketLifecycleConfiguration": _lifecycle,
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
