"""Hosts become images and images become hosts: with their files, in any zone, and never at the cost of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.runs import Run, Runs

ALONE: dict[str, Any] = {"cluster": {"strategy": "single", "workers": 1}}
KEPT: dict[str, Any] = {**ALONE, "hardware": {"market": "on_demand"}, "after": {"hosts": "stop"}}
NEVER = datetime.fromtimestamp(0, UTC)
NOTES = "/home/ubuntu/notes.txt"


def ec2(runs: Runs) -> Any:
    return runs.yard.session.client("ec2")


def snapshot(runs: Runs, **asked: Any) -> Run:
    return runs.finish(runs.yard.start(runs.yard.snapshot, asked))


def launch(runs: Runs, **asked: Any) -> Run:
    return runs.finish(runs.yard.start(runs.yard.launch, asked))


def state(runs: Runs, instance: str) -> str:
    answer = ec2(runs).describe_instances(InstanceIds=[instance])
    return str(answer["Reservations"][0]["Instances"][0]["State"]["Name"])


def until_it_is(runs: Runs, instance: str, wanted: str) -> None:
    runs.until(f"{instance} is {wanted}", lambda: state(runs, instance) == wanted)


def tags(runs: Runs, image: str) -> dict[str, str]:
    (found,) = ec2(runs).describe_images(ImageIds=[image])["Images"]
    return {tag["Key"]: tag["Value"] for tag in found["Tags"]}


def made_by(runs: Runs, execution: str) -> list[dict[str, Any]]:
    """Images and snapshots of this execution."""
    mine = [{"Name": "tag:trainyard:execution", "Values": [execution]}]
    images: list[dict[str, Any]] = ec2(runs).describe_images(Owners=["self"], Filters=mine)["Images"]
    disks: list[dict[str, Any]] = ec2(runs).describe_snapshots(OwnerIds=["self"], Filters=mine)["Snapshots"]
    return images + disks


def pinged(runs: Runs, instance: str) -> datetime:
    """When its agent has told Systems Manager last that it is there: once it has booted, then now and then."""
    chosen = [{"Key": "InstanceIds", "Values": [instance]}]
    ssm = runs.yard.session.client("ssm")
    known = ssm.describe_instance_information(Filters=chosen)["InstanceInformationList"]
    return known[0]["LastPingDateTime"] if known else NEVER


def shell(runs: Runs, instance: str, line: str) -> str:
    """What the command prints on the host, as a user would have it there."""
    ssm = runs.yard.session.client("ssm")

    runs.until(f"Systems Manager knows {instance}", lambda: pinged(runs, instance) > NEVER)
    sent = ssm.send_command(
        DocumentName="AWS-RunShellScript", InstanceIds=[instance], Parameters={"commands": [line]}
    )["Command"]["CommandId"]

    def answer() -> dict[str, Any] | None:
        found = ssm.list_command_invocations(CommandId=sent, Details=True)["CommandInvocations"]
        over = found and found[0]["Status"] in ("Success", "Failed", "TimedOut", "Cancelled")
        return found[0] if over else None

    said = runs.until(f"{line} has ended on {instance}", answer)
    assert said["Status"] == "Success", said
    return str(said["CommandPlugins"][0]["Output"])


@contextmanager
def a_host(runs: Runs, **asked: Any) -> Iterator[dict[str, Any]]:
    """One from the current image, gone at the end; what its launch said of it."""
    made = launch(runs, **({"image": runs.yard.image()} | asked))
    assert made.succeeded, made.why()
    try:
        yield made.summary
    finally:
        ec2(runs).terminate_instances(InstanceIds=[made.summary["instance"]])


def test_a_host_comes_back_with_its_files_in_another_zone_and_trains_again(runs: Runs) -> None:
    first = runs.run(runs.job("frozen", **KEPT))
    assert first.succeeded, first.why()
    chief = runs.host_of(first.id, "chief")
    until_it_is(runs, chief, "stopped")
    long_ago = {"Key": "trainyard:lease", "Value": "2026-01-01T00:00:00.000Z"}
    ec2(runs).create_tags(Resources=[chief], Tags=[long_ago])
    ec2(runs).start_instances(InstanceIds=[chief])
    shell(runs, chief, f"mkdir -p $(dirname {NOTES}) && echo 'tuned by hand' > {NOTES}")

    frozen = snapshot(runs, run=first.id, then="terminate")
    assert frozen.succeeded, frozen.why()
    until_it_is(runs, chief, "terminated")
    said = tags(runs, frozen.summary["image"])
    assert said["trainyard:family"] == "frozen"
    assert said["trainyard:run"] == first.id
    assert said["trainyard:host"] == chief
    assert said["trainyard:parent"] == runs.yard.image()
    assert said["trainyard:kind"] == "snapshot"
    assert int(said["trainyard:step"]) > 0
    assert said["trainyard:tensorflow"] == tags(runs, said["trainyard:parent"])["trainyard:tensorflow"]

    (before,) = runs.yard.instances(first.id)
    other = next(
        f"us-east-1{letter}" for letter in "abc" if before["Placement"]["AvailabilityZone"][-1] != letter
    )
    again = launch(runs, latest="frozen", zones=[other], market="on_demand")
    assert again.succeeded, again.why()
    host = again.summary["instance"]
    assert again.summary["zone"] == other
    assert again.summary["connect"] == f"aws ssm start-session --target {host}"
    assert shell(runs, host, f"cat {NOTES}").strip() == "tuned by hand"
    shell(runs, host, f"echo 'and once more' >> {NOTES}")

    second = snapshot(runs, instance=host, then="terminate")
    assert second.succeeded, second.why()
    assert second.summary["family"] == "frozen"
    assert tags(runs, second.summary["image"])["trainyard:parent"] == frozen.summary["image"]
    trained = runs.run(runs.job("thawed", **ALONE, hardware={"image": "frozen"}))
    assert trained.succeeded, trained.why()
    assert trained.json("plan.json")["image"] == second.summary["image"]


def test_a_run_is_imaged_while_it_trains_and_does_not_notice(runs: Runs) -> None:
    arn = runs.start(runs.job("imaged", **ALONE, program={"args": {"steps": 1500, "step-delay": 0.05}}))
    run = arn.rsplit(":", 1)[-1]
    runs.until("it trains", lambda: runs.checkpoint_of(run) >= 10)
    for asked in ({"quiesce": "reboot"}, {"then": "terminate"}):
        no = snapshot(runs, run=run, **asked)
        assert no.execution.error == "SnapshotRefused", no.why()
        assert f"{run} trains on it" in no.execution.cause
    runs.cloud.fault("image-fail", "--reason", "no room")
    failed = snapshot(runs, run=run)
    assert failed.execution.error == "ImageFailed", failed.why()
    taken = snapshot(runs, run=run)
    assert taken.succeeded, taken.why()
    assert "resumed" in [entry["event"] for entry in taken.timeline]
    assert runs.yard.execution(arn).status == "RUNNING", "the snapshot came while it trained"
    assert int(tags(runs, taken.summary["image"])["trainyard:step"]) >= 10
    ended = runs.finish(arn)
    assert ended.succeeded, ended.why()
    assert ended.summary["restarts"] == 0
    assert ended.summary["steps"]["done"] == 1500


def test_a_run_leaves_an_image_of_its_chief_if_the_job_asks_for_one(runs: Runs) -> None:
    run = runs.run(runs.job("kept", **ALONE, after={"image": "on_success"}))
    assert run.succeeded, run.why()
    said = tags(runs, run.summary["image"])
    assert (said["trainyard:family"], said["trainyard:kind"]) == ("kept", "snapshot")
    assert (said["trainyard:run"], said["trainyard:execution"]) == (run.id, run.id)
    runs.cloud.fault("image-fail", "--reason", "no room")
    failed = runs.run(runs.job("kept", **ALONE, after={"image": "on_success"}))
    assert failed.execution.error == "ImageFailed", failed.why()
    assert "no room" in failed.execution.cause
    assert failed.summary["image"] is None
    assert made_by(runs, failed.id) == []


def test_a_host_outlives_every_image_that_fails_and_ends_only_with_one_that_is_there(runs: Runs) -> None:
    with a_host(runs, market="on_demand") as made:
        host = made["instance"]
        runs.cloud.fault("image-fail", "--reason", "no room")
        failed = snapshot(runs, instance=host, name="sturdy", quiesce="stop", then="terminate")
        assert failed.execution.error == "ImageFailed", failed.why()
        assert "no room" in failed.execution.cause
        assert failed.summary["image"] is None
        assert made_by(runs, failed.id) == []
        until_it_is(runs, host, "running")

        kept = snapshot(runs, instance=host, name="sturdy", quiesce="stop")
        assert kept.succeeded, kept.why()
        until_it_is(runs, host, "running")

        before = pinged(runs, host)
        rebooted = snapshot(runs, instance=host, name="sturdy", quiesce="reboot")
        assert rebooted.succeeded, rebooted.why()
        runs.until("its agent is up again", lambda: pinged(runs, host) > before)
        assert shell(runs, host, "echo up again").strip() == "up again"

        runs.cloud.fault("image-slow", "15")
        for lost in ("EC2 AMI State Change", "EC2 Command Status-change Notification"):
            runs.cloud.fault("lose", lost)
        arn = runs.yard.start(runs.yard.snapshot, {"instance": host, "name": "sturdy", "then": "terminate"})
        (image,) = runs.until(
            "the image is asked for",
            lambda: [each for each in made_by(runs, arn.rsplit(":", 1)[-1]) if "ImageId" in each],
        )
        assert image["State"] == "pending"
        assert state(runs, host) == "running"
        gone = runs.finish(arn)
        assert gone.succeeded, gone.why()
        assert gone.summary["image"] == image["ImageId"]
        until_it_is(runs, host, "terminated")


def test_a_snapshot_that_is_stopped_by_hand_leaves_the_host_as_it_was(runs: Runs) -> None:
    with a_host(runs) as made:
        runs.cloud.fault("image-slow", "60")
        arn = runs.yard.start(runs.yard.snapshot, {"instance": made["instance"], "then": "terminate"})
        execution = arn.rsplit(":", 1)[-1]
        runs.until("the image is asked for", lambda: made_by(runs, execution))
        time.sleep(1)
        runs.yard.session.client("stepfunctions").stop_execution(executionArn=arn)
        runs.until("no image is left", lambda: made_by(runs, execution) == [])
        summary = runs.until("it is concluded", lambda: runs.yard.summary(execution))
        assert (summary["outcome"], summary["error"], summary["image"]) == ("failed", "Aborted", None)
        assert state(runs, made["instance"]) == "running"


WRONG = [
    ({}, "neither instance nor run"),
    ({"instance": "i-0123456789abcdef0"}, "EC2 knows no instance i-0123456789abcdef0"),
    ({"run": "nobody-12345678"}, "no run nobody-12345678"),
    ({"instance": "the chief", "quiesce": "freeze", "els": 1}, "quiesce: found"),
]


@pytest.mark.parametrize(("asked", "reason"), WRONG)
def test_a_snapshot_that_cannot_be_made_says_why(runs: Runs, asked: dict[str, Any], reason: str) -> None:
    no = snapshot(runs, **asked)
    assert no.execution.error == "SnapshotRefused", no.why()
    assert reason in no.execution.cause
    assert no.summary["outcome"] == "refused"


def test_strangers_and_hosts_that_are_gone_are_not_imaged(runs: Runs) -> None:
    (stranger,) = ec2(runs).run_instances(
        ImageId=runs.yard.image(), InstanceType="t3.nano", MinCount=1, MaxCount=1
    )["Instances"]
    instance = stranger["InstanceId"]
    try:
        no = snapshot(runs, instance=instance)
        assert "is no host of this yard" in no.execution.cause
    finally:
        ec2(runs).terminate_instances(InstanceIds=[instance])
    with a_host(runs) as made:
        for asked in ({"quiesce": "stop"}, {"then": "stop"}):
            assert "spot host" in snapshot(runs, instance=made["instance"], **asked).execution.cause
    until_it_is(runs, made["instance"], "terminated")
    assert "is terminated" in snapshot(runs, instance=made["instance"]).execution.cause


def test_a_host_that_is_lost_before_it_can_be_reached_is_followed_by_one_of_another_pool(runs: Runs) -> None:
    types = ["g6.xlarge", "g5.xlarge"]
    arn = runs.yard.start(runs.yard.launch, {"image": runs.yard.image(), "instance_types": types})
    name = arn.rsplit(":", 1)[-1]
    (lost,) = runs.until("it is launched", lambda: runs.yard.instances(name))
    runs.cloud.fault("kill", lost["InstanceId"])
    made = runs.finish(arn)
    assert made.succeeded, made.why()
    ec2(runs).terminate_instances(InstanceIds=[made.summary["instance"]])
    pools = [attempt["pool"] for attempt in made.summary["attempts"]]
    assert len(set(pools)) == len(pools) == 2


def test_a_name_that_another_workflow_has_used_harms_no_run(runs: Runs) -> None:
    arn = runs.start(runs.job("first-come", **ALONE, program={"args": {"steps": 200, "step-delay": 0.05}}))
    run = arn.rsplit(":", 1)[-1]
    runs.until("it trains", lambda: runs.checkpoint_of(run) >= 10)
    for machine in (runs.yard.snapshot, runs.yard.launch, runs.yard.bake):
        no = runs.yard.wait(runs.yard.start(machine, {"run": run}, run), 60)
        assert no.status == "FAILED"
        assert f"The run {run} belongs to another execution" in no.cause
    ended = runs.finish(arn)
    assert ended.succeeded, ended.why()
    assert ended.summary["restarts"] == 0


def test_a_job_does_not_write_over_the_run_of_another_workflow(runs: Runs) -> None:
    earlier = launch(runs, latest="nothing-of-the-kind")
    execution_input = {"job": runs.job("write-over", **ALONE)}
    later = runs.finish(runs.start_inline(execution_input, earlier.id))
    assert later.execution.error == "JobRefused"
    assert (
        f"The run {earlier.id} belongs to another execution ({earlier.execution.arn})"
        in later.execution.cause
    )
    assert later.summary == earlier.summary
    assert not runs.yard.instances(earlier.id)


NOWHERE = [
    ({}, "found none of image, run and latest"),
    ({"latest": "nothing-of-the-kind"}, "no image belongs to a family nothing-of-the-kind"),
    ({"image": "ami-0123456789abcdef0"}, "the yard has no image ami-0123456789abcdef0"),
    ({"latest": "gpu", "instance_types": ["g6.xlrge"], "hours": -1}, "instance_types[0]"),
]


@pytest.mark.parametrize(("asked", "reason"), NOWHERE)
def test_a_launch_that_cannot_be_says_why(runs: Runs, asked: dict[str, Any], reason: str) -> None:
    no = launch(runs, **asked)
    assert no.execution.error == "LaunchRefused", no.why()
    assert reason in no.execution.cause
