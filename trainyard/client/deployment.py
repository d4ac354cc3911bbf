"""What a deployment has left in an account: its names, and what lies under them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from boto3.dynamodb.conditions import Key

from trainyard.client.bucket import Bucket
from trainyard.client.errors import YardIncomplete, YardNotFound
from trainyard.client.session import Session

WORKFLOW = "StateMachineArn"
NEEDED = ("BucketName", "TableName", "EventBusName", "BakeRecipe", f"Train{WORKFLOW}", f"Bake{WORKFLOW}")


@dataclass(frozen=True)
class Deployment:
    """The names that the stacks of a yard put out. `stacks` has the status of each, `workflows` the ARNs of the state
    machines by `train`, `bake`, `snapshot`, `launch`, `retire`."""

    session: Session
    name: str
    stacks: Mapping[str, str]
    bucket: Bucket
    table: str
    bus: str
    recipe: str
    workflows: Mapping[str, str]

    @classmethod
    def find(cls, name: str = "Trainyard", session: Session | None = None) -> Self:
        """The yard of this name where the session points. Raises YardNotFound, YardIncomplete."""
        session = session or Session.of()
        pages = session.client("cloudformation").get_paginator("describe_stacks").paginate()
        stacks = [stack for page in pages for stack in page["Stacks"]]
        ours = {stack["StackName"]: stack for stack in stacks if stack["StackName"].startswith(f"{name}-")}
        if not ours:
            raise _not_found(name, session, stacks)
        statuses = {name: str(stack["StackStatus"]) for name, stack in ours.items()}
        outputs: dict[str, str] = {
            output["OutputKey"]: output["OutputValue"]
            for stack in ours.values()
            for output in stack.get("Outputs", [])
        }
        if missing := [key for key in NEEDED if key not in outputs]:
            raise YardIncomplete(
                f"the stacks of the yard {name} have no output {', '.join(missing)}",
                f"it is half deployed, or of another version: {statuses}",
                "make deploy",
            )
        return cls(
            session=session,
            name=name,
            stacks=statuses,
            bucket=Bucket(session, outputs["BucketName"]),
            table=outputs["TableName"],
            bus=outputs["EventBusName"],
            recipe=outputs["BakeRecipe"],
            workflows={
                key.removesuffix(WORKFLOW).lower(): arn
                for key, arn in outputs.items()
                if key.endswith(WORKFLOW)
            },
        )

    def rows(self, run: str) -> list[dict[str, Any]]:
        """The ledger's rows of the run, in key order."""
        table = self.session.resource("dynamodb").Table(self.table)
        query: dict[str, Any] = {"KeyConditionExpression": Key("pk").eq(f"run#{run}"), "ConsistentRead": True}
        rows: list[dict[str, Any]] = []
        while True:
            page = table.query(**query)
            rows += page["Items"]
            if "LastEvaluatedKey" not in page:
                return rows
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def instances(self, run: str | None = None) -> list[dict[str, Any]]:
        """The yard's instances (of one run) as EC2 describes them, terminated ones too while it still shows them."""
        filters = [{"Name": "tag:trainyard:yard", "Values": [self.name.lower()]}]
        if run:
            filters.append({"Name": "tag:trainyard:run", "Values": [run]})
        pages = self.session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return [instance for page in pages for held in page["Reservations"] for instance in held["Instances"]]

    def image(self, *, previous: bool = False) -> str:
        """The current image, or the one before it: an AMI's id or `none`."""
        parameter = f"/{self.name.lower()}/image{'/previous' if previous else ''}"
        return str(self.session.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])


def _not_found(name: str, session: Session, stacks: list[dict[str, Any]]) -> YardNotFound:
    account = session.client("sts").get_caller_identity()["Account"]
    others = {
        stack["StackName"].partition("-")[0]
        for stack in stacks
        if any(tag["Key"] == "trainyard:yard" for tag in stack.get("Tags", []))
    }
    return YardNotFound(
        f"no yard {name} in account {account}, region {session.region}",
        f"there is {', '.join(sorted(others)) or 'no yard at all'}",
        "make deploy, or name the yard, AWS_PROFILE and AWS_REGION of the one you mean",
    )
