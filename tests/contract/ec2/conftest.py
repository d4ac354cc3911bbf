"""Shared parts of the EC2 tests: clients, a template, hosts that end with their test, and their events."""

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Cloud, eventually

BASE_PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
TRUST_EC2 = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
)


def unique(prefix: str = "t") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def tags(*kinds: str, **values: str) -> list[dict[str, Any]]:
    return [
        {"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in values.items()]} for kind in kinds
    ]


def error_code(call: Callable[..., Any], **parameters: Any) -> str:
    """Return the code of the error that this call must raise."""
    with pytest.raises(ClientError) as raised:
        call(**parameters)
    return str(raised.value.response["Error"]["Code"])


class Yard:
    """Launches hosts and observes them."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.ec2 = cloud.client("ec2")
        self.iam = cloud.client("iam")
        self.ssm = cloud.client("ssm")
        self.sqs = cloud.client("sqs")
        self.started: list[str] = []
        self.base = self.ssm.get_parameter(Name=BASE_PARAMETER)["Parameter"]["Value"]
        self.subnets = {
            s["AvailabilityZone"]: s["SubnetId"]
            for s in self.ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])[
                "Subnets"
            ]
        }
        self.profile, self.role_arn = self._profile()
        self.queue = self._event_queue()
        self.seen: list[dict[str, Any]] = []

    def _profile(self) -> tuple[str, str]:
        name = unique("host")
        role = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST_EC2)["Role"]["Arn"]
        self.iam.create_instance_profile(InstanceProfileName=name)
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        return name, role

    def _event_queue(self) -> str:
        name, events = unique("ec2-events"), self.cloud.client("events")
        url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        allow = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "events.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": arn,
                }
            ],
        }
        self.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(allow)})
        events.put_rule(Name=name, EventPattern=json.dumps({"source": ["aws.ec2"]}))
        events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
        return str(url)

    # -- launch

    def template(self, **data: Any) -> str:
        """Create a launch template like Trainyard's. `data` overrides fields."""
        launch = {
            "ImageId": f"resolve:ssm:{BASE_PARAMETER}",
            "InstanceType": "g6.xlarge",
            "IamInstanceProfile": {"Name": self.profile},
            "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
            "InstanceInitiatedShutdownBehavior": "terminate",
            "BlockDeviceMappings": [
                {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100, "Encrypted": True}}
            ],
            "TagSpecifications": tags("instance", "volume", yard="of-the-template"),
            **data,
        }
        made = self.ec2.create_launch_template(LaunchTemplateName=unique(), LaunchTemplateData=launch)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def fleet(
        self, template: str, pools: list[str], hosts: int, market: str = "spot", **more: Any
    ) -> dict[str, Any]:
        """Launch a strict gang from capacity pools written "type/zone letter", in this order."""
        rules = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": hosts}
        block = "SpotOptions" if market == "spot" else "OnDemandOptions"
        strategy = "capacity-optimized-prioritized" if market == "spot" else "prioritized"
        overrides = [
            {
                "InstanceType": pool.split("/")[0],
                "SubnetId": self.subnets[f"us-east-1{pool.split('/')[1]}"],
                "Priority": float(number),
            }
            for number, pool in enumerate(pools)
        ]
        request = {
            "Type": "instant",
            block: {"AllocationStrategy": strategy, **rules},
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "$Latest"},
                    "Overrides": overrides,
                }
            ],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": hosts,
                "DefaultTargetCapacityType": market,
            },
            **more,
        }
        answer: dict[str, Any] = self.ec2.create_fleet(**request)
        self.started += members(answer)
        return answer

    def run(self, count: int = 1, **parameters: Any) -> list[str]:
        """Call RunInstances with the base image, or with a template if given."""
        request = {"MinCount": count, "MaxCount": count, **parameters}
        if "LaunchTemplate" not in request:
            request = {"ImageId": self.base, "InstanceType": "t3.micro", **request}
        answer = self.ec2.run_instances(**request)
        ids = [one["InstanceId"] for one in answer["Instances"]]
        self.started += ids
        return ids

    # -- observe

    def instance(self, instance_id: str) -> dict[str, Any]:
        answer = self.ec2.describe_instances(InstanceIds=[instance_id])
        return dict(answer["Reservations"][0]["Instances"][0])

    def state(self, instance_id: str) -> str:
        return str(self.instance(instance_id)["State"]["Name"])

    def becomes(self, instance_id: str, state: str) -> dict[str, Any]:
        """Wait until the instance is in this state and return it."""
        assert eventually(lambda: self.state(instance_id) == state), (
            f"{instance_id} is {self.state(instance_id)}"
        )
        return self.instance(instance_id)

    def printed(self, instance_id: str) -> str:
        """Return the output of this host's user data from its disk."""
        log = self.cloud.state / "instances" / instance_id / "upper" / "var" / "log" / "cloud-init-output.log"
        return log.read_text() if log.exists() else ""

    def spot_request(self, instance_id: str) -> dict[str, Any]:
        wanted = [{"Name": "instance-id", "Values": [instance_id]}]
        return dict(self.ec2.describe_spot_instance_requests(Filters=wanted)["SpotInstanceRequests"][0])

    def events(self, about: str, detail_type: str) -> list[dict[str, Any]]:
        """Return the events so far whose resources contain this id, in order."""
        while messages := self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                self.seen.append(json.loads(message["Body"]))
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return [
            event
            for event in self.seen
            if event["detail-type"] == detail_type
            and any(arn.endswith(f"/{about}") for arn in event["resources"])
        ]

    def states_seen(self, instance_id: str) -> list[str]:
        events = self.events(instance_id, "EC2 Instance State-change Notification")
        return [event["detail"]["state"] for event in events]

    # -- change

    def fault(self, kind: str, **details: Any) -> dict[str, Any]:
        return dict(self.cloud.admin("POST", f"/faults/{kind}", details))

    def refuse(self, pool: str, slots: int = 0) -> None:
        instance_type, zone, market = pool.split("/")
        self.fault("refuse", instance_type=instance_type, zone=zone, market=market, slots=slots)


def members(fleet: dict[str, Any]) -> list[str]:
    return [instance_id for row in fleet["Instances"] for instance_id in row["InstanceIds"]]


@pytest.fixture(scope="session")
def whole_yard(cloud: Cloud) -> Yard:
    return Yard(cloud)


@pytest.fixture
def yard(whole_yard: Yard) -> Iterator[Yard]:
    """Yield the yard, then clear all faults and terminate the test's hosts."""
    whole_yard.started.clear()
    yield whole_yard
    whole_yard.fault("clear")
    if whole_yard.started:
        whole_yard.ec2.terminate_instances(InstanceIds=list(dict.fromkeys(whole_yard.started)))
