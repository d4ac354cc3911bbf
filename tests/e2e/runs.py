"""Start runs as a user would, and look at what they left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lambdas.aws.dynamodb.rows import PRICES
from scripts.local_yard import Cloud
from tests.e2e.patience import PATIENCE
from tests.support import quick
from trainyard.client import Run, Yard
from trainyard.client.jobs import submission
from trainyard.client.jobs.submission import Upload

BILLED = ("pending", "running", "stopping")


class Runs:
    """Runs of the quick program on one yard."""

    def __init__(self, cloud: Cloud, yard: Yard) -> None:
        self.cloud = cloud
        self.yard = yard
        quick.prepare(yard)

    def job(self, name: str, **changes: Any) -> dict[str, Any]:
        """A small job: two hosts, the quick program; `changes` are laid over it."""
        return quick.job(name, **changes)

    def upload(self, job: dict[str, Any] | bytes, name: str | None = None) -> Upload:
        """Put a job file."""
        body = job if isinstance(job, bytes) else json.dumps(job).encode()
        key = f"jobs/{name or job['name']}.json" if isinstance(job, dict) else f"jobs/{name or 'job'}.yaml"
        return submission.begin(self.yard.bucket, key, body)

    def start(self, job: dict[str, Any]) -> Run:
        """Upload the job; answers the run it started."""
        return self.yard.run(self.upload(job).run).started()

    def in_mid_training(self, job: dict[str, Any]) -> Run:
        """The same, once it has a checkpoint in the bucket."""
        run = self.start(job)
        self.until("a checkpoint in the bucket", lambda: self.checkpoint_of(run))
        return run

    def finish(self, run: Run) -> Run:
        """The run when it is over."""
        return run.wait(PATIENCE, every=0.5)

    def go_on(self, run: Run) -> None:
        """Its program waits for that (quick.UNTIL_TOLD)."""
        self.on(self.host_of(run, "chief"), f"touch {quick.GO_ON}")

    def run(self, job: dict[str, Any]) -> Run:
        """Upload the job and wait until its run is over."""
        return self.finish(self.start(job))

    def living(self) -> list[str]:
        """Instances that could still cost money, after a moment for those that are on their way out."""
        ends = time.monotonic() + 60
        while True:
            alive = [one["InstanceId"] for one in self.yard.instances() if one["State"]["Name"] in BILLED]
            if not alive or time.monotonic() > ends:
                return alive
            time.sleep(0.5)

    def until(self, what: str, true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Wait for something that a user could see; answers what it saw. What takes long is looked for less often:
        a dozen stories that wait for patrol side by side would else keep the local cloud busy."""
        began = time.monotonic()
        while not (seen := true()):
            waited = time.monotonic() - began
            assert waited < seconds, f"never saw: {what}"
            time.sleep(min(2.0, max(0.3, waited / 20)))
        return seen

    def until_log(self, run: Run, host: str, words: str) -> None:
        """A run ends with its chief: the last lines of its other hosts come while these shut down."""
        self.until(f"{words!r} in the log of {host}", lambda: words in run.log(host))

    def checkpoint_of(self, run: Run) -> int:
        """The step of the checkpoint in the bucket; 0 while there is none."""
        return int(run.json("checkpoints/latest.json").get("step", 0))

    def host_of(self, run: Run, role: str) -> str:
        """The instance that has this role in the run's first attempt."""
        hosts = run.json("attempts/1/cluster.json")["hosts"]
        return str(next(host["instance"] for host in hosts if host["role"] == role))

    def until_prices(self) -> dict[str, Any]:
        """The price list's row, once patrol has read it: plans and bills say whose prices theirs are."""
        table = self.yard.session.resource("dynamodb").Table(self.yard.table)
        read = {"pk": PRICES[0], "sk": PRICES[1]}
        # a pass that ended while it read them has another follow five minutes later
        found = self.until("patrol has read the price list", lambda: table.get_item(Key=read).get("Item"))
        return dict(found)

    def signal(self, host: str, name: str, module: str) -> None:
        """A person on the host signals the program of that module; over when it is done."""
        # The brackets keep the pattern from finding the command that holds it.
        self.on(host, f"pkill -{name} -f '[-]m {module}'")

    def on(self, host: str, *lines: str) -> str:
        """What root on the host does by Run Command; what that printed, once it has succeeded."""
        ssm = self.yard.session.client("ssm")
        sent = ssm.send_command(
            DocumentName="AWS-RunShellScript", InstanceIds=[host], Parameters={"commands": [*lines]}
        )
        which = {"CommandId": sent["Command"]["CommandId"], "InstanceId": host}
        self.until(
            f"the end of a command on {host}",
            lambda: ssm.get_command_invocation(**which)["Status"] not in ("Pending", "InProgress", "Delayed"),
        )
        said = ssm.get_command_invocation(**which)
        assert said["Status"] == "Success", said
        return str(said["StandardOutputContent"])

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

    @contextmanager
    def with_settings(self, function: str, **values: str) -> Iterator[None]:
        """A function of the yard with other values in its environment, as another deployment would set them."""
        lambda_ = self.yard.session.client("lambda")
        before = lambda_.get_function_configuration(FunctionName=function)["Environment"]["Variables"]
        changed = before | values
        lambda_.update_function_configuration(FunctionName=function, Environment={"Variables": changed})
        try:
            yield
        finally:
            lambda_.update_function_configuration(FunctionName=function, Environment={"Variables": before})

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
