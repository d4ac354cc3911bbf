"""A yard under a customer's KMS key: its data are encrypted with the key, and each role may use it."""

import json

from tests.e2e import beside
from tests.e2e.runs import Runs
from tests.support import quick

SERVICES = {
    "logs.us-east-1.amazonaws.com": [
        "kms:Encrypt",
        "kms:Decrypt",
        "kms:ReEncrypt*",
        "kms:GenerateDataKey*",
        "kms:DescribeKey",
    ],
    "cloudwatch.amazonaws.com": ["kms:Decrypt", "kms:GenerateDataKey*"],
}


def test_a_run_trains_and_leaves_all_it_keeps_under_the_key(runs: Runs) -> None:
    key = new_key(runs)
    keyed = beside.deployed(runs, "Keyed", "-c", "yard=Keyed", "-c", f"kms_key={key}")
    s3, ec2 = (keyed.yard.session.client(service) for service in ("s3", "ec2"))
    run = keyed.in_mid_training(keyed.job("keyed", program={"args": quick.UNTIL_RELEASED}))
    for host in keyed.yard.instances(run.id):
        (disk,) = host["BlockDeviceMappings"]
        (volume,) = ec2.describe_volumes(VolumeIds=[disk["Ebs"]["VolumeId"]])["Volumes"]
        assert (volume["Encrypted"], volume["KmsKeyId"]) == (True, key)
    keyed.let_finish(run)
    keyed.finish(run)
    assert run.succeeded, run.why()
    for name in ("summary.json", "model/", "attempts/1/logs/"):
        found = s3.list_objects_v2(Bucket=keyed.yard.bucket.name, Prefix=f"runs/{run.id}/{name}")["Contents"]
        head = s3.head_object(Bucket=keyed.yard.bucket.name, Key=found[0]["Key"])
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", key)


def test_a_key_that_ec2_is_not_let_use_ends_the_run_with_that_reason(runs: Runs) -> None:
    key = new_key(runs)
    keyed = beside.deployed(runs, "Barred", "-c", "yard=Barred", "-c", f"kms_key={key}")
    kms = keyed.yard.session.client("kms")
    for grant in kms.list_grants(KeyId=key)["Grants"]:
        kms.revoke_grant(KeyId=key, GrantId=grant["GrantId"])
    run = keyed.run(keyed.job("barred"))
    text = (run.summary["outcome"], run.summary["error"], len(run.summary["attempts"]))
    assert text == ("failed", "Misconfigured", 1), run.why()
    assert "Client.InternalError" in run.summary["reason"]


def new_key(runs: Runs) -> str:
    """Create a key with the policy of docs/runbook.md."""
    session = runs.yard.session
    account = session.client("sts").get_caller_identity()["Account"]
    own = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{account}:root"},
        "Action": "kms:*",
        "Resource": "*",
    }
    others = [
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions, "Resource": "*"}
        for service, actions in SERVICES.items()
    ]
    policy = json.dumps({"Version": "2012-10-17", "Statement": [own, *others]})
    return str(session.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"])
