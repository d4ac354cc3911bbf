"""Shared parts of the tests of hosts: an instance profile, instances that end with their test, and commands."""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Cloud, allow, eventually

BASE_PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
OVER = {"Success", "Failed", "Cancelled", "TimedOut"}
REGISTER = allow("ssm:UpdateInstanceInformation")


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def wrote(path: str) -> str:
    """Return a shell line that waits until the file has content."""
    return f"until test -s {path}; do sleep 0.05; done"


def error_code(call: Any, **parameters: Any) -> str:
    """Return the code of the error that this call must raise."""
    with pytest.raises(ClientError) as raised:
        call(**parameters)
    return str(raised.value.response["Error"]["Code"])


@dataclass
class Hosts:
    """Hosts of one cloud, with actions on them."""

    cloud: Cloud
    profile: str
    launched: list[str] = field(default_factory=list)

    @property
    def ec2(self) -> Any:
        return self.cloud.client("ec2")

    @property
    def ssm(self) -> Any:
        return self.cloud.client("ssm")

    def make_profile(self, *statements: dict[str, Any]) -> str:
        """Create an instance profile whose role has these statements."""
        iam = self.cloud.client("iam")
        role = self.cloud.role("ec2.amazonaws.com", *statements).rpartition("/")[2]
        iam.create_instance_profile(InstanceProfileName=role)
        iam.add_role_to_instance_profile(InstanceProfileName=role, RoleName=role)
        return role

    def launch(self, count: int = 1, *, tags: dict[str, str] | None = None, **more: Any) -> list[str]:
        """Launch instances of the base image. Instances with the default profile have registered with SSM on return."""
        image = self.ssm.get_parameter(Name=BASE_PARAMETER)["Parameter"]["Value"]
        wanted = {
            "ImageId": image,
            "InstanceType": "g5.xlarge",
            "IamInstanceProfile": {"Name": self.profile},
            "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
            **more,
        }
        if tags:
            listed = [{"Key": key, "Value": value} for key, value in tags.items()]
            wanted["TagSpecifications"] = [{"ResourceType": "instance", "Tags": listed}]
        answer = self.ec2.run_instances(MinCount=count, MaxCount=count, **wanted)
        ids = [instance["InstanceId"] for instance in answer["Instances"]]
        self.launched += ids
        if wanted["IamInstanceProfile"]["Name"] == self.profile:
            self.registered(ids)
        return ids

    def one(self, **more: Any) -> str:
        return self.launch(**more)[0]

    def registered(self, ids: Sequence[str]) -> None:
        eventually(lambda: set(ids) <= set(self.known_to_ssm()))

    def known_to_ssm(self) -> list[str]:
        pages = self.ssm.get_paginator("describe_instance_information").paginate()
        return [host["InstanceId"] for page in pages for host in page["InstanceInformationList"]]

    def instance(self, instance_id: str) -> dict[str, Any]:
        found = self.ec2.describe_instances(InstanceIds=[instance_id])
        return dict(found["Reservations"][0]["Instances"][0])

    def state(self, instance_id: str) -> str:
        return str(self.instance(instance_id)["State"]["Name"])

    def until(self, instance_id: str, state: str) -> None:
        eventually(lambda: self.state(instance_id) == state)

    def stop_and_start(self, instance_id: str) -> None:
        """Stop and start the host, and wait until SSM lists it again."""
        self.ec2.stop_instances(InstanceIds=[instance_id])
        self.until(instance_id, "stopped")
        self.ec2.start_instances(InstanceIds=[instance_id])
        self.until(instance_id, "running")
        self.registered([instance_id])

    def send(self, instance_ids: list[str], *lines: str, **more: Any) -> str:
        """Start a shell command and return its id."""
        parameters = {"commands": list(lines)}
        sent = self.ssm.send_command(
            DocumentName="AWS-RunShellScript", InstanceIds=instance_ids, Parameters=parameters, **more
        )
        return str(sent["Command"]["CommandId"])

    def over(self, command_id: str, instance_id: str, **more: Any) -> dict[str, Any]:
        """Wait for the end of an invocation and return it."""

        def look() -> dict[str, Any] | None:
            found = self.ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id, **more)
            return dict(found) if found["Status"] in OVER else None

        found: dict[str, Any] = eventually(look)
        return found

    def run(self, instance_id: str, *lines: str) -> str:
        """Return the output of a shell command, which must succeed."""
        ended = self.over(self.send([instance_id], *lines), instance_id)
        assert ended["Status"] == "Success", ended
        return str(ended["StandardOutputContent"]).strip()

    def document(self, content: dict[str, Any], **more: Any) -> str:
        """Create an SSM document with this content (schema version and type are added). Return its name."""
        name = unique("document")
        whole = json.dumps({"schemaVersion": "2.2", **content})
        self.ssm.create_document(Name=name, Content=whole, DocumentType="Command", **more)
        return name

    def terminate_all(self) -> None:
        if self.launched:
            self.ec2.terminate_instances(InstanceIds=self.launched)
        self.launched.clear()


@pytest.fixture(scope="session")
def host_profile(cloud: Cloud) -> str:
    return Hosts(cloud, "").make_profile(REGISTER)


@pytest.fixture
def hosts(cloud: Cloud, host_profile: str) -> Iterator[Hosts]:
    made = Hosts(cloud, host_profile)
    yield made
    made.terminate_all()


@pytest.fixture(scope="module")
def shared(cloud: Cloud, host_profile: str) -> Iterator[Hosts]:
    """Yield hosts for tests that leave no trace on them."""
    made = Hosts(cloud, host_profile)
    yield made
    made.terminate_all()


@pytest.fixture(scope="module")
def pair(shared: Hosts) -> list[str]:
    """Launch two hosts that the tests of one module share."""
    return shared.launch(2, tags={"Name": unique("pair")})
