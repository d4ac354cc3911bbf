"""Checks with one small spot host, for ten minutes at most. The host powers itself off after ten minutes, too."""

import base64
import uuid

from scripts.aws_check.check import Account, Check, Finding, Stage, Verdict, expect
from scripts.aws_check.free import IMAGE

TYPE, MOST_SPOT_DOLLARS = "t3.micro", "0.02"
POWER_OFF = "#!/bin/sh\nshutdown -h +10\n"
SECONDS = 300


def fleets(account: Account) -> Finding:
    """A fleet with a used client token returns the hosts of the first one. A gang that is too large has no host."""
    name = f"trainyard-check-{uuid.uuid4().hex[:12]}"
    image = account.call("ssm", "get_parameter", Name=IMAGE)["Parameter"]["Value"]
    data = {
        "ImageId": image,
        "InstanceType": TYPE,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "UserData": base64.b64encode(POWER_OFF.encode()).decode(),
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": name}]}],
    }
    account.call("ec2", "create_launch_template", LaunchTemplateName=name, LaunchTemplateData=data)
    account.undo.append(lambda: account.call("ec2", "delete_launch_template", LaunchTemplateName=name))
    first = _fleet(account, name, token=name)
    if not first:
        return Finding(Verdict.UNKNOWN, f"EC2 launched no {TYPE}; the recording has its errors")
    account.undo.append(lambda: account.call("ec2", "terminate_instances", InstanceIds=first))
    second = _fleet(account, name, token=name)
    none = _fleet(account, name, token=f"{name}-2", hosts=2, most_dollars="0.0001")
    if extra := sorted({*second, *none} - {*first}):
        account.undo.append(lambda: account.call("ec2", "terminate_instances", InstanceIds=extra))
    running = account.until(lambda: _state(account, first[0]) == "running", SECONDS)
    account.call("ec2", "terminate_instances", InstanceIds=first)
    ended = account.until(lambda: _state(account, first[0]) in ("shutting-down", "terminated"), SECONDS)
    same = "the same host" if second == first else f"{len(second)} hosts"
    seen = f"the token's second use: {same}; a gang below the spot price: {len(none)} hosts; "
    seen += f"running after {_seconds(running)}, ending after {_seconds(ended)}"
    return expect(second == first and not none and ended is not None, seen)


def _fleet(
    account: Account, template: str, *, token: str, hosts: int = 1, most_dollars: str = MOST_SPOT_DOLLARS
) -> list[str]:
    """Return the instances of an instant spot fleet of the product's form."""
    answer = account.call(
        "ec2",
        "create_fleet",
        ClientToken=token,
        Type="instant",
        TargetCapacitySpecification={"TotalTargetCapacity": hosts, "DefaultTargetCapacityType": "spot"},
        SpotOptions={
            "SingleInstanceType": True,
            "SingleAvailabilityZone": True,
            "MinTargetCapacity": hosts,
        },
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Default"},
                "Overrides": [{"InstanceType": TYPE, "MaxPrice": most_dollars}],
            }
        ],
    )
    return [host for found in answer.get("Instances", []) for host in found["InstanceIds"]]


def _state(account: Account, instance: str) -> str:
    found = account.call("ec2", "describe_instances", InstanceIds=[instance])
    return str(found["Reservations"][0]["Instances"][0]["State"]["Name"])


def _seconds(seconds: float | None) -> str:
    return "more than 5 min" if seconds is None else f"{seconds:.0f} s"


CHECKS = (
    Check(
        "fleets",
        "A second CreateFleet with the same client token returns the hosts of the first, and a gang that does not fit "
        "has no host.",
        Stage.HOST,
        fleets,
    ),
)
