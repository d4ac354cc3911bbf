"""Refusals of KMS in AWS's words, and uses of a key that KMS does not allow."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import kms

from localcloud.base.refusals import Refusal, Request, Rule, first
from localcloud.patches import MINISTACK

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32}", re.IGNORECASE)
USAGES = {
    "Encrypt": "ENCRYPT_DECRYPT",
    "Sign": "SIGN_VERIFY",
    "Verify": "SIGN_VERIFY",
    "GenerateMac": "GENERATE_VERIFY_MAC",
    "VerifyMac": "GENERATE_VERIFY_MAC",
    "DeriveSharedSecret": "KEY_AGREEMENT",
}
"""The usage that each operation needs."""
MOST_TAGS = 50
OPERATIONS = [
    "DescribeKey",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "CreateGrant",
    "GetKeyPolicy",
    "PutKeyPolicy",
    "EnableKey",
    "DisableKey",
    "ScheduleKeyDeletion",
    "CancelKeyDeletion",
    "EnableKeyRotation",
    "GetKeyRotationStatus",
    "TagResource",
    "UntagResource",
    "ListResourceTags",
    "ListGrants",
    "RevokeGrant",
    "RotateKeyOnDemand",
    "GetPublicKey",
]
"""Operations with a key and no other rule."""


def install() -> None:
    """Name the account in the description of a key."""
    name = "services.kms:_key_metadata"
    stock = MINISTACK.stock(name)
    MINISTACK.replace(name, lambda rec: {"AWSAccountId": get_account_id(), **stock(rec)})


def missing(key: str) -> Refusal | None:
    """Return KMS's error for a key that it cannot find; None for one that exists."""
    if kms._resolve_key(key) is not None:
        return None
    region, account = get_region(), get_account_id()
    here = f"arn:aws:kms:{region}:{account}:"
    name = key.removeprefix(here) if key.startswith("arn:") else key
    if key.startswith("arn:") and key.split(":")[3] != region:
        message = f"Invalid arn {key.split(':')[3]}"
    elif name.startswith("alias/"):
        message = f"Alias {here}{name} is not found."
    elif UUID.fullmatch(name.removeprefix("key/")):
        message = f"Key '{here}key/{name.removeprefix('key/')}' does not exist"
    else:
        message = f"Invalid keyId '{key}'"
    return Refusal("NotFoundException", message)


def unusable(key: str) -> Refusal | None:
    """Return KMS's error for a key that is missing, disabled or about to be deleted."""
    if wrong := missing(key):
        return wrong
    record = kms._resolve_key(key)
    if record["KeyState"] == "Disabled":
        return Refusal("DisabledException", f"{record['Arn']} is disabled.")
    if record["KeyState"] == "PendingDeletion":
        return Refusal("KMSInvalidStateException", f"{record['Arn']} is pending deletion.")
    return None


def _with_key(request: Request) -> Refusal | None:
    return missing(str(request["KeyId"])) if request.get("KeyId") else None


def _use(operation: str) -> Rule:
    def rule(request: Request) -> Refusal | None:
        if wrong := _with_key(request):
            return wrong
        record = kms._resolve_key(str(request["KeyId"])) or {}
        usage = record.get("KeyUsage")
        if usage == USAGES[operation]:
            return None
        message = f"{record['Arn']} key usage is {usage} which is not valid for {operation}."
        return Refusal("InvalidKeyUsageException", message)

    return rule


def _decrypt(request: Request) -> Refusal | None:
    if wrong := _with_key(request):
        return wrong
    blob = request.get("CiphertextBlob") or b""
    data = base64.b64decode(blob) if isinstance(blob, str) else blob
    origin = kms._keys.get(data[:36].decode("utf-8", "ignore"))
    named = kms._resolve_key(str(request["KeyId"])) if request.get("KeyId") else None
    if named is None or "_symmetric_key" not in named:
        return None
    if origin is None:
        return Refusal("InvalidCiphertextException", "")
    if origin is not named:
        message = "The key ID in the request does not identify a CMK that can perform this operation."
        return Refusal("IncorrectKeyException", message)
    return None


def _tags(request: Request) -> Refusal | None:
    keys = [str(tag["TagKey"]) for tag in request.get("Tags") or ()]
    wrong = None
    if any(number > 1 for number in Counter(keys).values()):
        wrong = "Duplicate tag keys"
    elif any(key.lower().startswith("aws:") for key in keys):
        wrong = "Tags beginning with aws: are reserved"
    elif len(keys) > MOST_TAGS:
        wrong = "Too many tags"
    return Refusal("TagException", wrong) if wrong else None


def _create_key(request: Request) -> Refusal | None:
    spec = request.get("KeySpec") or request.get("CustomerMasterKeySpec") or "SYMMETRIC_DEFAULT"
    if spec != "SYMMETRIC_DEFAULT" and not request.get("KeyUsage"):
        message = "You must specify a KeyUsage value for all KMS keys except for symmetric encryption keys."
        return Refusal("ValidationException", message)
    return _tags(request)


def _create_alias(request: Request) -> Refusal | None:
    if str(request.get("AliasName", "")).startswith("alias/"):
        return missing(str(request.get("TargetKeyId", "")))
    manual = "https://docs.aws.amazon.com/kms/latest/developerguide/kms-alias.html"
    return Refusal("ValidationException", f'Alias must start with the prefix "alias/". Please see {manual}')


RULES: Mapping[str, Any] = {
    **dict.fromkeys(OPERATIONS, _with_key),
    **{operation: _use(operation) for operation in USAGES},
    "TagResource": lambda request: first(_with_key(request), _tags(request)),
    "Decrypt": _decrypt,
    "CreateKey": _create_key,
    "CreateAlias": _create_alias,
}
