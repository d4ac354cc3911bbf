"""A builder of the local cloud: this repository's SSM documents, executed on a host like in the bake workflow."""

import hashlib
import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stacks.constructs import packages
from stacks.documents import text_of
from tests.contract.conftest import Cloud, allow, eventually
from tests.contract.hosts.conftest import OVER, REGISTER, Hosts

DOCUMENTS = ("install", "test", "generalize")
MINUTES = 10


@dataclass(frozen=True)
class Done:
    """An ended command."""

    status: str
    stdout: str
    stderr: str


@dataclass
class Bakery:
    """A bucket with the host software, the SSM documents, and a builder."""

    hosts: Hosts
    name: str = field(default_factory=lambda: f"yard-{uuid.uuid4().hex[:8]}")
    recipes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.s3, self.ssm = self.hosts.cloud.client("s3"), self.hosts.cloud.client("ssm")
        self.s3.create_bucket(Bucket=self.name)
        self.s3.put_object(Bucket=self.name, Key="software.zip", Body=packed_software())
        for word in DOCUMENTS:
            self.ssm.create_document(
                Name=f"{self.name}-{word}",
                Content=text_of(word),
                DocumentType="Command",
                DocumentFormat="YAML",
            )

    def builder(self, *denied: str) -> str:
        """Launch a host with a builder's permissions in docs/contracts/images.md, except those `denied`."""
        bucket = f"arn:aws:s3:::{self.name}"
        statements = [
            allow(action, resource)
            for action, resource in (
                ("s3:GetObject", f"{bucket}/software.zip"),
                ("s3:GetObject", f"{bucket}/runs/*"),
                ("s3:PutObject", f"{bucket}/runs/*"),
                ("s3:ListBucket", bucket),
                ("cloudwatch:GetMetricData", "*"),
            )
            if action not in denied
        ]
        profile = self.hosts.make_profile(REGISTER, *statements)
        lease = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        tags = {"trainyard:run": "bake", "trainyard:attempt": "1", "trainyard:lease": lease}
        return self.start(IamInstanceProfile={"Name": profile}, tags=tags)

    def start(self, **how: Any) -> str:
        host = self.hosts.one(**how)
        self.hosts.registered([host])
        return host

    def recipe(self, run: str, **keys: Any) -> None:
        """Write the recipe like the control plane."""
        self.recipes[run] = json.dumps({"name": "mine", "hash": "0123456789abcdef"} | keys)
        self.put(f"runs/{run}/recipe.json", self.recipes[run])

    def put(self, key: str, body: str) -> None:
        self.s3.put_object(Bucket=self.name, Key=key, Body=body.encode())

    def read(self, key: str) -> str:
        body: bytes = self.s3.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body.decode()

    def log(self, run: str) -> list[str]:
        """Return the lines of the builder's log without time and host."""
        prefix = f"runs/{run}/logs/builder/"
        listed = self.s3.list_objects_v2(Bucket=self.name, Prefix=prefix).get("Contents", [])
        text = "".join(self.read(each["Key"]) for each in listed)
        return [line.partition(" | ")[2] for line in text.splitlines()]

    def install(self, host: str, run: str) -> Done:
        return self.send(host, "install", Software=f"s3://{self.name}/software.zip", **self._of(run))

    def test(self, host: str, run: str) -> Done:
        return self.send(host, "test", **self._of(run))

    def generalize(self, host: str, depth: str) -> Done:
        return self.send(host, "generalize", Depth=depth)

    def send(self, host: str, word: str, **parameters: str) -> Done:
        listed = {name: [value] for name, value in parameters.items()}
        document = f"{self.name}-{word}"
        sent = self.ssm.send_command(InstanceIds=[host], DocumentName=document, Parameters=listed)
        command = str(sent["Command"]["CommandId"])
        said = eventually(lambda: self._over(command, host), MINUTES * 60)
        return Done(said["Status"], said["StandardOutputContent"], said["StandardErrorContent"])

    def image_of(self, host: str) -> str:
        """Return an available image of the host."""
        ec2 = self.hosts.ec2
        image = str(
            ec2.create_image(InstanceId=host, Name=f"{host}-{uuid.uuid4().hex[:6]}", NoReboot=True)["ImageId"]
        )
        eventually(lambda: ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "available", 300)
        return image

    def _of(self, run: str) -> dict[str, str]:
        return {
            "Recipe": f"s3://{self.name}/runs/{run}/recipe.json",
            "Sha256": hashlib.sha256(self.recipes.get(run, "").encode()).hexdigest(),
            "Run": run,
        }

    def _over(self, command: str, host: str) -> Any:
        try:
            said = self.ssm.get_command_invocation(CommandId=command, InstanceId=host)
        except self.ssm.exceptions.InvocationDoesNotExist:  # shortly after it was sent
            return None
        return said if said["Status"] in OVER else None


def packed_software() -> bytes:
    """Pack the host software like the yard."""
    folder = packages.software_folder()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(folder))
    return packed.getvalue()


@pytest.fixture(scope="session")
def bakery(cloud: Cloud) -> Iterator[Bakery]:
    hosts = Hosts(cloud, Hosts(cloud, "").make_profile(REGISTER))
    yield Bakery(hosts)
    if hosts.launched:
        hosts.ec2.terminate_instances(InstanceIds=hosts.launched)


@pytest.fixture(scope="session")
def builder(bakery: Bakery) -> str:
    return bakery.builder()
