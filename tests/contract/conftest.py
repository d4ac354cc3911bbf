"""A running local cloud for the contract tests, with its own port and state. It ends with the session."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lambdas.aws import clients
from localcloud.base import root_key

ACCOUNT, REGION = "123456789012", "us-east-1"
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Path(__file__).parent / "settings.yaml"
MOST_CLIENTS = 100
"""Limit of clients with their connections.

The tests also run under `ulimit -n 1024`, and each role has its own clients.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.contract)


DECOY = "only_on_the_machine"
"""A module that is installed on the machine in every way of Python. Hosts and functions must not see it."""


def packages_of_the_machine(folder: Path) -> dict[str, str]:
    """Return shell variables for a Python with user packages: by PYTHONPATH, in the user's site, by a .pth file."""
    site = folder / "base/lib/python{}.{}/site-packages".format(*sys.version_info)
    for place in (folder / "path", folder / "pth", site):
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{DECOY}.py").touch()
    (site / "decoy.pth").write_text(f"{folder / 'pth'}\n")
    startup = folder / "startup.py"
    startup.write_text(f"import {DECOY}\n")
    return {
        "PYTHONPATH": str(folder / "path"),
        "PYTHONUSERBASE": str(folder / "base"),
        "PYTHONSTARTUP": str(startup),
    }


@dataclass(frozen=True)
class Credentials:
    """Credentials of a client."""

    key: str
    secret: str
    token: str | None = None


@dataclass
class Cloud:
    """A local cloud, used through its command line and its endpoint."""

    state: Path
    port: int
    settings: Path = SETTINGS
    _clients: dict[tuple[str, Credentials], Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def root(self) -> Credentials:
        """Return the account's own credentials, as `localcloud env` prints them."""
        key = root_key.load_key(self.state)
        return Credentials(key.access_key_id, key.secret_access_key)

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `python -m localcloud ARGUMENTS --state ...`."""
        argv = [sys.executable, "-m", "localcloud", *arguments, "--state", str(self.state)]
        environment = os.environ | packages_of_the_machine(self.state.with_name("machine"))
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False, env=environment)
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def up(self) -> None:
        self.command("up", "--detach", "--port", str(self.port), "--settings", str(self.settings))

    def down(self) -> None:
        self.command("down")

    def client(self, service: str, credentials: Credentials | None = None) -> Any:
        """Return a boto3 client without retries, because tests check the first answer."""
        who = credentials or self.root
        if (service, who) not in self._clients:
            if len(self._clients) == MOST_CLIENTS:
                self._clients.pop(next(iter(self._clients))).close()
            self._clients[service, who] = boto3.client(
                service,
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id=who.key,
                aws_secret_access_key=who.secret,
                aws_session_token=who.token,
                config=Config(retries={"max_attempts": 0}, inject_host_prefix=False),
            )
        return self._clients[service, who]

    def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call a route under /_localcloud/."""
        data = json.dumps(body).encode() if body is not None else None
        key = {"Authorization": root_key.load_key(self.state).as_basic()}
        request = urllib.request.Request(f"{self.endpoint}/_localcloud{path}", data, key, method=method)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)

    def role(self, service: str, *statements: Mapping[str, Any]) -> str:
        """Create a role with these statements for `service` (or, for `root`, the account). Return its ARN."""
        iam, name = self.client("iam"), f"role-{uuid.uuid4().hex[:12]}"
        principal = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"} if service == "root" else {"Service": service}
        trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        if statements:
            policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
            iam.put_role_policy(RoleName=name, PolicyName="allowed", PolicyDocument=policy)
        return str(arn)

    def acting_as(self, *statements: Mapping[str, Any]) -> Credentials:
        """Return credentials of a new role with only these statements."""
        return self.acting_in(self.role("root", *statements))

    def acting_in(self, role: str) -> Credentials:
        """Return credentials of this role, which the account may assume."""
        given = self.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
        return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])

    def ledger(self, name: str) -> None:
        """Create a table like the yard's ledger."""
        self.client("dynamodb").create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
        )

    def function(self, code: str, *statements: Mapping[str, Any], **settings: Any) -> str:
        """Create a Lambda function with this module as its code (`handler(event, context)`). Return its name."""
        name = f"function-{uuid.uuid4().hex[:12]}"
        self.client("lambda").create_function(
            FunctionName=name,
            Runtime="python3.11",
            Handler="index.handler",
            Role=self.role("lambda.amazonaws.com", *statements),
            Code={"ZipFile": packed(code)},
            **{"Timeout": 10, **settings},
        )
        return name

    def machine(self, definition: Mapping[str, Any], *statements: Mapping[str, Any]) -> str:
        """Create a state machine (JSONata) under a role with these statements. Return its ARN."""
        made = self.client("stepfunctions").create_state_machine(
            name=f"machine-{uuid.uuid4().hex[:12]}",
            definition=json.dumps({"QueryLanguage": "JSONata", **definition}),
            roleArn=self.role("states.amazonaws.com", *statements),
        )
        return str(made["stateMachineArn"])

    def start(self, machine: str, **given: Any) -> str:
        """Start an execution and return its ARN."""
        states = self.client("stepfunctions")
        return str(states.start_execution(stateMachineArn=machine, input=json.dumps(given))["executionArn"])

    def end_of(self, execution: str, seconds: float = 120) -> dict[str, Any]:
        """Wait for the end of an execution and return it."""
        states = self.client("stepfunctions")
        ended: dict[str, Any] = eventually(
            lambda: (
                found
                if (found := states.describe_execution(executionArn=execution))["status"] != "RUNNING"
                else None
            ),
            seconds,
        )
        return ended

    def run(self, machine: str, **given: Any) -> dict[str, Any]:
        """Start an execution and wait for its end."""
        return self.end_of(self.start(machine, **given))


@contextmanager
def answering(cloud: Cloud, who: Credentials | None = None) -> Iterator[None]:
    """Direct the functions' own code in this process to this cloud, as the account or as `who`."""
    acting = who or cloud.root
    with pytest.MonkeyPatch.context() as patched:
        for name, value in (
            ("AWS_ENDPOINT_URL", cloud.endpoint),
            ("AWS_DEFAULT_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", acting.key),
            ("AWS_SECRET_ACCESS_KEY", acting.secret),
            ("AWS_SESSION_TOKEN", acting.token or ""),
        ):
            patched.setenv(name, value)
        patched.setattr(boto3, "DEFAULT_SESSION", None)
        clients.client.cache_clear()
        yield
    clients.client.cache_clear()


PATIENCE_SECONDS = 120.0
"""Time for a busy disk to recover."""


def eventually(look: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the first truthy result of `look`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    pytest.fail(f"it did not happen within {seconds:g} seconds")


def allow(actions: str | list[str], resource: str | list[str] = "*", **condition: Any) -> dict[str, Any]:
    """Return a policy statement."""
    statement: dict[str, Any] = {"Effect": "Allow", "Action": actions, "Resource": resource}
    return {**statement, "Condition": condition} if condition else statement


def packed(code: str, name: str = "index.py") -> bytes:
    """Return a zip archive with one module, as functions are uploaded."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, textwrap.dedent(code))
    return content.getvalue()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Return the session's shared local cloud. Its account has launched before, so tests use unique names."""
    running = Cloud(tmp_path_factory.mktemp("cloud"), free_port())
    running.up()
    for service in ("spot.amazonaws.com", "ec2fleet.amazonaws.com"):
        running.client("iam").create_service_linked_role(AWSServiceName=service)
    yield running
    running.down()


@pytest.fixture
def own_cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Return a local cloud for one test, which may stop it."""
    running = Cloud(tmp_path / "state", free_port())
    running.up()
    yield running
    running.command("down", check=False)


@pytest.fixture
def network(cloud: Cloud) -> Iterator[Callable[[str], str]]:
    """Return a function that creates a VPC and deletes it with its contents, because the account's limit is five."""
    ec2, made = cloud.client("ec2"), []

    def make(block: str) -> str:
        made.append(ec2.create_vpc(CidrBlock=block)["Vpc"]["VpcId"])
        return str(made[-1])

    yield make
    for vpc in made:
        its_own = [{"Name": "vpc-id", "Values": [vpc]}]
        found = ec2.describe_instances(Filters=its_own)["Reservations"]
        hosts = [each["InstanceId"] for reservation in found for each in reservation["Instances"]]
        if hosts:
            ec2.terminate_instances(InstanceIds=hosts)
            gone = ec2.get_waiter("instance_terminated")
            gone.wait(InstanceIds=hosts, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        for subnet in ec2.describe_subnets(Filters=its_own)["Subnets"]:
            ec2.delete_subnet(SubnetId=subnet["SubnetId"])
        for group in ec2.describe_security_groups(Filters=its_own)["SecurityGroups"]:
            if group["GroupName"] != "default":
                ec2.delete_security_group(GroupId=group["GroupId"])
        ec2.delete_vpc(VpcId=vpc)
