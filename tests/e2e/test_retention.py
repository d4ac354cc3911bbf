"""Retire deletes only old images, reports each reason, and tries refused deletions again."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.e2e.runs import Runs
from tests.e2e.shelf import Shelf, retire, shelf_of, waiting_run

PREVIOUS = "/trainyard/image/previous"
GPU, DIGITS, HOST, BROKEN = "kept-gpu", "kept-digits", "kept-host", "kept-broken"


@pytest.fixture
def shelf(runs: Runs) -> Iterator[Shelf]:
    with shelf_of(runs) as shelf:
        yield shelf


def keeping(runs: Runs, images: int, days: int) -> AbstractContextManager[None]:
    """Set keep_images and keep_days as a deployment does. With 0 days, each image is old."""
    return runs.with_settings("trainyard-retire", KEEP_IMAGES=str(images), KEEP_DAYS=str(days))


@contextmanager
def previous(runs: Runs, image: str) -> Iterator[None]:
    """Make an image the previous one, the target of a rollback."""
    ssm = runs.yard.session.client("ssm")
    before = ssm.get_parameter(Name=PREVIOUS)["Parameter"]["Value"]
    ssm.put_parameter(Name=PREVIOUS, Value=image, Overwrite=True)
    try:
        yield
    finally:
        ssm.put_parameter(Name=PREVIOUS, Value=before, Overwrite=True)


def reported(runs: Runs, shelf: Shelf) -> dict[str, tuple[str, str]]:
    """Return fate and reason of each image of a shelf by its name."""
    report = runs.yard.bucket.json("images/report.json") or {}
    rows = {row["id"]: (row["fate"], row["reason"]) for row in (*report["images"], *report["snapshots"])}
    return {called: rows[image] for called, image in shelf.made.items() if image in rows}


def test_of_twelve_images_exactly_the_right_ones_remain(runs: Runs, shelf: Shelf) -> None:
    for called in ("g1", "g2", "g3", "g4", "g5", "g6", "g7"):
        shelf.image(called, GPU)
    shelf.image("d1", DIGITS, parent="g3")
    shelf.image("d2", DIGITS, parent="g4")
    shelf.image("d3", DIGITS)
    shelf.image("h1", HOST)
    runs.cloud.fault("image-fail", "--reason", "No disk.")
    shelf.image("b1", BROKEN)
    shelf.image("of another yard", GPU, yard="other")
    shelf.ec2.stop_instances(InstanceIds=[shelf.host(shelf.made["g5"])])
    everything = shelf.there()
    assert len(everything) == 12 + 1

    with (
        keeping(runs, images=2, days=0),
        previous(runs, shelf.made["g2"]),
        waiting_run(runs, shelf.made["g1"]) as run,
    ):
        seen = retire(runs, {"report_only": True})
        assert seen.status == "SUCCEEDED", seen.cause
        assert shelf.there() == everything
        due = {"g3", "d1", "b1"}
        assert {called for called, (fate, _) in reported(runs, shelf).items() if fate == "due"} == due

        runs.cloud.fault("snapshot-stuck")
        seen = retire(runs)
        assert (seen.status, seen.error) == ("FAILED", "RetireIncomplete")
        (stuck,) = shelf.snapshots() - shelf.there()
        assert shelf.made[stuck] in seen.cause
        assert "internal-error" in seen.cause
        assert shelf.there() == everything - due
        fates = reported(runs, shelf)
        assert {called: fate for called, (fate, _) in fates.items()} == {
            **dict.fromkeys(everything - due - {"of another yard"}, "kept"),
            **dict.fromkeys(due, "retired"),
            stuck: "left",
        }
        for called, why in (
            ("g1", f"the run {run}, which has not ended"),
            ("g2", "the previous image"),
            ("g4", f"{shelf.made['d2']}, which stays, was made from it"),
            ("g5", "running or stopped instances use it"),
            ("g6", "number 2 of the newest 2 of kept-gpu"),
            ("g7", "the newest of kept-gpu"),
            ("h1", "the newest of kept-host"),
            ("b1", "failed (No disk.)" if stuck != "b1" else "internal-error"),
        ):
            assert why in fates[called][1], fates[called]

        seen = retire(runs)
        assert seen.status == "SUCCEEDED", seen.cause
        assert shelf.there() == shelf.snapshots() == everything - due
        text = (runs.yard.bucket.read("images/report.txt") or b"").decode()
        assert all(shelf.made[called] in text for called in everything - due - {"of another yard"})
        again = retire(runs)
        assert again.status == "SUCCEEDED"
        assert shelf.there() == everything - due


def test_the_current_image_stays_and_a_run_that_is_over_holds_none(runs: Runs, shelf: Shelf) -> None:
    current = runs.yard.session.client("ssm").get_parameter(Name="/trainyard/image")["Parameter"]["Value"]
    shelf.image("old", GPU)
    shelf.image("new", GPU)
    with waiting_run(runs, shelf.made["old"]):
        pass
    with keeping(runs, images=1, days=0):
        seen = retire(runs)
    assert seen.status == "SUCCEEDED", seen.cause
    assert shelf.there() == {"new"}
    report = runs.yard.bucket.json("images/report.json") or {}
    assert {row["id"]: row["reason"] for row in report["images"]}[current] == "it is the current image"


def test_as_shipped_nothing_young_goes(runs: Runs, shelf: Shelf) -> None:
    for called in ("y1", "y2", "y3", "y4"):
        shelf.image(called, GPU)
    assert retire(runs).status == "SUCCEEDED"
    assert len(shelf.there()) == 4
    assert reported(runs, shelf)["y1"] == ("kept", "it is 0 days old, and all younger than 14 days stay")


@pytest.mark.parametrize("payload", [{"report_only": "yes"}, {"dry_run": True}])
def test_an_input_with_faults_retires_nothing(runs: Runs, payload: dict[str, Any]) -> None:
    seen = retire(runs, payload)
    assert (seen.status, seen.error) == ("FAILED", "RetireRefused")
    assert next(iter(payload)) in seen.cause


def test_the_role_of_retire_reaches_only_what_carries_the_yards_tag(runs: Runs, shelf: Shelf) -> None:
    """Act with a role that has only the deployed policies."""
    shelf.image("mine", GPU)
    shelf.image("foreign", GPU, yard="other")
    (foreign,) = shelf.ec2.describe_images(ImageIds=[shelf.made["foreign"]])["Images"]
    snapshot = foreign["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
    mark = [{"Key": "trainyard:yard", "Value": "trainyard"}]
    with acting_as(runs, "RetireRole") as ec2:
        refused: tuple[Callable[[], Any], ...] = (
            lambda: ec2.deregister_image(ImageId=foreign["ImageId"]),
            lambda: ec2.delete_snapshot(SnapshotId=snapshot),
            lambda: ec2.create_tags(Resources=[foreign["ImageId"], snapshot], Tags=mark),
            lambda: ec2.create_image(InstanceId=shelf.instances[0], Name="retention by retire"),
            lambda: ec2.terminate_instances(InstanceIds=shelf.instances),
        )
        for call in refused:
            with pytest.raises(ClientError) as denied:
                call()
            assert denied.value.response["Error"]["Code"] == "UnauthorizedOperation"
        ec2.deregister_image(ImageId=shelf.made["mine"], DeleteAssociatedSnapshots=True)
    assert shelf.there() == shelf.snapshots() == {"foreign"}


@contextmanager
def acting_as(runs: Runs, role: str) -> Iterator[Any]:
    """Yield a client of EC2 for a new role with the inline policies of `role`."""
    session = runs.yard.session
    iam, sts = session.client("iam"), session.client("sts")
    account = sts.get_caller_identity()["Account"]
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{account}:root"},
        "Action": "sts:AssumeRole",
    }
    name = f"like-{role.lower()}"
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    for original in runs.roles(role):
        for policy in iam.list_role_policies(RoleName=original)["PolicyNames"]:
            statements = iam.get_role_policy(RoleName=original, PolicyName=policy)["PolicyDocument"]
            iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=json.dumps(statements))
    given = sts.assume_role(RoleArn=arn, RoleSessionName="try")["Credentials"]
    try:
        yield session.boto.client(
            "ec2",
            endpoint_url=session.endpoint,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )
    finally:
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=policy)
        iam.delete_role(RoleName=name)
