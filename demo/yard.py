"""A deployed yard through the eyes of its user: the bucket, the ledger and the executions, nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
from boto3.dynamodb.conditions import Key
from botocore.config import Config
from botocore.exceptions import ClientError

from demo.say import DemoError

STACK_PREFIX = "Trainyard-"
STACKS = ("Network", "Storage", "Images", "Training", "Patrol", "Watch")
CONFIG = Config(retries={"mode": "standard", "max_attempts": 4}, s3={"addressing_style": "path"})
SETTLED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
OVER = ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED")


def session_of(environment: dict[str, str]) -> Session:
    """Clients with the credentials and the endpoint of this environment, and of nothing else."""
    return Session(
        boto3.Session(
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=environment.get("AWS_SESSION_TOKEN"),
            region_name=environment.get("AWS_REGION") or environment["AWS_DEFAULT_REGION"],
        ),
        environment["AWS_ENDPOINT_URL"],
    )


@dataclass(frozen=True)
class Session:
    """boto3, pointed at one endpoint."""

    boto: boto3.Session
    endpoint: str

    def client(self, service: str) -> Any:
        """A client of this service."""
        return self.boto.client(service, endpoint_url=self.endpoint, config=CONFIG)

    def resource(self, service: str) -> Any:
        """A resource of this service."""
        return self.boto.resource(service, endpoint_url=self.endpoint, config=CONFIG)


@dataclass(frozen=True)
class Execution:
    """One execution as DescribeExecution tells it."""

    arn: str
    status: str
    started: datetime
    stopped: datetime | None
    error: str
    cause: str

    @property
    def name(self) -> str:
        """The last part of the ARN; for a train execution the run's id."""
        return self.arn.rsplit(":", 1)[-1]

    @property
    def is_over(self) -> bool:
        """True in every status that never changes again."""
        return self.status in OVER


@dataclass(frozen=True)
class Yard:
    """The names a deployment put out, and what can be asked with them."""

    session: Session
    bucket: str
    table: str
    train: str
    bake: str
    recipe: str
    snapshot: str
    launch: str
    environment: dict[str, str]

    @staticmethod
    def deployed(session: Session) -> bool:
        """True when every stack of the yard is there and settled."""
        try:
            stacks = session.client("cloudformation").describe_stacks()["Stacks"]
        except ClientError:
            return False
        settled = {stack["StackName"] for stack in stacks if stack["StackStatus"] in SETTLED}
        return {STACK_PREFIX + name for name in STACKS} <= settled

    @classmethod
    def of(cls, environment: dict[str, str]) -> Yard:
        """The yard deployed at this environment's endpoint, from the outputs of its stacks."""
        session = session_of(environment)
        outputs = {
            output["OutputKey"]: output["OutputValue"]
            for stack in session.client("cloudformation").describe_stacks()["Stacks"]
            if stack["StackName"].startswith(STACK_PREFIX)
            for output in stack.get("Outputs", [])
        }
        names = (
            "BucketName",
            "TableName",
            "TrainStateMachineArn",
            "BakeStateMachineArn",
            "BakeRecipe",
            "SnapshotStateMachineArn",
            "LaunchStateMachineArn",
        )
        missing = [name for name in names if name not in outputs]
        if missing:
            raise DemoError(f"the stacks have no output {', '.join(missing)}", "look at: cdk deploy --all")
        bucket, table, train, bake, recipe, snapshot, launch = (outputs[name] for name in names)
        return cls(session, bucket, table, train, bake, recipe, snapshot, launch, environment)

    # ------------------------------------------------------------------------------------------ executions
    def start(self, machine: str, payload: dict[str, Any], name: str | None = None) -> str:
        """Start an execution by hand; answers its ARN."""
        named = {"name": name} if name else {}
        started = self.session.client("stepfunctions").start_execution(
            stateMachineArn=machine, input=json.dumps(payload), **named
        )
        return str(started["executionArn"])

    def latest(self) -> str | None:
        """The ARN of the train execution that was started last."""
        found = self.session.client("stepfunctions").list_executions(stateMachineArn=self.train)["executions"]
        return str(found[0]["executionArn"]) if found else None

    def execution(self, arn: str) -> Execution:
        """What DescribeExecution says now."""
        told = self.session.client("stepfunctions").describe_execution(executionArn=arn)
        return Execution(
            arn=arn,
            status=told["status"],
            started=told["startDate"],
            stopped=told.get("stopDate"),
            error=told.get("error", ""),
            cause=told.get("cause", ""),
        )

    def history(self, arn: str) -> list[dict[str, Any]]:
        """Every event of the execution so far, oldest first."""
        pages = self.session.client("stepfunctions").get_paginator("get_execution_history")
        return [event for page in pages.paginate(executionArn=arn) for event in page["events"]]

    def wait(self, arn: str, seconds: float, every: float = 1.0) -> Execution:
        """The execution when it is over; DemoError when it is not within so many seconds."""
        ends = time.monotonic() + seconds
        while not (execution := self.execution(arn)).is_over:
            if time.monotonic() > ends:
                raise DemoError(f"{execution.name} is still running after {seconds:.0f} s", f"look at {arn}")
            time.sleep(every)
        return execution

    def executions_of(self, key: str, version: str | None = None) -> list[str]:
        """ARNs of the executions that were started for this object (and version), newest first: runs for a job file,
        bakes for a recipe."""
        client = self.session.client("stepfunctions")
        machine = self.bake if key.startswith("images/") else self.train
        found = []
        for page in client.get_paginator("list_executions").paginate(stateMachineArn=machine):
            for listed in page["executions"]:
                told = json.loads(client.describe_execution(executionArn=listed["executionArn"])["input"])
                if not isinstance(told, dict):  # anybody may start an execution with anything
                    continue
                if key in (told.get("job_key"), told.get("recipe_key")) and version in (
                    None,
                    told.get("version_id"),
                ):
                    found.append(listed["executionArn"])
        return found

    def run_for(self, key: str, version: str, seconds: float = 60) -> str:
        """The execution that the upload of this version started."""
        ends = time.monotonic() + seconds
        while not (found := self.executions_of(key, version)):
            if time.monotonic() > ends:
                raise DemoError(
                    f"no execution was started for s3://{self.bucket}/{key} within {seconds:.0f} s",
                    "look at the log group of the function submit",
                )
            time.sleep(0.5)
        return found[0]

    # ---------------------------------------------------------------------------------------------- bucket
    def upload(self, key: str, body: bytes) -> str:
        """Put the object; answers its version."""
        answer = self.session.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)
        return str(answer.get("VersionId", "null"))

    def upload_folder(self, folder: Path, prefix: str) -> list[str]:
        """Put every file below the folder under the prefix; answers the keys."""
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        keys = [prefix + file.relative_to(folder).as_posix() for file in files]
        for file, key in zip(files, keys, strict=True):
            self.upload(key, file.read_bytes())
        return keys

    def keys(self, prefix: str) -> dict[str, int]:
        """Sizes of the objects under the prefix by key."""
        listing = self.session.client("s3").get_paginator("list_objects_v2")
        pages = listing.paginate(Bucket=self.bucket, Prefix=prefix)
        return {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}

    def read(self, key: str) -> bytes | None:
        """The object's bytes, or None where there is no such object."""
        try:
            return bytes(self.session.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise

    def read_json(self, key: str) -> dict[str, Any] | None:
        """The object parsed, or None where there is no such object."""
        body = self.read(key)
        return None if body is None else dict(json.loads(body))

    def summary(self, run: str) -> dict[str, Any] | None:
        """runs/<id>/summary.json, or None when there is none (yet)."""
        return self.read_json(f"runs/{run}/summary.json")

    def download(self, prefix: str, folder: Path) -> int:
        """Fetch every object under the prefix into the folder; answers how many."""
        keys = self.keys(prefix)
        for key in keys:
            target = folder / key.removeprefix(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.read(key) or b"")
        return len(keys)

    # ---------------------------------------------------------------------------------------------- ledger
    def ledger(self, run: str) -> list[dict[str, Any]]:
        """Every row of the run, in key order."""
        table = self.session.resource("dynamodb").Table(self.table)
        query: dict[str, Any] = {"KeyConditionExpression": Key("pk").eq(f"run#{run}"), "ConsistentRead": True}
        rows: list[dict[str, Any]] = []
        while True:
            page = table.query(**query)
            rows += page["Items"]
            if "LastEvaluatedKey" not in page:
                return rows
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    # ----------------------------------------------------------------------------------------------- hosts
    def instances(self, run: str | None = None) -> list[dict[str, Any]]:
        """The yard's instances (of one run), terminated ones too while EC2 still shows them."""
        filters = [{"Name": "tag-key", "Values": ["trainyard:yard"]}]
        if run:
            filters.append({"Name": "tag:trainyard:run", "Values": [run]})
        pages = self.session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return [instance for page in pages for held in page["Reservations"] for instance in held["Instances"]]

    def image(self, *, previous: bool = False) -> str:
        """What the image parameter says, or the one of the image before it: an AMI's id or `none`."""
        name = "/trainyard/image/previous" if previous else "/trainyard/image"
        return str(self.session.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])


def states_of(history: list[dict[str, Any]]) -> Iterator[tuple[datetime, str]]:
    """(time, name) of every state entered, in order."""
    for event in history:
        if "stateEnteredEventDetails" in event:
            yield event["timestamp"], event["stateEnteredEventDetails"]["name"]


def elapsed(since: datetime, until: datetime) -> timedelta:
    """Never negative, whatever the clocks say."""
    return max(until - since, timedelta())
