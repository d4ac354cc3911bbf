"""Decisions of a bake."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lambdas.core.images import bake, bake_summary
from lambdas.core.images.bake import RollbackPlan, Unchanged
from lambdas.core.run.recovery import EndRun, Retry, Trouble
from tests.unit.core.builders import ended_run
from trainyard.core.model.errors import Refused
from trainyard.core.model.images.image import Image, Snapshot
from trainyard.protocol.containers import MOST_BAKED, is_in_tag, write_tag
from trainyard.protocol.ledger.run import Moved

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RECIPE = {"name": "gpu", "hash": "0123456789abcdef", "base": "ami-base", "software": "50f7"}
TESTS = {
    "tests": [
        {"name": "driver", "outcome": "passed", "reason": "570.1", "seconds": 1},
        {"name": "disk", "outcome": "failed", "reason": "2 GiB are free", "seconds": 0},
        {"name": "cuda", "outcome": "skipped", "reason": "no GPU", "seconds": 0},
    ],
    "driver": "570.1",
    "cuda": None,
    "tensorflow": "2.21.0",
    "architecture": "x86_64",
}


def image(name: str = "ami-1", *, state: str = "available", **tags: str) -> Image:
    marks = {"trainyard:yard": "trainyard"} | {f"trainyard:{key}": value for key, value in tags.items()}
    return Image(name, name, state, "", "2026-11-21T00:00:00.000Z", marks)


SAME = [
    ("made from the same", image(recipe="h"), True),
    ("made from another", image(recipe="other"), False),
    ("a snapshot has no recipe", image(), False),
    ("not available any more", image(recipe="h", state="failed"), False),
    ("another yard's", image(recipe="h", yard="other"), False),
    ("gone", None, False),
]


@pytest.mark.parametrize(("current", "same"), [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_a_bake_that_would_change_nothing(current: Image | None, same: bool) -> None:
    assert isinstance(bake.find_unchanged(current, yard="trainyard", recipe_hash="h"), Unchanged) is same


@pytest.mark.parametrize(("asked", "refused"), [(75, False), (100, False), (74, True)])
def test_a_disk_cannot_be_smaller_than_the_base_images(asked: int, refused: bool) -> None:
    base = replace(image(), snapshots=(Snapshot("snap-1", 75),))
    fault = bake.disk_fault(asked, base)
    assert (fault is not None) is refused
    assert fault is None or "has 75 GiB" in fault.problem
    assert bake.disk_fault(asked, image()) is None


BACK = [
    ("to the image before", "ami-1", image(), None),
    ("there was none", "none", None, "no previous image yet"),
    ("no parameter", None, None, "no previous image yet"),
    ("it was retired", "ami-1", None, "no longer exists"),
    ("it is not ours", "ami-1", image(yard="other"), "lacks the tag"),
    ("it cannot start", "ami-1", image(state="disabled"), "is disabled, not available"),
]


@pytest.mark.parametrize(
    ("previous", "found", "said"), [row[1:] for row in BACK], ids=[row[0] for row in BACK]
)
def test_going_back(previous: str | None, found: Image | None, said: str | None) -> None:
    answer = bake.roll_back(previous, found, yard="trainyard", current="ami-2")
    if said is None:
        assert isinstance(answer, RollbackPlan)
        assert "ami-2 the previous one" in answer.reason
    else:
        assert isinstance(answer, Refused)
        assert (answer.error, said in answer.reason) == ("RollbackRefused", True)


AFTER = [
    # name, error, attempt, hours left, again?, final error, words of the reason
    ("EC2 takes it back: on demand", "Interrupted", 1, 2.0, True, None, "on demand"),
    ("it is gone: as planned", "HostLost", 2, 2.0, True, None, "as planned"),
    ("a third one was lost too", "HostLost", 3, 2.0, False, "HostLost", "No further builder"),
    ("the time is up", "Interrupted", 1, 0.0, False, "LimitReached", "builder.hours"),
    ("one never registered", "NotRegistered", 1, 2.0, True, None, "Another builder follows"),
    ("the second one neither", "NotRegistered", 2, 2.0, True, None, "Another builder follows"),
    ("the third one neither", "NotRegistered", 3, 2.0, False, "NotRegistered", "No further builder"),
    ("Lambda failed", "Lambda.Unknown", 1, 2.0, True, None, "Another builder follows"),
    ("the recipe cannot be installed", "InstallFailed", 1, 2.0, False, "InstallFailed", "InstallFailed: it broke."),
    ("a test failed", "TestFailed", 1, 2.0, False, "TestFailed", "it broke"),
    ("it could not be generalized", "GeneralizeFailed", 1, 2.0, False, "GeneralizeFailed", "it broke"),
    ("EC2 could not image it", "ImageFailed", 1, 2.0, False, "ImageFailed", "it broke"),
    ("a permission is missing", "AccessDenied", 1, 2.0, False, "AccessDenied", "it broke"),
    ("an unknown error", "Surprise", 1, 2.0, False, "Surprise", "it broke"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "attempt", "hours", "again", "ends_with", "said"),
    [row[1:] for row in AFTER],
    ids=[row[0] for row in AFTER],
)
def test_what_follows_a_builder(
    error: str, attempt: int, hours: float, again: bool, ends_with: str | None, said: str
) -> None:
    deadline = NOW + timedelta(hours=hours)
    found = bake.decide_after(
        Trouble(error=error, reason="it broke"), attempt=attempt, now=NOW, deadline=deadline
    )
    assert said in found.reason
    assert isinstance(found, Retry) is again
    assert not isinstance(found, EndRun) or found.error == ends_with


def test_a_failed_test_is_named_with_its_reason() -> None:
    assert bake.tests_failed(TESTS) == "1 of 3 tests failed, so no image was made: disk: 2 GiB are free"
    assert bake.tests_failed({"tests": TESTS["tests"][:1]}) is None  # type: ignore[index]
    assert bake.tests_failed({}) is None


def test_a_document_has_the_last_word_on_why_it_failed() -> None:
    tail = '[trainyard] == commands\ninstall failed: commands[0] "false" failed\nfailed to run commands: exit status 1'
    assert bake.find_failure("install", tail) == 'install failed: commands[0] "false" failed'
    assert bake.find_failure("install", "Killed") is None


def test_an_image_says_what_it_holds_and_how_it_was_tested() -> None:
    assert bake.baked_tags("trainyard", RECIPE, TESTS, "gpu-1", name="n") == {
        "Name": "n",
        "trainyard:yard": "trainyard",
        "trainyard:run": "gpu-1",
        "trainyard:kind": "baked",
        "trainyard:family": "gpu",
        "trainyard:parent": "ami-base",
        "trainyard:recipe": "0123456789abcdef",
        "trainyard:software": "50f7",
        "trainyard:driver": "570.1",
        "trainyard:cuda": "none",
        "trainyard:tensorflow": "2.21.0",
        "trainyard:tests": "1 passed, 1 failed, 1 skipped",
        "trainyard:containers": "none",
    }


def test_an_images_name_is_one_that_ec2_takes_and_another_for_each_builder() -> None:
    names = {bake.baked_name("y" * 20, "x" * 80, attempt=attempt) for attempt in (1, 2)}
    assert len(names) == 2
    assert all(len(name) <= 128 for name in names)


def test_what_a_bake_made_and_nobody_will_use_goes() -> None:
    made = [
        image("ami-old", run="bake-1", kind="baked", state="failed"),
        image("ami-new", run="bake-1", kind="baked"),
        image("ami-other", run="bake-2", kind="baked"),
        image("ami-frozen", run="bake-1", kind="snapshot"),
    ]
    assert bake.find_discarded(made, run="bake-1", keep=["ami-new"]) == ("ami-old",)


def test_a_summary_tells_the_image_its_tests_and_what_was_left() -> None:
    said = bake_summary.summarise(
        ended_run("gpu-1", 540, recipe=RECIPE, published=Moved("ami-new", "ami-old")),
        kind="baked",
        image=None,
        objects=("runs/gpu-1/tests.json", "runs/gpu-1/logs/builder/00000001.log"),
        results=TESTS,
        retirement=None,
    )
    assert (said["kind"], said["image"], said["before"], said["seconds"]) == (
        "baked",
        "ami-new",
        "ami-old",
        540.0,
    )
    assert [test["outcome"] for test in said["tests"]] == ["passed", "failed", "skipped"]
    assert said["versions"]["tensorflow"] == "2.21.0"
    assert said["where"] == {
        "folder": "s3://b/runs/gpu-1/",
        "log": "s3://b/runs/gpu-1/logs/builder/",
        "tests": "s3://b/runs/gpu-1/tests.json",
    }
    assert "resume" not in said


def test_the_tag_of_an_image_names_the_container_images_for_its_processors() -> None:
    amd, arm = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    listed = {
        "image": "team/train:v1",
        "digest": arm,
        "manifests": {"amd64": {"digest": amd}, "arm64": {"digest": arm}},
    }
    tags = bake.baked_tags("trainyard", RECIPE | {"containers": [listed]}, TESTS, "run", name="x")
    assert tags["trainyard:containers"] == "a" * 12
    assert is_in_tag(tags["trainyard:containers"], amd)
    assert not is_in_tag(tags["trainyard:containers"], arm)
    assert bake.baked_tags("trainyard", RECIPE, TESTS, "run", name="x")["trainyard:containers"] == "none"
    assert len(write_tag(f"sha256:{index:064d}" for index in range(MOST_BAKED))) <= 256
