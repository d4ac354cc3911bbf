"""A user on a host holds it by the command and from Python, even after the end of its run and its lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.e2e.kept_images import KEPT
from tests.e2e.runs import Runs
from tests.e2e.watch import ec2, launch, shell, until_it_is
from trainyard.values import serialization

NOTEBOOK = """cd /tmp && /opt/trainyard/venv/bin/python -c '
from trainyard.hold import hold
print(hold("3h").isoformat())
'"""


def held(runs: Runs, instance: str) -> datetime:
    (there,) = ec2(runs).describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"]
    return serialization.parse_timestamp(
        {tag["Key"]: tag["Value"] for tag in there["Tags"]}["trainyard:hold"]
    )


def ahead(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def test_a_launched_host_is_held_beyond_its_lease_and_released(runs: Runs) -> None:
    made = launch(runs, image=runs.yard.image(), market="on_demand", hours=1, hold_hours=0.5)
    assert made.succeeded, made.why()
    host, lease = str(made.summary["instance"]), serialization.parse_timestamp(str(made.summary["until"]))
    assert held(runs, host) == serialization.parse_timestamp(str(made.summary["held"])) < lease

    assert "held until" in shell(runs, host, "trainyard hold 2h 2>&1")
    assert lease + timedelta(minutes=30) < held(runs, host) <= ahead(2)
    assert shell(runs, host, NOTEBOOK).strip().startswith(held(runs, host).isoformat()[:19])
    longest = held(runs, host)
    shell(runs, host, "trainyard hold 30m")
    assert held(runs, host) == longest > ahead(2.5)

    assert "a hold lasts at most 24 h" in shell(runs, host, "trainyard hold 25h 2>&1 || true")
    assert "this host is not held any more" in shell(runs, host, "trainyard unhold")
    assert held(runs, host) <= datetime.now(UTC)
    ec2(runs).terminate_instances(InstanceIds=[host])
    until_it_is(runs, host, "terminated")


def test_a_host_of_a_run_that_is_over_does_not_power_itself_off_while_it_is_held(runs: Runs) -> None:
    done = runs.run(runs.job("held", **KEPT))
    assert done.succeeded, done.why()
    (host,) = [each["InstanceId"] for each in runs.yard.instances(done.id)]
    until_it_is(runs, host, "stopped")
    over = [{"Key": "trainyard:lease", "Value": serialization.timestamp(ahead(-1))}]
    ec2(runs).create_tags(Resources=[host], Tags=over)
    ec2(runs).start_instances(InstanceIds=[host])
    until_it_is(runs, host, "running")

    shell(runs, host, "trainyard hold 20h")
    until = held(runs, host)
    assert until > ahead(19.9)
    output = runs.until(
        "its agent knows that it is held",
        lambda: shell(
            runs, host, "journalctl -u trainyard-host --no-pager | grep 'held until' || true"
        ).strip(),
    )
    assert f"powers itself off at {until.isoformat()}" in output
    shell(runs, host, "trainyard unhold")
    assert held(runs, host) <= datetime.now(UTC)
    ec2(runs).terminate_instances(InstanceIds=[host])
    until_it_is(runs, host, "terminated")
