"""Checks of an account before a deployment: encryption keys and their policies."""

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from trainyard.client import Session
from trainyard.client.admin import keys
from trainyard.client.admin.preflight import Preflight, encryption
from trainyard.client.admin.requirements import Row, Verdict

KEY = "arn:aws:kms:us-east-1:123456789012:key/9a746902-de65-49d8-9234-021e1480b584"


ALIAS = "arn:aws:kms:us-east-1:123456789012:alias/ours"


@pytest.mark.parametrize(
    ("by_default", "default", "chosen", "verdict"),
    [
        (False, None, "", Verdict.READY),
        (True, "alias/aws/ebs", "", Verdict.READY),
        (True, KEY, KEY, Verdict.READY),
        (True, KEY, "", Verdict.SHORT),
        (True, ALIAS, "", Verdict.SHORT),
    ],
)
def test_an_account_that_encrypts_with_its_own_key_is_told_to_say_so(
    by_default: bool, default: str | None, chosen: str, verdict: Verdict
) -> None:
    session = Session(boto3.Session("key", "secret", region_name="us-east-1"))
    with Stubber(session.client("ec2")) as ec2:
        ec2.add_response("get_ebs_encryption_by_default", {"EbsEncryptionByDefault": by_default})
        if default:
            ec2.add_response("get_ebs_default_kms_key_id", {"KmsKeyId": default})
        row = encryption(session, chosen)
    assert row.verdict is verdict
    assert ("deploy with -c kms_key=" in row.next_step) == (verdict is Verdict.SHORT)
    assert default != KEY or chosen or f"kms_key={KEY}" in row.next_step
    assert default != ALIAS or f"describe-key --key-id {ALIAS}" in row.next_step


ACCOUNT = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*"}
LOGS = {
    "Effect": "Allow",
    "Principal": {"Service": "logs.us-east-1.amazonaws.com"},
    "Action": ["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
}
ALARMS = {
    "Effect": "Allow",
    "Principal": {"Service": ["cloudwatch.amazonaws.com"]},
    "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
}
POLICIES = [
    # name, the policy's statements, principals without access
    ("whole", [ACCOUNT, LOGS, ALARMS], []),
    ("as AWS makes it", [ACCOUNT], ["CloudWatch Logs", "CloudWatch's alarms"]),
    ("by the account's number", [ACCOUNT | {"Principal": {"AWS": "123456789012"}}, LOGS, ALARMS], []),
    ("of named administrators", [LOGS, ALARMS], ["the account 123456789012"]),
    ("refused", [ACCOUNT, LOGS | {"Effect": "Deny"}, ALARMS], ["CloudWatch Logs"]),
    ("too little", [ACCOUNT, LOGS, ALARMS | {"Action": "kms:Decrypt"}], ["CloudWatch's alarms"]),
]


@pytest.mark.parametrize(
    ("statements", "missing"), [row[1:] for row in POLICIES], ids=[row[0] for row in POLICIES]
)
def test_what_a_keys_policy_lacks_is_said_with_the_statement(
    statements: list[dict[str, Any]], missing: list[str]
) -> None:
    session = Session(boto3.Session("key", "secret", region_name="us-east-1"))
    with Stubber(session.client("kms")) as kms:
        kms.add_response("get_key_policy", {"Policy": json.dumps({"Statement": statements})})
        found = dict(keys.missing_statements(session, KEY))
    assert list(found) == missing
    assert all(statement["Effect"] == "Allow" for statement in found.values())


@pytest.mark.parametrize(
    ("verdicts", "can_deploy", "is_ready"),
    [
        ([Verdict.READY], True, True),
        ([Verdict.READY, Verdict.SHORT], True, False),
        ([Verdict.REQUESTED], True, False),
        ([Verdict.UNKNOWN], True, False),
        ([Verdict.SHORT, Verdict.MISSING], False, False),
    ],
)
def test_a_yard_can_be_deployed_unless_something_is_missing(
    verdicts: list[Verdict], can_deploy: bool, is_ready: bool
) -> None:
    seen = Preflight(tuple(Row("a quota", "0", "8", verdict) for verdict in verdicts))
    assert (seen.can_deploy, seen.is_ready) == (can_deploy, is_ready)
