"""What a yard lacks, by what EC2 says."""

import boto3
import pytest
from botocore.stub import Stubber

from trainyard.client import Session
from trainyard.client.preflight import Preflight, Row, Verdict, encryption

KEY = "arn:aws:kms:us-east-1:123456789012:key/9a746902-de65-49d8-9234-021e1480b584"


@pytest.mark.parametrize(
    ("by_default", "key", "verdict"),
    [
        (False, None, Verdict.READY),
        (True, "alias/aws/ebs", Verdict.READY),
        (True, KEY, Verdict.SHORT),
    ],
)
def test_spot_hosts_need_a_grant_where_the_account_encrypts_with_its_own_key(
    by_default: bool, key: str | None, verdict: Verdict
) -> None:
    session = Session(boto3.Session("key", "secret", region_name="us-east-1"))
    with Stubber(session.client("ec2")) as ec2:
        ec2.add_response("get_ebs_encryption_by_default", {"EbsEncryptionByDefault": by_default})
        if key:
            ec2.add_response("get_ebs_default_kms_key_id", {"KmsKeyId": key})
        row = encryption(session)
    assert row.verdict is verdict
    assert ("aws kms create-grant" in row.next_step) == (verdict is Verdict.SHORT)


@pytest.mark.parametrize(
    ("verdicts", "can_deploy", "is_ready"),
    [
        ([Verdict.READY], True, True),
        ([Verdict.READY, Verdict.SHORT], True, False),
        ([Verdict.ASKED], True, False),
        ([Verdict.UNKNOWN], True, False),
        ([Verdict.SHORT, Verdict.MISSING], False, False),
    ],
)
def test_a_yard_can_be_deployed_unless_something_is_missing(
    verdicts: list[Verdict], can_deploy: bool, is_ready: bool
) -> None:
    seen = Preflight(tuple(Row("a quota", "0", "8", verdict) for verdict in verdicts))
    assert (seen.can_deploy, seen.is_ready) == (can_deploy, is_ready)
