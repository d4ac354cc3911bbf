"""Faults of images: failures, delays, remaining snapshots, and lost events."""

import json
from typing import Any

import pytest

from tests.contract.conftest import allow, eventually
from tests.contract.ec2.conftest import Yard, error_code, tags
from tests.contract.ec2.images import available, image_of, made_image, snapshot_of


@pytest.fixture
def host(yard: Yard) -> str:
    launched = yard.run(TagSpecifications=tags("instance", yard="mine"))[0]
    yard.becomes(launched, "running")
    return launched


def fault(yard: Yard, *words: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(yard.cloud.command("fault", *words).stdout)
    return said


def standing(yard: Yard) -> str:
    return yard.cloud.command("fault", "list").stdout


def states_told(yard: Yard, image: str) -> list[str]:
    return [event["detail"]["State"] for event in yard.events(image, "EC2 AMI State Change")]


def test_the_next_image_fails_with_a_reason_and_the_one_after_does_not(yard: Yard, host: str) -> None:
    fault(yard, "image-fail", "--reason", "no disk is left")
    assert "fails the next 1 image: no disk is left" in standing(yard)
    fault(yard, "image-slow", "600")
    image = made_image(yard, host, NoReboot=True)
    assert image_of(yard, image)["State"] == "pending"
    fault(yard, "image-slow", "0")
    eventually(lambda: image_of(yard, image)["State"] == "failed")
    assert image_of(yard, image)["StateReason"]["Message"] == "no disk is left"
    (told,) = eventually(lambda: yard.events(image, "EC2 AMI State Change"))
    assert (told["detail"]["State"], told["detail"]["ErrorMessage"]) == ("failed", "no disk is left")
    assert error_code(yard.run, ImageId=image) == "InvalidAMIID.Unavailable"
    snapshot = snapshot_of(yard, image)
    assert snapshot["State"] == "error"
    answer = yard.ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert answer["DeleteSnapshotResults"][0]["ReturnCode"] == "success"
    available(yard, made_image(yard, host, NoReboot=True))


def test_a_slow_image_stays_pending_so_long_and_its_host_lives(yard: Yard, host: str) -> None:
    fault(yard, "image-slow", "600")
    image = made_image(yard, host, NoReboot=True)
    fault(yard, "image-slow", "0.1")
    quick = made_image(yard, host, NoReboot=True)
    available(yard, quick)
    assert image_of(yard, image)["State"] == "pending"
    assert yard.state(host) == "running"
    yard.ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert error_code(yard.ec2.describe_images, ImageIds=[image]) == "InvalidAMIID.NotFound"


@pytest.mark.parametrize("end", [("clear",), ("image-slow", "0")])
def test_a_slow_image_is_finished_when_the_fault_ends(yard: Yard, host: str, end: tuple[str, ...]) -> None:
    fault(yard, "image-slow", "600")
    image = made_image(yard, host, NoReboot=True)
    gone = made_image(yard, host, NoReboot=True)
    yard.ec2.deregister_image(ImageId=gone)
    fault(yard, *end)
    available(yard, image)
    eventually(lambda: states_told(yard, image) == ["available"])
    assert "available" not in states_told(yard, gone)


@pytest.mark.parametrize("code", ["internal-error", "missing-permissions"])
def test_a_stuck_snapshot_stays_when_its_image_goes(yard: Yard, host: str, code: str) -> None:
    image = made_image(yard, host, NoReboot=True)
    available(yard, image)
    snapshot = snapshot_of(yard, image)["SnapshotId"]
    fault(yard, "snapshot-stuck", "--code", code)
    answer = yard.ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert answer["Return"] is True
    assert answer["DeleteSnapshotResults"] == [{"SnapshotId": snapshot, "ReturnCode": code}]
    assert error_code(yard.ec2.describe_images, ImageIds=[image]) == "InvalidAMIID.NotFound"
    yard.ec2.delete_snapshot(SnapshotId=snapshot)
    assert error_code(yard.ec2.describe_snapshots, SnapshotIds=[snapshot]) == "InvalidSnapshot.NotFound"


def test_a_lost_event_is_lost_as_often_as_asked_and_nothing_else_is(yard: Yard, host: str) -> None:
    assert fault(yard, "lose", "EC2 AMI State Change", "--times", "1")["times"] == 1
    assert "EC2 AMI State Change: drops the next 1 event" in standing(yard)
    lost, told = (made_image(yard, host, NoReboot=True) for _ in range(2))
    available(yard, lost)
    available(yard, told)
    eventually(lambda: len(states_told(yard, lost) + states_told(yard, told)) == 1)
    fault(yard, "lose", "EC2 AMI*")
    yard.ec2.deregister_image(ImageId=lost)
    fault(yard, "clear")
    yard.ec2.deregister_image(ImageId=told)
    eventually(lambda: "deregistered" in states_told(yard, told))
    assert "deregistered" not in states_told(yard, lost)


def test_only_an_event_that_there_is_can_be_lost(yard: Yard) -> None:
    refused = yard.cloud.command("fault", "lose", "EC2 Image State Change", check=False)
    assert refused.returncode == 1
    assert "EC2 AMI State Change" in refused.stderr


def test_who_may_not_delete_the_snapshot_is_told_so_and_the_image_is_gone(yard: Yard, host: str) -> None:
    image = made_image(yard, host, NoReboot=True, TagSpecifications=tags("image", "snapshot", yard="mine"))
    available(yard, image)
    snapshot = snapshot_of(yard, image)["SnapshotId"]
    only = allow("ec2:DeregisterImage", StringEquals={"aws:ResourceTag/yard": "mine"})
    session = yard.cloud.acting_as(only)
    answer = yard.cloud.client("ec2", session).deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert answer["DeleteSnapshotResults"] == [{"SnapshotId": snapshot, "ReturnCode": "missing-permissions"}]
    assert yard.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
