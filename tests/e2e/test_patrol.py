"""Patrol on a deployed yard, once a minute as on AWS. Time is compressed by policy, never by another clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.runs import Run, Runs

SOON = {"window_minutes": 2, "grace_minutes": 0.1}
"""A policy by which a host is idle after two minutes."""
MINUTES = 60
ON_DEMAND = {"instance_types": ["g6.xlarge"], "market": "on_demand"}
ONE = {"strategy": "single", "workers": 1}


def only_host(runs: Runs, run: str) -> str:
    (host,) = {each["InstanceId"] for each in runs.yard.instances(run)}
    return str(host)


def host(runs: Runs, instance: str) -> dict[str, Any]:
    (held,) = runs.yard.session.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"]
    (found,) = held["Instances"]
    return dict(found)


def state(runs: Runs, instance: str) -> str:
    return str(host(runs, instance)["State"]["Name"])


def tag(runs: Runs, instance: str, key: str) -> str:
    return next((each["Value"] for each in host(runs, instance)["Tags"] if each["Key"] == key), "")


def set_tag(runs: Runs, instance: str, key: str, value: str) -> None:
    runs.yard.session.client("ec2").create_tags(Resources=[instance], Tags=[{"Key": key, "Value": value}])


def do(runs: Runs, instance: str, line: str) -> None:
    """What a person on the host does, once Systems Manager knows it."""
    ssm = runs.yard.session.client("ssm")

    def online() -> bool:
        known = ssm.describe_instance_information()["InstanceInformationList"]
        return any(each["InstanceId"] == instance and each["PingStatus"] == "Online" for each in known)

    runs.until(f"{instance} is online", online)
    ssm.send_command(
        DocumentName="AWS-RunShellScript", InstanceIds=[instance], Parameters={"commands": [line]}
    )


def verdicts(runs: Runs, instance: str) -> list[dict[str, Any]]:
    """What the ledger says of this host, in order."""
    rows = runs.yard.session.resource("dynamodb").Table(runs.yard.table).scan(ConsistentRead=True)["Items"]
    days = sorted((row["pk"], row["sk"], row) for row in rows if row["pk"].startswith("patrol#"))
    return [each for _, _, row in days for each in row["verdicts"] if each["instance"] == instance]


@contextmanager
def without_rules(runs: Runs, *names: str, bus: str = "default") -> Iterator[None]:
    """These rules disabled, by the beginnings of their logical names."""
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


@pytest.mark.timeout(1800)
def test_a_host_that_computes_is_kept_an_idle_one_stopped_and_at_last_archived(runs: Runs) -> None:
    job = runs.job(
        "ladder", cluster=ONE, hardware=ON_DEMAND, after={"hosts": "stop"}, policy={**SOON, "archive_days": 1}
    )
    run = runs.run(job)
    assert run.succeeded, run.why()
    kept = only_host(runs, run.id)
    runs.until("the run's end stops its host", lambda: state(runs, kept) == "stopped")

    runs.yard.session.client("ec2").start_instances(InstanceIds=[kept])
    do(
        runs,
        kept,
        "echo mine > /root/note; nohup sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $! > /root/busy",
    )
    runs.until(
        "it was looked at", lambda: any("busiest GPU" in each["reason"] for each in verdicts(runs, kept)), 400
    )
    assert state(runs, kept) == "running"

    do(runs, kept, "kill $(cat /root/busy)")
    runs.until("the idle host is stopped", lambda: state(runs, kept) == "stopped", 8 * MINUTES)
    last = [each for each in verdicts(runs, kept) if each.get("outcome") == "done"][-1]
    assert last["verdict"] == "stop-idle"
    assert "no GPU of it was above" in last["reason"]
    assert tag(runs, kept, "trainyard:verdict").startswith(("stop-idle ", "keep-stopped "))

    set_tag(runs, kept, "trainyard:policy-archive_days", "0.0005")
    runs.until(
        "the host is archived", lambda: state(runs, kept) in ("shutting-down", "terminated"), 6 * MINUTES
    )
    images = runs.yard.session.client("ec2").describe_images(
        Owners=["self"], Filters=[{"Name": "tag:trainyard:host", "Values": [kept]}]
    )["Images"]
    assert [(each["State"]) for each in images] == ["available"]


def test_hosts_that_no_run_explains_end_at_the_third_patrol_at_the_latest(runs: Runs) -> None:
    """As a control plane leaves them that dies between CreateFleet and the ledger."""
    tags = {
        "trainyard:yard": "trainyard",
        "trainyard:run": "ghost-1",
        "trainyard:attempt": "1",
        "trainyard:policy-grace_minutes": "0.1",
    }
    launched = runs.yard.session.client("ec2").run_instances(
        ImageId=runs.yard.image(),
        InstanceType="g6.xlarge",
        MinCount=2,
        MaxCount=2,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )
    ghosts = [each["InstanceId"] for each in launched["Instances"]]
    runs.until(
        "nobody's hosts have ended",
        lambda: all(state(runs, each) in ("shutting-down", "terminated") for each in ghosts),
        3.5 * MINUTES,
    )
    assert "no execution named ghost-1 goes on" in verdicts(runs, ghosts[0])[-1]["reason"]


def test_an_execution_stopped_by_hand_unheard_leaves_no_host_and_a_summary(runs: Runs) -> None:
    job = runs.job("unheard", program={"args": {"steps": 6000}}, policy=SOON)
    with without_rules(runs, "RunBroken", "RunCutShort"):
        arn = runs.start(job)
        run = runs.yard.execution(arn).name
        runs.until("it trains", lambda: runs.checkpoint_of(run) or _progress(runs, run))
        runs.yard.session.client("stepfunctions").stop_execution(executionArn=arn)
        gone = ("shutting-down", "terminated")
        runs.until(
            "its hosts have ended",
            lambda: all(each["State"]["Name"] in gone for each in runs.yard.instances(run)),
            4 * MINUTES,
        )
        summary = runs.until("a summary", lambda: runs.yard.summary(run), 2 * MINUTES)
    assert summary["error"] == "Aborted"
    assert "Patrol has ended its hosts" in summary["reason"]


def test_a_finish_that_nobody_heard_is_found_by_patrol(runs: Runs) -> None:
    job = runs.job("lost-finish", cluster=ONE, program={"args": {"steps": 600}})
    arn = runs.start(job)
    run = runs.yard.execution(arn).name
    runs.until("it reports", lambda: _progress(runs, run))
    with without_rules(runs, "HostSignal", bus="trainyard"):
        done = runs.finish(arn, 8 * MINUTES)
    assert done.succeeded, done.why()
    assert len(done.summary["attempts"]) == 1


def _progress(runs: Runs, run: str) -> Any:
    return next((row.get("progress") for row in runs.yard.ledger(run) if row["sk"] == "run"), None)


def capped(runs: Runs, name: str, **changes: Any) -> dict[str, Any]:
    """A job whose hour is over after two minutes, long before its program is."""
    return runs.job(name, cluster=ONE, program={"args": {"steps": 60000}}, limits={"hours": 0.03}, **changes)


def it_stopped_at_its_cap(run: Run) -> int:
    """The step that its last checkpoint has."""
    assert run.execution.error == "LimitReached", run.why()
    assert "stopped at its cap of 0.03 hours (limits.hours) after step" in run.summary["reason"]
    assert f"resume with checkpoints.resume: {run.id}" in run.summary["reason"]
    step = int(run.json("checkpoints/latest.json")["step"])
    assert step > 0
    return step


@pytest.fixture(scope="module")
def capped_without_patrol(runs: Runs) -> Run:
    with without_rules(runs, "EveryMinute"):
        return runs.run(capped(runs, "capped"), 8 * MINUTES)


def test_a_run_stops_at_its_cap_without_patrol(capped_without_patrol: Run) -> None:
    """The host finds out by itself."""
    assert it_stopped_at_its_cap(capped_without_patrol) > 0


def test_a_new_run_goes_on_from_the_last_checkpoint_of_the_capped_one(
    runs: Runs, capped_without_patrol: Run
) -> None:
    step = it_stopped_at_its_cap(capped_without_patrol)
    job = runs.job(
        "resumed",
        cluster=ONE,
        program={"args": {"steps": step + 50}},
        checkpoints={"resume": capped_without_patrol.id},
    )
    run = runs.run(job)
    assert run.succeeded, run.why()
    assert run.summary["attempts"][0]["from_step"] == step
    assert run.summary["steps"]["done"] == step + 50


def test_a_run_stops_at_its_cap_without_its_host_agent(runs: Runs) -> None:
    """Frozen as it is, the host neither hears nor does anything: patrol ends the run."""
    arn = runs.start(capped(runs, "frozen"))
    run = runs.yard.execution(arn).name
    runs.until("it reports", lambda: _progress(runs, run))
    runs.cloud.fault("freeze", only_host(runs, run))
    done = runs.finish(arn, 12 * MINUTES)
    assert done.execution.error == "LimitReached", done.why()
    assert "stopped at its cap of 0.03 hours" in done.summary["reason"]


def test_a_metrics_outage_stops_nothing(runs: Runs) -> None:
    """Two hosts that somebody keeps after their run, of which CloudWatch suddenly knows nothing."""
    job = runs.job(
        "outage", hardware=ON_DEMAND, after={"hosts": "stop"}, policy={**SOON, "unknown_stop_minutes": 1}
    )
    run = runs.run(job)
    assert run.succeeded, run.why()
    both = [each["InstanceId"] for each in runs.yard.instances(run.id)]
    runs.until("they are stopped", lambda: all(state(runs, each) == "stopped" for each in both))
    runs.cloud.fault("metrics")
    runs.yard.session.client("ec2").start_instances(InstanceIds=both)
    runs.until(
        "patrol has asked for metrics",
        lambda: all(tag(runs, each, "trainyard:verdict").startswith("stop-unknown") for each in both),
        8 * MINUTES,
    )
    assert [state(runs, each) for each in both] == ["running", "running"]
    runs.yard.session.client("ec2").terminate_instances(InstanceIds=both)
