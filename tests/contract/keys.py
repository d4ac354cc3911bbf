"""KMS keys, and denials without them."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud

OWN = {
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "kms:*",
    "Resource": "*",
}
LOGS = {
    "Effect": "Allow",
    "Principal": {"Service": f"logs.{REGION}.amazonaws.com"},
    "Action": ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
    "Resource": "*",
}


def new_key(cloud: Cloud, *statements: dict[str, Any]) -> str:
    """Create a key whose policy has these statements. By default the account's IAM decides, as on AWS."""
    policy = {"Version": "2012-10-17", "Statement": list(statements or (OWN,))}
    made = cloud.client("kms").create_key(Policy=json.dumps(policy))
    return str(made["KeyMetadata"]["Arn"])


def denied(call: Any, **given: Any) -> str:
    with pytest.raises(ClientError) as raised:
        call(**given)
    assert raised.value.response["Error"]["Code"] in (
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
    )
    return str(raised.value.response["Error"]["Message"])
