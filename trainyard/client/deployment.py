"""The resources of a deployed yard: their names, and access to them."""

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
from trainyard.client.trials import Trials
from trainyard.command_line import command_line
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.reading import RunRows
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.tags import Tag
from trainyard.protocol.timeline import Entry

UNCHANGED_FIELDS = (
    "version", "account", "table", "bus", "recipe", "software", "workflows", "dashboard", "monthly_dollars", "topic",
    "policies",
)  # fmt: skip
"""Fields that are read from the parameter unchanged."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The contents of the parameter `/<yard>/yard`, which the stacks write last (docs/contracts/README.md)."""

    session: Session
    name: str
    """The prefix of the stacks."""
    version: str
    account: str
    bucket: Bucket
    table: str
    bus: str
    recipe: str
    """The key of the yard's own recipe."""
    software: str
    """The hash of the software that bakes install."""
    workflows: Mapping[str, str]
    """The ARNs of the state machines, by workflow."""
    dashboard: str
    """The name of the dashboard in CloudWatch."""
    monthly_dollars: float
    """The cost of hosts in a month after which new runs are refused; 0 for no budget."""
    topic: str
    """The ARN of the SNS topic for notifications."""
    policies: Mapping[str, str]
    """The ARNs of the policies for users, by `viewer`, `user`, `dev` and `operator`."""
    serve_role: str = ""
    """The ARN of the role that opens the ports of served hosts."""
    most_hold_hours: float = 0.0
    """The longest time that a launched host may run or be held; 0 for no limit."""
    model_url: str = ""
    """The URL of the function for predictions; empty without one."""

    @classmethod
    def find(cls, name: str = "Trainyard", session: Session | None = None) -> Self:
        """Find the yard of this name, in any case, in the account and region of the session. Raise YardNotFound,
        YardOfAnotherVersion or YardIncomplete."""
        session = session or Session.of()
        text = _read_parameter(session, name)
        try:
            known = json.loads(text)
            _check_version(str(known["yard"]), str(known["version"]))
            return cls(
                session=session,
                name=known["yard"],
                bucket=Bucket(session, known["bucket"]),
                **{word: known[word] for word in UNCHANGED_FIELDS},
                serve_role=str(known.get("serve_role", "")),
                most_hold_hours=float(known.get("most_hold_hours", 0.0)),
                model_url=str(known.get("model_url", "")),
            )
        except (KeyError, TypeError, ValueError) as wrong:
            raise YardIncomplete(
                f"the parameter {_parameter(name)} is incomplete ({wrong!r})",
                "it was probably changed by hand",
                f"restore an earlier value: aws ssm get-parameter-history --name {_parameter(name)}",
            ) from wrong

    def rows(self, run: str) -> RunRows:
        """Return the ledger's rows of the run, without its timeline."""
        return reading.read_all(run, self.partition(f"run#{run}"))

    def timeline(self, run: str) -> list[Entry]:
        """Return the run's timeline, the oldest first."""
        return [reading.read(Entry, row) for row in self.partition(f"timeline#{run}")]

    def claims(self) -> list[Claim]:
        """Return the hosts and dollars that training runs and launched hosts claim."""
        rows = [row for row in self.partition("open") if "hosts" in row]
        return [reading.read(Claim, row, run=str(row["sk"]).removeprefix("held#")) for row in rows]

    def partition(self, pk: str) -> list[dict[str, Any]]:
        """Return the rows of the ledger with this partition key, as returned by DynamoDB."""
        table = self.session.resource("dynamodb").Table(self.table)
        query: dict[str, Any] = {"KeyConditionExpression": Key("pk").eq(pk), "ConsistentRead": True}
        rows: list[dict[str, Any]] = []
        while True:
            page = table.query(**query)
            rows += page["Items"]
            if "LastEvaluatedKey" not in page:
                return rows
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def trials(self, study: str) -> Trials | None:
        """Return the trials of a study; None for a run of another kind."""
        return Trials.of(study, self.partition(f"study#{study}"))

    def row(self, run: str) -> RunRow | None:
        """Return the ledger's row of the run itself, or None without one. A piece of a deleted row is none."""
        table = self.session.resource("dynamodb").Table(self.table)
        found = table.get_item(Key={"pk": f"run#{run}", "sk": "run"}, ConsistentRead=True)
        return reading.read_all(run, [found["Item"]]).run if "Item" in found else None

    def instances(self, run: str | None = None) -> list[dict[str, Any]]:
        """Return the yard's instances, or one run's, as EC2 describes them. EC2 lists terminated instances for
        a while."""
        filters = [{"Name": f"tag:{Tag.YARD}", "Values": [self.name.lower()]}]
        if run:
            filters.append({"Name": f"tag:{Tag.RUN}", "Values": [run]})
        pages = self.session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return [instance for page in pages for held in page["Reservations"] for instance in held["Instances"]]

    def image(self, *, previous: bool = False) -> str:
        """Return the current or the previous image: an AMI's id, or `none`."""
        parameter = f"/{self.name.lower()}/image{'/previous' if previous else ''}"
        return str(self.session.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])


def version_of(session: Session, yard: str) -> str:
    """Return the version of a yard, even if it differs from this client's. Raise YardNotFound."""
    return str(json.loads(_read_parameter(session, yard))["version"])


def settings_of(session: Session, yard: str) -> dict[str, str]:
    """Return the settings of the deployed yard that differ from the defaults, in the format of `-c`. Return none
    without a yard. Raise Denied."""
    client = session.client("ssm")
    try:
        found = client.get_parameter(Name=f"/{yard.lower()}/settings")["Parameter"]["Value"]
    except client.exceptions.ParameterNotFound:
        return {}
    return {str(key): str(value) for key, value in json.loads(found).items()}


def _parameter(yard: str) -> str:
    return f"/{yard.lower()}/yard"


def _read_parameter(session: Session, yard: str) -> str:
    """Return the yard's parameter. A user with access to one yard is denied the name of a yard that does not exist."""
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
    """Return the names of the existing yards in lower case, or None if the user may not list them."""
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
    there = "you may not list yards" if others is None else "this region has no yard"
    return YardNotFound(
        f"no yard {yard} in account {account}, region {session.region}",
        f"existing yards: {', '.join(others)}" if others else there,
        f"{command_line('yard', 'deploy')}, or set --yard, AWS_PROFILE and AWS_REGION to select another yard",
    )


def _check_version(yard: str, version: str) -> None:
    """Raise YardOfAnotherVersion unless both versions belong to one release (0.2 of 0.2.1)."""
    if _release(version) != _release(__version__):
        raise YardOfAnotherVersion(
            f"the yard {yard} has version {version}, and this client has version {__version__}",
            "they may be incompatible",
            f"install Trainyard {version}, or deploy the yard from {__version__}",
        )


def _release(version: str) -> list[str]:
    return version.split(".")[:2]
