"""What a deployment has left in an account: its names, and what lies under them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from boto3.dynamodb.conditions import Key

from trainyard import __version__
from trainyard.client.bucket import Bucket
from trainyard.client.errors import Denied, YardIncomplete, YardNotFound, YardOfAnotherVersion
from trainyard.client.session import Session
from trainyard.command_line import command_line
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.reading import RunRows
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.tags import Tag
from trainyard.protocol.timeline import Entry

AS_TOLD = (
    "version", "account", "table", "bus", "recipe", "software", "workflows", "dashboard", "monthly_dollars", "topic",
    "policies",
)  # fmt: skip
"""What is taken from the parameter as it is."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What the parameter `/<yard>/yard` says, which the stacks write last (docs/contracts/README.md). `name` is the
    prefix of the stacks, `workflows` the ARNs of the state machines by `train`, `bake`, `snapshot`, `dev-host` and
    `retire`, `recipe` the key of the yard's own, `software` the hash of what a bake installs, `dashboard` its name in
    CloudWatch, `monthly_dollars` what hosts may cost in a month before new runs are refused (0: no budget), `topic` the
    ARN of its notices, `policies` the ARNs of those for people by `viewer`, `user`, `dev`, `operator`."""

    session: Session
    name: str
    version: str
    account: str
    bucket: Bucket
    table: str
    bus: str
    recipe: str
    software: str
    workflows: Mapping[str, str]
    dashboard: str
    monthly_dollars: float
    topic: str
    policies: Mapping[str, str]
    most_hold_hours: float = 0.0
    """How long a host that a user launches may run or be held; 0: no limit."""

    @classmethod
    def find(cls, name: str = "Trainyard", session: Session | None = None) -> Self:
        """The yard of this name, in capitals or not, where the session points, by one call. Raises YardNotFound,
        YardOfAnotherVersion, YardIncomplete."""
        session = session or Session.of()
        text = _told(session, name)
        try:
            known = json.loads(text)
            _check_version(str(known["yard"]), str(known["version"]))
            return cls(
                session=session,
                name=known["yard"],
                bucket=Bucket(session, known["bucket"]),
                **{word: known[word] for word in AS_TOLD},
                most_hold_hours=float(known.get("most_hold_hours", 0.0)),
            )
        except (KeyError, TypeError, ValueError) as wrong:
            raise YardIncomplete(
                f"the parameter {_parameter(name)} does not say where the yard is ({wrong!r})",
                "somebody has changed it by hand",
                f"put back what it was: aws ssm get-parameter-history --name {_parameter(name)}",
            ) from wrong

    def rows(self, run: str) -> RunRows:
        """Return the ledger's rows of the run, without its timeline."""
        return reading.read_all(run, self.partition(f"run#{run}"))

    def timeline(self, run: str) -> list[Entry]:
        """Return the run's timeline, the oldest first."""
        return [reading.read(Entry, row) for row in self.partition(f"timeline#{run}")]

    def claims(self) -> list[Claim]:
        """Return what training runs and launched hosts claim of the yard: hosts, and dollars."""
        rows = [row for row in self.partition("open") if "hosts" in row]
        return [reading.read(Claim, row, run=str(row["sk"]).removeprefix("held#")) for row in rows]

    def partition(self, pk: str) -> list[dict[str, Any]]:
        """Return the rows of the ledger under this partition key, as DynamoDB has them."""
        table = self.session.resource("dynamodb").Table(self.table)
        query: dict[str, Any] = {"KeyConditionExpression": Key("pk").eq(pk), "ConsistentRead": True}
        rows: list[dict[str, Any]] = []
        while True:
            page = table.query(**query)
            rows += page["Items"]
            if "LastEvaluatedKey" not in page:
                return rows
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def row(self, run: str) -> RunRow | None:
        """Return the ledger's row of the run itself; None if there is none."""
        table = self.session.resource("dynamodb").Table(self.table)
        found = table.get_item(Key={"pk": f"run#{run}", "sk": "run"}, ConsistentRead=True)
        return reading.run_of(found["Item"]) if "Item" in found else None

    def instances(self, run: str | None = None) -> list[dict[str, Any]]:
        """The yard's instances (of one run) as EC2 describes them, terminated ones too while it still shows them."""
        filters = [{"Name": f"tag:{Tag.YARD}", "Values": [self.name.lower()]}]
        if run:
            filters.append({"Name": f"tag:{Tag.RUN}", "Values": [run]})
        pages = self.session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return [instance for page in pages for held in page["Reservations"] for instance in held["Instances"]]

    def image(self, *, previous: bool = False) -> str:
        """The current image, or the one before it: an AMI's id or `none`."""
        parameter = f"/{self.name.lower()}/image{'/previous' if previous else ''}"
        return str(self.session.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])


def version_of(session: Session, yard: str) -> str:
    """Of the yard of this name, whatever this client's own is. Raises YardNotFound."""
    return str(json.loads(_told(session, yard))["version"])


def settings_of(session: Session, yard: str) -> dict[str, str]:
    """Return the settings of the deployed yard that differ from the defaults, as `-c` has them; none without a yard.
    Raises Denied."""
    client = session.client("ssm")
    try:
        found = client.get_parameter(Name=f"/{yard.lower()}/settings")["Parameter"]["Value"]
    except client.exceptions.ParameterNotFound:
        return {}
    return {str(key): str(value) for key, value in json.loads(found).items()}


def _parameter(yard: str) -> str:
    return f"/{yard.lower()}/yard"


def _told(session: Session, yard: str) -> str:
    """What the yard's parameter says. Who may use one yard is denied a name that no yard has."""
    client = session.client("ssm")
    try:
        return str(client.get_parameter(Name=_parameter(yard))["Parameter"]["Value"])
    except client.exceptions.ParameterNotFound as error:
        raise _not_found(session, yard) from error
    except Denied as denied:
        others = _yards(session)
        if others is None or yard.lower() in others:
            raise
        raise _not_found(session, yard) from denied


def _yards(session: Session) -> list[str] | None:
    """The names of the yards there are, in lower case; None where the person may not know."""
    pages = session.client("ssm").get_paginator("describe_parameters")
    filters = [{"Key": "Name", "Option": "Contains", "Values": ["/yard"]}]
    try:
        names = [
            each["Name"] for page in pages.paginate(ParameterFilters=filters) for each in page["Parameters"]
        ]
    except Denied:
        return None
    return sorted(name.split("/")[1] for name in names if name == _parameter(name.split("/")[1]))


def _not_found(session: Session, yard: str) -> YardNotFound:
    account = session.client("sts").get_caller_identity()["Account"]
    others = _yards(session)
    there = "which yards there are you may not see" if others is None else "there is no yard at all"
    return YardNotFound(
        f"no yard {yard} in account {account}, region {session.region}",
        f"there is {', '.join(others)}" if others else there,
        f"{command_line('yard', 'deploy')}, or name the yard, AWS_PROFILE and AWS_REGION of the one you mean",
    )


def _check_version(yard: str, version: str) -> None:
    """Raises YardOfAnotherVersion unless both are of one release (0.2 of 0.2.1)."""
    if _release(version) != _release(__version__):
        raise YardOfAnotherVersion(
            f"the yard {yard} is of version {version}, and this client of {__version__}",
            "they may misunderstand each other",
            f"install Trainyard {version}, or deploy the yard from {__version__}",
        )


def _release(version: str) -> list[str]:
    return version.split(".")[:2]
