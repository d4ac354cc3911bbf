"""Observe hosts and patrol as a user does, and delete rows, objects and rules of a yard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from trainyard.client import Run
from trainyard.values import serialization

SHORT_POLICY = {"window_minutes": 2, "grace_minutes": 0.1}
"""With this policy, a host is idle after two minutes."""
ONE = {"strategy": "single", "workers": 1}
ON_DEMAND = {"instance_types": ["g6.xlarge"], "market": "on_demand"}
GONE = ("shutting-down", "terminated")
CLEANUP_RULES = ("RunBroken", "TrainCutShort", "DevHostCutShort", "BakeCutShort")
"""The rules that terminate the hosts of an aborted execution and conclude its run."""
EPOCH = datetime.fromtimestamp(0, UTC)
LONG_AGO = "2026-01-01T00:00:00.000Z"


# ---------------------------------------------------------------------------------------------------------- hosts
def ec2(runs: Runs) -> Any:
    return runs.yard.session.client("ec2")


def host(runs: Runs, instance: str) -> dict[str, Any]:
    (held,) = ec2(runs).describe_instances(InstanceIds=[instance])["Reservations"]
    (found,) = held["Instances"]
    return dict(found)


def hosts_of(run: Run) -> list[str]:
    return sorted(each["InstanceId"] for each in run.yard.instances(run.id))


def host_of(run: Run) -> str:
    """Return the host of the last attempt of a run with one host."""
    newest = max(run.yard.instances(run.id), key=lambda each: each["LaunchTime"])
    return str(newest["InstanceId"])


def state(runs: Runs, instance: str) -> str:
    return str(host(runs, instance)["State"]["Name"])


def until_it_is(runs: Runs, instance: str, wanted: str) -> None:
    runs.until(f"{instance} is {wanted}", lambda: state(runs, instance) == wanted)


def until_gone(runs: Runs, instances: list[str], seconds: float = PATIENCE) -> None:
    runs.until(
        f"{', '.join(instances)} ended", lambda: all(state(runs, each) in GONE for each in instances), seconds
    )


def tag(runs: Runs, instance: str, key: str) -> str:
    return next((each["Value"] for each in host(runs, instance)["Tags"] if each["Key"] == key), "")


def set_tags(runs: Runs, instance: str, **tags: object) -> None:
    """Write tags of the yard, named without `trainyard:`, and keys of the policy."""
    names = {key: f"policy-{key}" if "_" in key else key for key in tags}
    written = [{"Key": f"trainyard:{names[key]}", "Value": str(value)} for key, value in tags.items()]
    ec2(runs).create_tags(Resources=[instance], Tags=written)


def pinged(runs: Runs, instance: str) -> datetime:
    """Return the time of the last ping of the Systems Manager agent, or EPOCH before the first."""
    chosen = [{"Key": "InstanceIds", "Values": [instance]}]
    ssm = runs.yard.session.client("ssm")
    known = ssm.describe_instance_information(Filters=chosen)["InstanceInformationList"]
    return known[0]["LastPingDateTime"] if known and known[0]["PingStatus"] == "Online" else EPOCH


def shell(runs: Runs, instance: str, line: str) -> str:
    """Run a shell line on a host by Run Command, when the host is registered, and return its output."""
    ssm = runs.yard.session.client("ssm")
    runs.until(f"{instance} is online", lambda: pinged(runs, instance) > EPOCH)
    sent = ssm.send_command(
        DocumentName="AWS-RunShellScript", InstanceIds=[instance], Parameters={"commands": [line]}
    )["Command"]["CommandId"]

    def answer() -> dict[str, Any] | None:
        found = ssm.list_command_invocations(CommandId=sent, Details=True)["CommandInvocations"]
        over = found and found[0]["Status"] in ("Success", "Failed", "TimedOut", "Cancelled")
        return dict(found[0]) if over else None

    ended = runs.until(f"{line} has ended on {instance}", answer)
    assert ended["Status"] == "Success", ended
    return str(ended["CommandPlugins"][0]["Output"]).strip()


def launch(runs: Runs, **asked: Any) -> Run:
    """Run the workflow dev-host to its end."""
    return runs.finish(runs.yard.start("dev-host", asked))


def launched(runs: Runs, **asked: Any) -> Run:
    """Launch a host, and fail if this fails."""
    made = launch(runs, **asked)
    assert made.succeeded, made.why()
    return made


# --------------------------------------------------------------------------------------------------------- patrol
def verdicts(runs: Runs, instance: str) -> list[dict[str, Any]]:
    """Return the verdicts on a host in the ledger, in order."""
    pages = (
        table_of(runs)
        .meta.client.get_paginator("scan")
        .paginate(TableName=runs.yard.table, ConsistentRead=True)
    )
    rows = [row for page in pages for row in page["Items"]]
    days = sorted((row["pk"], row["sk"], row) for row in rows if row["pk"].startswith("patrol#"))
    return [each for _, _, row in days for each in row["verdicts"] if each["instance"] == instance]


def until_judged(runs: Runs, instances: list[str], word: str) -> None:
    """Wait until patrol's verdict on each host has this word. A failure shows all verdicts."""
    try:
        runs.until(
            f"each of {', '.join(instances)} {word}",
            lambda: all(tag(runs, each, "trainyard:verdict").startswith(f"{word} ") for each in instances),
        )
    except AssertionError as never:
        raise AssertionError({each: verdicts(runs, each) for each in instances}) from never


def act_on(runs: Runs, instance: str) -> dict[str, Any]:
    """Return the last verdict that patrol carried out. Patrol writes verdicts after it has acted on all of them."""
    acts = runs.until(
        f"patrol's act on {instance} in the ledger",
        lambda: [each for each in verdicts(runs, instance) if each.get("outcome") == "done"],
    )
    return dict(acts[-1])


def passes(runs: Runs) -> list[datetime]:
    """Return the times of patrol's passes from its log."""
    return sorted(
        serialization.parse_timestamp(entry["patrol"]["at"])
        for entry in patrol_log(runs)
        if entry["message"] == "patrol"
    )


def patrol_log(runs: Runs, since: datetime = EPOCH) -> list[dict[str, Any]]:
    """Return patrol's log lines except metrics, which have no message."""
    pages = (
        runs.yard.session.client("logs")
        .get_paginator("filter_log_events")
        .paginate(logGroupName="/trainyard/functions/patrol", startTime=int(since.timestamp() * 1000))
    )
    lines = (event["message"] for page in pages for event in page["events"])
    entry = (json.loads(line) for line in lines if line.startswith("{"))
    return [each for each in entry if "message" in each]


def patrols_until_its_end(runs: Runs, instance: str, since: datetime | None = None) -> int:
    """Count the passes between `since` or the launch and the end of the host."""
    begun = since or host(runs, instance)["LaunchTime"]
    ended = serialization.parse_timestamp(act_on(runs, instance)["at"])
    return sum(begun < at <= ended for at in passes(runs))


@contextmanager
def without_rules(runs: Runs, *names: str, bus: str = "default") -> Iterator[None]:
    """Disable rules whose names contain these logical names."""
    events = runs.yard.session.client("events")
    found = [
        rule["Name"]
        for rule in events.list_rules(EventBusName=bus)["Rules"]
        if any(name in rule["Name"] for name in names)
    ]
    assert len(found) == len(names), found
    for name in found:
        events.disable_rule(Name=name, EventBusName=bus)
    try:
        yield
    finally:
        for name in found:
            events.enable_rule(Name=name, EventBusName=bus)


# ----------------------------------------------------------------------------------------------------------- runs
def begun(runs: Runs, job: dict[str, Any]) -> Run:
    """Start a job and return its run after the first progress."""
    run = runs.start(job)
    runs.until(f"{run.id} reports", lambda: run.progress)
    return run


def delete_rows(runs: Runs, run: Run, which: Callable[[str], bool]) -> None:
    """Delete rows of a run whose sort keys match."""
    keys = [row["sk"] for row in runs.yard.partition(f"run#{run.id}") if which(row["sk"])]
    assert keys
    for key in keys:
        table_of(runs).delete_item(Key={"pk": f"run#{run.id}", "sk": key})


def delete_prefix(runs: Runs, prefix: str) -> None:
    keys = list(runs.yard.bucket.keys(prefix))
    assert keys
    runs.yard.session.client("s3").delete_objects(
        Bucket=runs.yard.bucket.name, Delete={"Objects": [{"Key": key} for key in keys]}
    )


def table_of(runs: Runs) -> Any:
    """Return the ledger's table. Single writes are repeated while a transaction of the yard has the same row."""
    table = runs.yard.session.resource("dynamodb").Table(runs.yard.table)
    table.meta.client.meta.events.register("needs-retry.dynamodb", _met_a_transaction)
    return table


def _met_a_transaction(response: tuple[Any, dict[str, Any]] | None, **_: Any) -> float | None:
    """Return the seconds until a retry, or None to leave the decision to botocore."""
    code = response[1].get("Error", {}).get("Code") if response else None
    return 0.05 if code == "TransactionConflictException" else None
