"""Start runs as a user would, and look at what they left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks import quick
from demo.cloud import Cloud
from demo.yard import Execution, Yard

BILLED = ("pending", "running", "stopping")


@dataclass(frozen=True)
class Run:
    """A run that is over: its execution, its summary, and the rest on demand."""

    yard: Yard
    execution: Execution
    summary: dict[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        return self.execution.name

    @property
    def succeeded(self) -> bool:
        return self.execution.status == "SUCCEEDED"

    @property
    def keys(self) -> list[str]:
        prefix = f"runs/{self.id}/"
        return [key.removeprefix(prefix) for key in self.yard.keys(prefix)]

    def json(self, name: str) -> Any:
        return self.yard.read_json(f"runs/{self.id}/{name}")

    def text(self, name: str) -> str:
        return (self.yard.read(f"runs/{self.id}/{name}") or b"").decode()

    @property
    def timeline(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text("timeline.jsonl").splitlines()]

    @property
    def states(self) -> list[str]:
        entered = (event.get("stateEnteredEventDetails") for event in self.yard.history(self.execution.arn))
        return [details["name"] for details in entered if details]

    def why(self) -> str:
        """For the message of an assertion."""
        return f"{self.execution.status} {self.execution.error}: {self.execution.cause}\n{self.text('timeline.jsonl')}"


class Runs:
    """Runs of the quick program on one yard."""

    def __init__(self, cloud: Cloud, yard: Yard) -> None:
        self.cloud = cloud
        self.yard = yard
        quick.prepare(yard)

    def job(self, name: str, **changes: Any) -> dict[str, Any]:
        """A small job: two hosts, the quick program; `changes` are laid over it."""
        return quick.job(name, **changes)

    def upload(self, job: dict[str, Any] | bytes, name: str | None = None) -> tuple[str, str]:
        """Put a job file; answers key and version."""
        body = job if isinstance(job, bytes) else json.dumps(job).encode()
        key = f"jobs/{name or job['name']}.json" if isinstance(job, dict) else f"jobs/{name or 'job'}.yaml"
        return key, self.yard.upload(key, body)

    def start(self, job: dict[str, Any]) -> str:
        """Upload the job; answers the ARN of the run it started."""
        return self.yard.run_for(*self.upload(job))

    def start_inline(self, payload: dict[str, Any], name: str | None = None) -> str:
        """Start an execution by hand."""
        return self.yard.start(self.yard.train, payload, name)

    def finish(self, arn: str, seconds: float = 240) -> Run:
        """The run when it is over."""
        execution = self.yard.wait(arn, seconds, every=0.5)
        return Run(self.yard, execution, self.yard.summary(execution.name) or {})

    def run(self, job: dict[str, Any], seconds: float = 240) -> Run:
        """Upload the job and wait until its run is over."""
        return self.finish(self.start(job), seconds)

    def living(self) -> list[str]:
        """Instances that could still cost money, after a moment for those that are on their way out."""
        ends = time.monotonic() + 20
        while True:
            alive = [one["InstanceId"] for one in self.yard.instances() if one["State"]["Name"] in BILLED]
            if not alive or time.monotonic() > ends:
                return alive
            time.sleep(0.5)

    def until(self, what: str, true: Callable[[], Any], seconds: float = 120) -> Any:
        """Wait for something that a user could see; answers what it saw."""
        ends = time.monotonic() + seconds
        while not (seen := true()):
            assert time.monotonic() < ends, f"never saw: {what}"
            time.sleep(0.3)
        return seen

    def checkpoint_of(self, run: str) -> int:
        """The step of the checkpoint in the bucket; 0 while there is none."""
        return int((self.yard.read_json(f"runs/{run}/checkpoints/latest.json") or {}).get("step", 0))

    def host_of(self, run: str, role: str) -> str:
        """The instance that has this role in the run's first attempt."""
        cluster = self.yard.read_json(f"runs/{run}/attempts/1/cluster.json") or {}
        return str(next(host["instance"] for host in cluster["hosts"] if host["role"] == role))

    @contextmanager
    def without(self, role: str, action: str, *, once: Callable[[], object] = lambda: None) -> Iterator[None]:
        """The yard with `action` taken out of the inline policies of the roles whose logical id has `role`.

        `once` is called when all is read, and what it waits for is the moment in which the permission goes."""
        iam = self.yard.session.client("iam")
        changed: list[tuple[dict[str, str], dict[str, Any], dict[str, Any]]] = []
        for name in self.roles(role):
            for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
                document = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
                less = _less(document, action)
                if less != document:
                    changed.append(({"RoleName": name, "PolicyName": policy}, document, less))
        assert changed, f"no role like {role} has {action} in an inline policy"
        try:
            once()
            for which, _, less in changed:
                iam.put_role_policy(**which, PolicyDocument=json.dumps(less))
            yield
        finally:
            for which, document, _ in changed:
                iam.put_role_policy(**which, PolicyDocument=json.dumps(document))

    def roles(self, part: str) -> list[str]:
        """The names of the yard's roles whose logical id has `part`."""
        pages = self.yard.session.client("cloudformation").get_paginator("list_stack_resources")
        return [
            resource["PhysicalResourceId"]
            for stack in ("Trainyard-Images", "Trainyard-Training")
            for page in pages.paginate(StackName=stack)
            for resource in page["StackResourceSummaries"]
            if resource["ResourceType"] == "AWS::IAM::Role" and part in resource["LogicalResourceId"]
        ]


def _less(document: dict[str, Any], action: str) -> dict[str, Any]:
    """The policy without the action; statements that then allow nothing are gone."""
    statements = []
    for statement in document["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        left = [each for each in actions if each != action]
        if left:
            statements.append({**statement, "Action": left})
    return {**document, "Statement": statements}
