"""A bake makes an image, or ends with one reason, an unchanged current image and no remains.

The recipes start from the yard's own image, which already contains most packages; this saves minutes.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.runs import Runs
from tests.e2e.watch import without_rules
from trainyard.client import Run
from trainyard.client.jobs.submission import begin


@pytest.fixture(autouse=True)
def pointers_stay(runs: Runs) -> Iterator[None]:
    """Check that a test leaves the current image unchanged."""
    before = runs.yard.image()
    yield
    assert runs.yard.image() == before


def recipe(runs: Runs, name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "base": runs.yard.image(), **more}


def start(runs: Runs, **payload: Any) -> Run:
    return runs.yard.start("bake", payload)


def bake(runs: Runs, **payload: Any) -> Run:
    return runs.finish(start(runs, **payload))


def made_by(runs: Runs, run: str) -> list[str]:
    """Return the images and snapshots with the tag of a bake."""
    ec2 = runs.yard.session.client("ec2")
    filters = [{"Name": "tag:trainyard:run", "Values": [run]}]
    images = ec2.describe_images(Owners=["self"], Filters=filters)["Images"]
    snapshots = ec2.describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
    return [*(each["ImageId"] for each in images), *(each["SnapshotId"] for each in snapshots)]


def builder_of(runs: Runs, run: Run, attempt: int = 1) -> str:
    """Wait for the builder of an attempt, and return it."""

    def hosts() -> list[str]:
        row = run.rows.attempts.get(attempt)
        return list(row.hosts) if row else []

    return str(runs.until("a builder", hosts)[0])


def until_state(runs: Runs, run: Run, state: str) -> None:
    runs.until(f"the state {state}", lambda: state in names(run))


def names(run: Run) -> list[str]:
    """Return the names of the states that an execution has entered."""
    return [state.name for state in run.states]


def failed(run: Run, error: str) -> str:
    """Return the reason of a bake that failed as documented, without an image."""
    assert run.execution.status == "FAILED", run.why()
    assert (run.execution.error, run.summary["error"]) == (error, error), run.why()
    assert run.summary["image"] is None
    reason: str = run.summary["reason"]
    return reason


def test_a_bake_that_would_change_nothing_ends_at_once(runs: Runs) -> None:
    run = bake(runs)
    assert run.succeeded, run.why()
    assert (run.summary["kind"], run.summary["image"]) == ("unchanged", runs.yard.image())
    assert run.summary["hosts"] == []


def test_an_uploaded_recipe_with_faults_is_refused_with_all_of_them(runs: Runs) -> None:
    text = b"name: Bad\ntensorflow: '2.21'\nbase: ami-00000000000000000\nroot_gib: 1\npackages: []\n"
    uploaded = begin(runs.yard.bucket, "images/bad.yaml", text)
    run = runs.finish(runs.begun(uploaded.run, "bake"))
    reason = failed(run, "RecipeRefused")
    assert "images/bad.yaml has 4 faults" in reason
    assert run.summary["outcome"] == "refused"
    assert run.id.startswith("bad-")


def test_a_package_that_does_not_exist_is_named(runs: Runs) -> None:
    wanted = recipe(runs, "no-such-package", python_packages=["no-such-package-of-trainyard"])
    run = bake(runs, recipe=wanted)
    assert failed(run, "InstallFailed").startswith(
        'install failed: python_packages[0] "no-such-package-of-trainyard"'
    )
    assert "no-such-package-of-trainyard" in run.log("builder")
    assert made_by(runs, run.id) == []


def test_a_failed_test_fails_the_bake_and_another_bake_meanwhile_is_refused(runs: Runs) -> None:
    run = start(runs, recipe=recipe(runs, "fails", tests=["test -d /nowhere"]))
    until_state(runs, run, "Install")
    second = bake(runs, force=True)
    assert run.id in failed(second, "BakeUnderWay")
    assert second.summary["outcome"] == "refused"
    runs.finish(run)
    reason = failed(run, "TestFailed")
    assert "tests[0]" in reason
    outcomes = {test["name"]: test["outcome"] for test in run.json("tests.json")["tests"]}
    assert outcomes.pop("tests[0]") == "failed"
    assert set(outcomes.values()) <= {"passed", "skipped"}
    assert made_by(runs, run.id) == []


def test_a_bake_goes_on_without_builders_and_events_that_are_lost_and_can_be_taken_back(runs: Runs) -> None:
    before = runs.yard.image()
    # without patrol, which reports lost events, the bake must find them by its own checks
    with without_rules(runs, "EveryMinute"):
        run = start(runs, recipe=recipe(runs, "goes-on", commands=["echo kept > /opt/kept"]))
        until_state(runs, run, "Install")
        runs.cloud.fault("interrupt", builder_of(runs, run), "--seconds", "5")
        runs.cloud.fault("kill", builder_of(runs, run, attempt=2))
        builder_of(runs, run, attempt=3)
        runs.cloud.fault("lose", "EC2 Command Status-change Notification")
        runs.cloud.fault("lose", "EC2 AMI State Change", "--times", "1")
        runs.finish(run)
    assert run.succeeded, run.why()
    assert [attempt["ending"] for attempt in run.summary["attempts"]] == ["interrupted", "lost", "finished"]
    assert [host["market"] for host in run.summary["hosts"]] == ["spot", "on_demand", "on_demand"]
    looks = [names(run).count(state) for state in ("Install", "Test", "Generalize", "Capture")]
    assert min(looks[0] - 2, *looks[1:]) > 1, f"no event reported an end, so each state checked: {looks}"
    image = runs.yard.image()
    assert (run.summary["kind"], run.summary["image"], run.summary["before"]) == ("baked", image, before)
    assert runs.yard.image(previous=True) == before
    (found,) = runs.yard.session.client("ec2").describe_images(ImageIds=[image])["Images"]
    tags = {tag["Key"]: tag["Value"] for tag in found["Tags"]}
    assert tags["trainyard:family"] == "goes-on"
    assert tags["trainyard:parent"] == before
    assert "passed" in tags["trainyard:tests"]
    for name in ("recipe", "tests", "sbom"):
        assert (
            tags[f"trainyard:{name}-sha256"] == hashlib.sha256(run.text(f"{name}.json").encode()).hexdigest()
        )
    assert made_by(runs, run.id)[0] == image
    for current, previous in ((before, image), (image, before), (before, image)):
        back = bake(runs, rollback=True)
        assert back.succeeded, back.why()
        assert back.summary["kind"] == "rolled_back"
        assert (runs.yard.image(), runs.yard.image(previous=True)) == (current, previous)


def test_an_image_that_ec2_cannot_make_is_retired_with_its_snapshot(runs: Runs) -> None:
    runs.cloud.fault("image-fail", "--reason", "No space is left.")
    run = bake(runs, recipe=recipe(runs, "no-image"))
    assert "No space is left." in failed(run, "ImageFailed")
    assert made_by(runs, run.id) == []


def test_a_bake_stopped_by_hand_while_ec2_makes_its_image_leaves_nothing(runs: Runs) -> None:
    runs.cloud.fault("image-slow", "600")
    run = start(runs, recipe=recipe(runs, "stopped"))
    until_state(runs, run, "Capture")
    runs.until("the image", lambda: made_by(runs, run.id))
    run.stop(now=True)
    summary = runs.until("the summary", lambda: run.summary)
    assert (summary["outcome"], summary["error"]) == ("failed", "Aborted")
    runs.until("no image", lambda: made_by(runs, run.id) == [])
    assert runs.living() == []
    following = bake(runs, recipe=recipe(runs, "no-pool", builder={"instance_types": ["p3.2xlarge"]}))
    assert "p3.2xlarge" in failed(following, "NoCapacity"), "it was admitted: the lock was given back"
