"""Make images of hosts, and launch hosts from them with their files in any zone, without harm to a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.kept_images import ALONE, KEPT
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.watch import LONG_AGO, ec2, launch, pinged, set_tags, shell, state, until_it_is
from tests.support import quick
from trainyard.client import Run

NOTES = "/home/ubuntu/notes.txt"


def snapshot(runs: Runs, **asked: Any) -> Run:
    return runs.finish(runs.yard.start("snapshot", asked))


def tags(runs: Runs, image: str) -> dict[str, str]:
    (found,) = ec2(runs).describe_images(ImageIds=[image])["Images"]
    return {tag["Key"]: tag["Value"] for tag in found["Tags"]}


def made_by(runs: Runs, execution: str) -> list[dict[str, Any]]:
    """Return the images and snapshots of an execution."""
    mine = [{"Name": "tag:trainyard:execution", "Values": [execution]}]
    images: list[dict[str, Any]] = ec2(runs).describe_images(Owners=["self"], Filters=mine)["Images"]
    disks: list[dict[str, Any]] = ec2(runs).describe_snapshots(OwnerIds=["self"], Filters=mine)["Snapshots"]
    return images + disks


@contextmanager
def a_host(runs: Runs, **asked: Any) -> Iterator[dict[str, Any]]:
    """Launch a host from the current image, yield the summary of the launch, and terminate the host."""
    made = launch(runs, **({"image": runs.yard.image()} | asked))
    assert made.succeeded, made.why()
    try:
        yield made.summary
    finally:
        ec2(runs).terminate_instances(InstanceIds=[made.summary["instance"]])


def test_a_host_comes_back_with_its_files_in_another_zone_and_trains_again(runs: Runs) -> None:
    first = runs.run(runs.job("frozen", **KEPT))
    assert first.succeeded, first.why()
    chief = runs.host_of(first, "chief")
    until_it_is(runs, chief, "stopped")
    set_tags(runs, chief, lease=LONG_AGO)
    ec2(runs).start_instances(InstanceIds=[chief])
    shell(runs, chief, f"mkdir -p $(dirname {NOTES}) && echo 'tuned by hand' > {NOTES}")

    frozen = snapshot(runs, run=first.id, then="terminate")
    assert frozen.succeeded, frozen.why()
    until_it_is(runs, chief, "terminated")
    image_tags = tags(runs, frozen.summary["image"])
    assert image_tags["trainyard:family"] == "frozen"
    assert image_tags["trainyard:run"] == first.id
    assert image_tags["trainyard:host"] == chief
    assert image_tags["trainyard:parent"] == runs.yard.image()
    assert image_tags["trainyard:kind"] == "snapshot"
    assert int(image_tags["trainyard:step"]) > 0
    assert (
        image_tags["trainyard:tensorflow"]
        == tags(runs, image_tags["trainyard:parent"])["trainyard:tensorflow"]
    )

    (before,) = runs.yard.instances(first.id)
    other = next(
        f"us-east-1{letter}" for letter in "abc" if before["Placement"]["AvailabilityZone"][-1] != letter
    )
    again = launch(runs, latest="frozen", zones=[other], market="on_demand")
    assert again.succeeded, again.why()
    host = again.summary["instance"]
    assert again.summary["zone"] == other
    assert again.summary["connect"] == f"trainyard shell {host}"
    assert shell(runs, host, f"cat {NOTES}") == "tuned by hand"
    shell(runs, host, f"echo 'and once more' >> {NOTES}")

    second = snapshot(runs, instance=host, then="terminate")
    assert second.succeeded, second.why()
    assert second.summary["family"] == "frozen"
    assert tags(runs, second.summary["image"])["trainyard:parent"] == frozen.summary["image"]
    trained = runs.run(runs.job("thawed", **ALONE, hardware={"image": "frozen"}))
    assert trained.succeeded, trained.why()
    assert trained.json("plan.json")["image"] == second.summary["image"]


def test_a_run_is_imaged_while_it_trains_and_does_not_notice(runs: Runs) -> None:
    run = runs.start(runs.job("imaged", **ALONE, program={"args": quick.UNTIL_RELEASED}))
    runs.until("it trains", lambda: runs.checkpoint_of(run) >= 10)
    for asked in ({"quiesce": "reboot"}, {"then": "terminate"}):
        no = snapshot(runs, run=run.id, **asked)
        assert no.execution.error == "SnapshotRefused", no.why()
        assert f"{run.id} trains on it" in no.execution.cause
    runs.cloud.fault("image-fail", "--reason", "no room")
    failed = snapshot(runs, run=run.id)
    assert failed.execution.error == "ImageFailed", failed.why()
    taken = snapshot(runs, run=run.id)
    assert taken.succeeded, taken.why()
    runs.until("the program continues", lambda: "resumed" in [event.event for event in taken.timeline])
    assert run.execution.status == "RUNNING", "the snapshot came while it trained"
    assert int(tags(runs, taken.summary["image"])["trainyard:step"]) >= 10
    runs.let_finish(run)
    ended = runs.finish(run)
    assert ended.succeeded, ended.why()
    assert ended.summary["restarts"] == 0
    assert ended.summary["steps"]["done"] == 200


def test_a_run_leaves_an_image_of_its_chief_if_the_job_asks_for_one(runs: Runs) -> None:
    run = runs.run(runs.job("kept", **ALONE, after={"image": "on_success"}))
    assert run.succeeded, run.why()
    image_tags = tags(runs, run.summary["image"])
    assert (image_tags["trainyard:family"], image_tags["trainyard:kind"]) == ("kept", "snapshot")
    assert (image_tags["trainyard:run"], image_tags["trainyard:execution"]) == (run.id, run.id)
    runs.cloud.fault("image-fail", "--reason", "no room")
    without = runs.run(runs.job("kept", **ALONE, after={"image": "on_success"}))
    assert without.succeeded, without.why()
    assert "no room" in "".join(without.summary["warnings"])
    assert without.summary["image"] is None
    assert made_by(runs, without.id) == []


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
        assert shell(runs, host, "echo up again") == "up again"

        runs.cloud.fault("image-slow", "600")
        for lost in ("EC2 AMI State Change", "EC2 Command Status-change Notification"):
            runs.cloud.fault("lose", lost)
        run = runs.yard.start("snapshot", {"instance": host, "name": "sturdy", "then": "terminate"})
        (image,) = runs.until(
            "the image is asked for",
            lambda: [each for each in made_by(runs, run.id) if "ImageId" in each],
        )
        assert image["State"] == "pending"
        assert state(runs, host) == "running"
        runs.cloud.fault("image-slow", "0")
        gone = runs.finish(run)
        assert gone.succeeded, gone.why()
        assert gone.summary["image"] == image["ImageId"]
        until_it_is(runs, host, "terminated")


def test_a_snapshot_that_is_stopped_by_hand_leaves_the_host_as_it_was(runs: Runs) -> None:
    with a_host(runs) as made:
        runs.cloud.fault("image-slow", "60")
        run = runs.yard.start("snapshot", {"instance": made["instance"], "then": "terminate"})
        runs.until("the image is asked for", lambda: made_by(runs, run.id))
        time.sleep(1)
        run.stop(now=True)
        runs.until("no image is left", lambda: made_by(runs, run.id) == [])
        summary = runs.until("it is concluded", lambda: run.summary)
        assert (summary["outcome"], summary["error"], summary["image"]) == ("failed", "Aborted", None)
        assert state(runs, made["instance"]) == "running"


WRONG = [
    ({}, "neither instance nor run"),
    ({"instance": "i-0123456789abcdef0"}, "EC2 has no instance i-0123456789abcdef0"),
    ({"run": "unknown-12345678"}, "no run unknown-12345678"),
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
        assert "is not a host of this yard" in no.execution.cause
    finally:
        ec2(runs).terminate_instances(InstanceIds=[instance])
    with a_host(runs) as made:
        for asked in ({"quiesce": "stop"}, {"then": "stop"}):
            assert "spot host" in snapshot(runs, instance=made["instance"], **asked).execution.cause
    until_it_is(runs, made["instance"], "terminated")
    assert "is terminated" in snapshot(runs, instance=made["instance"]).execution.cause


def test_a_host_that_is_lost_before_it_can_be_reached_is_followed_by_one_of_another_pool(runs: Runs) -> None:
    types = ["g6.xlarge", "g5.xlarge"]
    run = runs.yard.start("dev-host", {"image": runs.yard.image(), "instance_types": types})
    (lost,) = runs.until("it is launched", lambda: runs.yard.instances(run.id))
    runs.cloud.fault("kill", lost["InstanceId"])
    made = runs.finish(run)
    assert made.succeeded, made.why()
    ec2(runs).terminate_instances(InstanceIds=[made.summary["instance"]])
    pools = [attempt["pool"] for attempt in made.summary["attempts"]]
    assert len(set(pools)) == len(pools) == 2


def test_a_name_that_another_workflow_has_used_harms_no_run(runs: Runs) -> None:
    run = runs.start(runs.job("first-come", **ALONE, program={"args": quick.UNTIL_RELEASED}))
    runs.until("it trains", lambda: runs.checkpoint_of(run) >= 10)
    for workflow in ("snapshot", "dev-host", "bake"):
        no = runs.yard.start(workflow, {"run": run.id}, run.id).wait(PATIENCE).execution
        assert no.status == "FAILED"
        assert f"The run {run.id} belongs to another execution" in no.cause
    runs.let_finish(run)
    ended = runs.finish(run)
    assert ended.succeeded, ended.why()
    assert ended.summary["restarts"] == 0


def test_a_job_does_not_write_over_the_run_of_another_workflow(runs: Runs) -> None:
    earlier = launch(runs, latest="nothing-of-the-kind")
    execution_input = {"job": runs.job("write-over", **ALONE)}
    later = runs.finish(runs.yard.start("train", execution_input, earlier.id))
    assert later.execution.error == "JobRefused"
    assert (
        f"The run {earlier.id} belongs to another execution ({earlier.execution.arn})"
        in later.execution.cause
    )
    assert later.summary == earlier.summary
    assert not runs.yard.instances(earlier.id)


NOWHERE = [
    ({}, "found neither image nor run nor latest"),
    ({"latest": "nothing-of-the-kind"}, "no image belongs to a family nothing-of-the-kind"),
    ({"image": "ami-0123456789abcdef0"}, "the yard has no image ami-0123456789abcdef0"),
    ({"latest": "gpu", "instance_types": ["g6.xlrge"], "hours": -1}, "instance_types[0]"),
]


@pytest.mark.parametrize(("asked", "reason"), NOWHERE)
def test_a_launch_that_cannot_be_says_why(runs: Runs, asked: dict[str, Any], reason: str) -> None:
    no = launch(runs, **asked)
    assert no.execution.error == "DevHostRefused", no.why()
    assert reason in no.execution.cause
