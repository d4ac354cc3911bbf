"""Start runs as a user does, and read their results."""

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
        """Return a small job of the quick program on two hosts, with `changes` merged in."""
        return quick.job(name, **changes)

    def upload(self, job: dict[str, Any] | bytes, name: str | None = None) -> Upload:
        """Upload a job file."""
        body = job if isinstance(job, bytes) else json.dumps(job).encode()
        key = f"jobs/{name or job['name']}.json" if isinstance(job, dict) else f"jobs/{name or 'job'}.yaml"
        return submission.begin(self.yard.bucket, key, body)

    def start(self, job: dict[str, Any]) -> Run:
        """Upload a job and return its run."""
        return self.begun(self.upload(job).run)

    def begun(self, run: str, workflow: str = "train") -> Run:
        """Return the run with this id once its execution exists."""
        return self.yard.run(run, workflow).wait_for_start(PATIENCE)

    def in_mid_training(self, job: dict[str, Any]) -> Run:
        """Start a job and return its run when the first checkpoint is in the bucket."""
        run = self.start(job)
        self.until("a checkpoint in the bucket", lambda: self.checkpoint_of(run))
        return run

    def finish(self, run: Run) -> Run:
        """Wait until a run has ended."""
        return run.wait(PATIENCE, every=0.5)

    def let_finish(self, run: Run) -> None:
        """Let a program with `quick.UNTIL_RELEASED` finish."""
        self.on(self.host_of(run, "chief"), f"touch {quick.RELEASE_FILE}")

    def run(self, job: dict[str, Any]) -> Run:
        """Upload a job and wait until its run has ended."""
        return self.finish(self.start(job))

    def living(self) -> list[str]:
        """Return the instances that still cost money after up to 60 s for instances that are ending."""
        ends = time.monotonic() + 60
        while True:
            alive = [one["InstanceId"] for one in self.yard.instances() if one["State"]["Name"] in BILLED]
            if not alive or time.monotonic() > ends:
                return alive
            time.sleep(0.5)

    def until(self, what: str, true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Return the first truthy result of `true`, which a user could observe.

        Long waits poll less often, because a dozen parallel tests that wait for patrol would keep the local cloud busy.
        """
        began = time.monotonic()
        while not (seen := true()):
            waited = time.monotonic() - began
            assert waited < seconds, f"never saw: {what}"
            time.sleep(min(2.0, max(0.3, waited / 20)))
        return seen

    def until_log(self, run: Run, host: str, words: str) -> None:
        """Wait for a line. Hosts other than the chief upload their last lines after the run has ended."""
        self.until(f"{words!r} in the log of {host}", lambda: words in run.log(host))

    def checkpoint_of(self, run: Run) -> int:
        """Return the step of the newest checkpoint in the bucket, or 0."""
        return int(run.json("checkpoints/latest.json").get("step", 0))

    def host_of(self, run: Run, role: str) -> str:
        """Return the instance with this role in the first attempt."""
        hosts = run.json("attempts/1/cluster.json")["hosts"]
        return str(next(host["instance"] for host in hosts if host["role"] == role))

    def until_prices(self) -> dict[str, Any]:
        """Wait until patrol has read the price list, and return its row: plans and bills name their prices' source."""
        table = self.yard.session.resource("dynamodb").Table(self.yard.table)
        read = {"pk": PRICES[0], "sk": PRICES[1]}
        # if a pass ends while it reads the list, the next one follows five minutes later
        found = self.until("patrol has read the price list", lambda: table.get_item(Key=read).get("Item"))
        return dict(found)

    def signal(self, host: str, name: str, module: str) -> None:
        """Send a signal to the program of a module, as a user on the host."""
        # With the brackets, the pattern does not match its own command.
        self.on(host, f"pkill -{name} -f '[-]m {module}'")

    def on(self, host: str, *lines: str) -> str:
        """Run shell lines as root by Run Command and return their output."""
        ssm = self.yard.session.client("ssm")
        sent = ssm.send_command(
            DocumentName="AWS-RunShellScript", InstanceIds=[host], Parameters={"commands": [*lines]}
        )
        which = {"CommandId": sent["Command"]["CommandId"], "InstanceId": host}
        self.until(
            f"the end of a command on {host}",
            lambda: ssm.get_command_invocation(**which)["Status"] not in ("Pending", "InProgress", "Delayed"),
        )
        ended = ssm.get_command_invocation(**which)
        assert ended["Status"] == "Success", ended
        return str(ended["StandardOutputContent"])

    @contextmanager
    def without(self, role: str, action: str, *, once: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Remove `action` from the inline policies of all roles whose logical ID contains `role`.

        `once` is called after the policies were read. It returns when the permission must disappear.
        """
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
        """Change environment variables of a function, as another deployment would."""
        lambda_ = self.yard.session.client("lambda")
        before = lambda_.get_function_configuration(FunctionName=function)["Environment"]["Variables"]
        changed = before | values
        lambda_.update_function_configuration(FunctionName=function, Environment={"Variables": changed})
        try:
            yield
        finally:
            lambda_.update_function_configuration(FunctionName=function, Environment={"Variables": before})

    def roles(self, part: str) -> list[str]:
        """Return the names of the yard's roles whose logical ID contains `part`."""
        pages = self.yard.session.client("cloudformation").get_paginator("list_stack_resources")
        return [
            resource["PhysicalResourceId"]
            for stack in ("Trainyard-Images", "Trainyard-Training")
            for page in pages.paginate(StackName=stack)
            for resource in page["StackResourceSummaries"]
            if resource["ResourceType"] == "AWS::IAM::Role" and part in resource["LogicalResourceId"]
        ]


def _less(document: dict[str, Any], action: str) -> dict[str, Any]:
    """Return the policy without the action and without empty statements."""
    statements = []
    for statement in document["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        left = [each for each in actions if each != action]
        if left:
            statements.append({**statement, "Action": left})
    return {**document, "Statement": statements}
