"""Descriptors, threads, processes and memory of the local cloud after many calls and hosts under `ulimit -n 1024`."""

from __future__ import annotations

import io
import json
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from localcloud.base.root_key import RootKey

SETTINGS = """\
latencies: {boot: 0.1, agent: 0.1, stop: 0.1, terminate: 0.1, terminated_visible: 10, function_retry: 1}
"""
AT_ONCE = 8
CONNECTED = 50
"""Number of calls after which all connections are closed and new ones opened."""
SETTLED_SECONDS = 400.0
"""Time after which a function's extra processes end. Their idle timeout is five minutes."""
NAME, REGION, ACCOUNT = "endurance", "us-east-1", "123456789012"
CODE = """
def handler(event, context):
    print("asked")
    if event.get("fail"):
        raise ValueError("as asked")
    return 1
"""
QUEUE = {"QueueUrl": f"http://127.0.0.1/{ACCOUNT}/{NAME}"}
ITEM = {"pk": {"S": "one"}}
OFTEN: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sts", "get_caller_identity", {}),
    ("sts", "assume_role", {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/{NAME}", "RoleSessionName": NAME}),
    ("iam", "get_role", {"RoleName": NAME}),
    ("s3", "put_object", {"Bucket": NAME, "Key": NAME, "Body": b"some bytes"}),
    ("s3", "head_object", {"Bucket": NAME, "Key": NAME}),
    ("s3", "list_objects_v2", {"Bucket": NAME}),
    ("dynamodb", "put_item", {"TableName": NAME, "Item": ITEM}),
    ("dynamodb", "get_item", {"TableName": NAME, "Key": ITEM}),
    ("sns", "publish", {"TopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:{NAME}", "Message": NAME}),
    ("sqs", "send_message", {**QUEUE, "MessageBody": NAME}),
    ("sqs", "purge_queue", QUEUE),
    ("ssm", "put_parameter", {"Name": NAME, "Value": NAME, "Type": "String", "Overwrite": True}),
    ("ssm", "get_parameter", {"Name": NAME}),
    ("ec2", "describe_instances", {}),
    ("ec2", "describe_images", {"Owners": ["self"]}),
    (
        "cloudwatch",
        "put_metric_data",
        {"Namespace": NAME, "MetricData": [{"MetricName": NAME, "Value": 1.0}]},
    ),
    ("cloudwatch", "list_metrics", {"Namespace": NAME}),
    ("cloudformation", "list_stacks", {}),
    ("stepfunctions", "list_state_machines", {}),
    ("logs", "describe_log_groups", {}),
)
RARE_CALL_INTERVAL = 25
RARE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("lambda", "invoke", {"FunctionName": NAME, "Payload": "{}"}),
    ("lambda", "invoke", {"FunctionName": NAME, "Payload": "{}", "InvocationType": "Event"}),
    ("lambda", "invoke", {"FunctionName": NAME, "Payload": '{"fail": true}'}),
    ("events", "put_events", {"Entries": [{"Source": NAME, "DetailType": NAME, "Detail": "{}"}]}),
    (
        "stepfunctions",
        "start_execution",
        {"stateMachineArn": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{NAME}"},
    ),
)
"""Calls that start something that runs, so each takes longer than twenty others. One of `RARE_CALL_INTERVAL` calls."""
SERVICES = sorted({service for service, _, _ in OFTEN + RARE})
COUNTED = ("descriptors", "threads", "processes")
TRUSTED = ("lambda.amazonaws.com", "states.amazonaws.com", "ec2.amazonaws.com")


@dataclass(frozen=True)
class Held:
    """Resources of the server at one time, and the number of its living child processes."""

    descriptors: int
    threads: int
    processes: int
    memory_mb: int


def held(state: Path) -> Held:
    """Measure the server of this state folder now."""
    process = Path("/proc", str(_server(state)))
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return Held(
        len(list((process / "fd").iterdir())),
        int(status["Threads"]),
        sum(1 for _ in _descendants(int(process.name))),
        int(status["VmRSS"].split()[0]) // 1024,
    )


def settled(state: Path, before: Held | None = None) -> Held:
    """Measure once the resources no longer shrink, or are down to `before`."""
    ends, last = time.monotonic() + SETTLED_SECONDS, held(state)
    while time.monotonic() < ends:
        time.sleep(1)
        now = held(state)
        if before is not None and all(getattr(now, what) <= getattr(before, what) for what in COUNTED):
            return now
        if before is None and now.descriptors >= last.descriptors and now.processes >= last.processes:
            return now
        last = now
    return last


def _server(state: Path) -> int:
    init = int(json.loads((state / "supervisor.json").read_text())["init"])
    return next(pid for pid in _descendants(init) if b"localcloud.server" in _command(pid))


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):  # an ended process has none
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))


class User:
    """A client with the root's keys that calls, disconnects and launches."""

    def __init__(self, endpoint: str, root: RootKey) -> None:
        self._endpoint = endpoint
        session = boto3.session.Session(root.access_key_id, root.secret_access_key, region_name=REGION)
        config = Config(inject_host_prefix=False)
        self._clients: dict[str, Any] = {
            service: session.client(service, endpoint_url=endpoint, config=config) for service in SERVICES
        }

    def furnish(self) -> None:
        """Create the resources that the calls use."""
        trust = [
            {"Effect": "Allow", "Principal": {"Service": who}, "Action": "sts:AssumeRole"} for who in TRUSTED
        ]
        trust.append({"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"})
        role = self._clients["iam"].create_role(
            RoleName=NAME,
            AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": trust}),
        )["Role"]["Arn"]
        may = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        self._clients["iam"].put_role_policy(
            RoleName=NAME,
            PolicyName=NAME,
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [may]}),
        )
        self._clients["iam"].create_instance_profile(InstanceProfileName=NAME)
        self._clients["iam"].add_role_to_instance_profile(InstanceProfileName=NAME, RoleName=NAME)
        self._clients["s3"].create_bucket(Bucket=NAME)
        self._clients["dynamodb"].create_table(
            TableName=NAME,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        )
        self._clients["sqs"].create_queue(QueueName=NAME)
        for service, name, given in OFTEN:  # used by other calls
            if name.startswith("put_"):
                getattr(self._clients[service], name)(**given)
        self._clients["sns"].create_topic(Name=NAME)
        self._clients["logs"].create_log_group(logGroupName=NAME)
        self._clients["logs"].create_log_stream(logGroupName=NAME, logStreamName=NAME)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", CODE)
        function = self._clients["lambda"].create_function(
            FunctionName=NAME,
            Runtime="python3.11",
            Handler="index.handler",
            Role=role,
            Code={"ZipFile": packed.getvalue()},
        )["FunctionArn"]
        self._clients["lambda"].add_permission(
            FunctionName=NAME,
            StatementId=NAME,
            Action="lambda:InvokeFunction",
            Principal="events.amazonaws.com",
        )
        self._clients["events"].put_rule(Name=NAME, EventPattern=json.dumps({"source": [NAME]}))
        self._clients["events"].put_targets(Rule=NAME, Targets=[{"Id": NAME, "Arn": function}])
        task = {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Arguments": {"FunctionName": NAME, "Payload": {}},
            "End": True,
        }
        self._clients["stepfunctions"].create_state_machine(
            name=NAME,
            definition=json.dumps({"QueryLanguage": "JSONata", "StartAt": "Ask", "States": {"Ask": task}}),
            roleArn=role,
        )

    def call(self, times: int, at_once: int) -> None:
        """Make this many calls across all services, at times over new connections."""
        with ThreadPoolExecutor(at_once) as pool:
            for first in range(0, times, CONNECTED):
                list(pool.map(self._call, range(first, min(first + CONNECTED, times))))
                for client in self._clients.values():
                    client.close()

    def _call(self, number: int) -> None:
        often, rare = number % len(OFTEN), number // RARE_CALL_INTERVAL % len(RARE)
        service, name, given = RARE[rare] if number % RARE_CALL_INTERVAL == 0 else OFTEN[often]
        getattr(self._clients[service], name)(**given)

    def break_off(self, times: int) -> None:
        """Open this many connections that break before, during and right after a request."""
        host, _, port = self._endpoint.removeprefix("http://").partition(":")
        head = b"POST / HTTP/1.1\r\nHost: sts\r\nAuthorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/"
        head += b"sts/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Length: "
        body = b"Action=GetCallerIdentity&Version=2011-06-15"
        said = (b"", head, head + b"1000\r\n\r\n" + body, head + b"%d\r\n\r\n" % len(body) + body)
        for number in range(times):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(said[number % len(said)])

    def launch(self, hosts: int) -> None:
        """Launch this many hosts at once, run a command on each, and terminate them."""
        ec2, ssm = self._clients["ec2"], self._clients["ssm"]
        image = ec2.describe_images(
            Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}]
        )["Images"][0]["ImageId"]
        made = ec2.run_instances(
            ImageId=image,
            InstanceType="t3.micro",
            MinCount=hosts,
            MaxCount=hosts,
            IamInstanceProfile={"Name": NAME},
        )
        ids = [instance["InstanceId"] for instance in made["Instances"]]
        known = [{"Key": "InstanceIds", "Values": ids}]
        _until(
            lambda: len(ssm.describe_instance_information(Filters=known)["InstanceInformationList"]) == hosts
        )
        command = ssm.send_command(
            DocumentName="AWS-RunShellScript",
            InstanceIds=ids,
            Parameters={"commands": ["echo up"]},
            OutputS3BucketName=NAME,
        )["Command"]["CommandId"]
        _until(
            lambda: (
                ssm.list_commands(CommandId=command)["Commands"][0]["Status"] not in ("Pending", "InProgress")
            )
        )
        ec2.terminate_instances(InstanceIds=ids)
        gone = [{"Name": "instance-state-name", "Values": ["shutting-down", "running"]}]
        _until(lambda: not ec2.describe_instances(Filters=gone)["Reservations"])


def _until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + SETTLED_SECONDS
    while not look():
        if time.monotonic() > ends:
            raise TimeoutError("what was asked of the local cloud did not happen")
        time.sleep(0.2)
