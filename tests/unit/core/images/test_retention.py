"""Images that stay and images that go, with reasons; one row, one rule. Each row is tested by itself, then twelve rows at once."""
# ruff: noqa: E501 - one line a row

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lambdas.core.capacity.prices import Prices
from lambdas.core.images import retention
from lambdas.core.images.retention import (
    Decision,
    Disposition,
    RetentionInputs,
    RetentionPolicy,
    RetireRequest,
)
from tests.unit.core.builders import NOON, prices
from trainyard.core.model.images.image import Image, Snapshot, Stored
from trainyard.values import serialization
from trainyard.values.validation import InputFaults

POLICY = RetentionPolicy(keep_images=2, keep_days=14)
NEWER = 3
"""The usual number of newer images in the family of a row's image: too many for the image to stay."""


def image(ami: str, days: float, state: str = "available", family: str = "gpu", **tags: str) -> Image:
    """Return an image of this age in days, with one disk of 100 GiB."""
    marks = {f"trainyard:{key}": value for key, value in ({"run": f"made-{ami}"} | tags).items()}
    created = serialization.timestamp(NOON - timedelta(days=days))
    marks |= {"trainyard:yard": "trainyard", "trainyard:family": family}
    return Image(ami, f"name of {ami}", state, "", created, marks, "x86_64", (Snapshot(f"snap-{ami}", 100),))


def inputs(*images: Image, **more: Any) -> RetentionInputs:
    """Return inputs with these images. Each is unused, and no parameter names it."""
    known: dict[str, Any] = {
        "yard": "trainyard",
        "prices": prices(),
        "images": images,
        "others": {},
        "snapshots": (),
        "current": "none",
        "previous": "none",
        "in_use": frozenset(),
        "open_runs": frozenset(),
        "named": {},
    }
    return RetentionInputs(**(known | more))


OLD = image("ami-old", 30)
RULES = [
    # name, image, number of newer ones in its family, other inputs, whether it stays, part of the reason
    ("old, superseded, unused", OLD, NEWER, {}, False, "2 newer images of gpu stay, it is 14 days old or older, and nothing uses it"),
    ("of a host without a name, and old", image("ami-old", 30, family="i-0123456789abcdef0"), 0, {}, False, "it is the image of a host without a name, 14 days old or older, and nothing uses it"),
    ("of a host without a name, and young", image("ami-old", 13, family="i-0123456789abcdef0"), 0, {}, True, "it is 13 days old"),
    ("current", OLD, NEWER, {"current": "ami-old"}, True, "it is the current image"),
    ("previous", OLD, NEWER, {"previous": "ami-old"}, True, "it is the previous image, the target of a rollback"),
    ("in use by an instance", OLD, NEWER, {"in_use": frozenset({"ami-old"})}, True, "running or stopped instances use it"),
    ("an open run starts from it", OLD, NEWER, {"named": {"ami-old": "digits-1"}}, True, "the run digits-1, which has not ended, starts its hosts from it"),
    ("the run that makes it is open", OLD, NEWER, {"open_runs": frozenset({"made-ami-old"})}, True, "the run made-ami-old, which makes it, has not ended"),
    ("the execution that makes it of a run's host is open", image("ami-old", 30, execution="snap-1"), NEWER, {"open_runs": frozenset({"snap-1"})}, True, "the run snap-1, which makes it, has not ended"),
    ("another run is open", OLD, NEWER, {"open_runs": frozenset({"digits-1"})}, False, "nothing uses it"),
    ("the newest of its family, however old", OLD, 0, {}, True, "it is the newest of gpu"),
    ("the last of the newest that stay", OLD, 1, {}, True, "it is number 2 of the newest 2 of gpu"),
    ("the first that is too many", OLD, 2, {}, False, "2 newer images of gpu stay"),
    ("one of many newer, but young", image("ami-old", 13.9), NEWER, {}, True, "it is 13 days old, and all younger than 14 days stay"),
    ("just not young any more", image("ami-old", 14), NEWER, {}, False, "it is 14 days old or older"),
    ("the newest of another family", image("ami-old", 30, family="digits"), NEWER, {}, True, "it is the newest of digits"),
    ("the newest without a family", image("ami-old", 30, family=""), NEWER, {}, True, "it is the newest without a family"),
    ("pending, however old", image("ami-old", 30, "pending"), NEWER, {}, True, "it is pending: EC2 is still making it"),
    ("failed, however young and new", image("ami-old", 0.1, "failed"), 0, {}, False, "it is failed: no host can start from it"),
    ("failed with what EC2 said", replace(image("ami-old", 0.1, "failed"), reason="Client.InternalError"), 0, {}, False, "it is failed (Client.InternalError)"),
    ("failed, but its run has yet to look", image("ami-old", 0.1, "failed"), 0, {"open_runs": frozenset({"made-ami-old"})}, True, "which makes it, has not ended"),
    ("failed, yet the pointer says current", image("ami-old", 30, "failed"), 0, {"current": "ami-old"}, True, "current"),
    ("protected by a user", replace(OLD, protected=True), NEWER, {}, True, "it is protected from deregistration"),
    ("protected, but broken", replace(image("ami-old", 30, "failed"), protected=True), NEWER, {}, False, "it is failed"),
    ("disabled by a user", image("ami-old", 30, "disabled"), 0, {}, True, "it is the newest"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "newer", "known", "stays", "said"), [row[1:] for row in RULES], ids=[row[0] for row in RULES]
)
def test_an_image_stays_or_goes_for_a_reason(
    subject: Image, newer: int, known: dict[str, Any], stays: bool, said: str
) -> None:
    others = [image(f"ami-newer-{number}", 0) for number in range(newer)]
    disposition = by_id(retention.decide_images(inputs(*others, subject, **known), POLICY, now=NOON))[
        "ami-old"
    ]
    assert disposition.stays is stays
    assert said in disposition.reason


def by_id(dispositions: tuple[Disposition, ...]) -> dict[str, Disposition]:
    return {disposition.id: disposition for disposition in dispositions}


def test_broken_and_unfinished_images_are_not_counted_among_the_newest() -> None:
    decided = by_id(
        retention.decide_images(
            inputs(
                image("ami-1", 40),
                image("ami-2", 41),
                image("ami-3", 39, "failed"),
                image("ami-4", 38, "pending"),
            ),
            POLICY,
            now=NOON,
        )
    )
    assert {name for name, disposition in decided.items() if disposition.stays} == {"ami-1", "ami-2", "ami-4"}


def test_what_an_image_that_stays_was_made_of_stays_up_the_line() -> None:
    line = [
        image("ami-1", 90, parent="ami-of-aws"),
        image("ami-2", 80, parent="ami-1"),
        image("ami-3", 70, parent="ami-2"),
    ]
    crowd = [image(f"ami-new-{number}", 0) for number in range(NEWER)]
    leaf = image("ami-leaf", 60, family="digits", parent="ami-3")
    decided = by_id(retention.decide_images(inputs(*line, *crowd, leaf), POLICY, now=NOON))
    assert decided["ami-3"].reason == "ami-leaf, which stays, was made from it"
    assert decided["ami-2"].reason == "ami-3, which stays, was made from it"
    assert decided["ami-1"].reason == "ami-2, which stays, was made from it"


def test_parents_of_images_that_go_may_go() -> None:
    crowd = [image(f"ami-new-{number}", 0) for number in range(NEWER)]
    line = [image("ami-1", 90), image("ami-2", 80, parent="ami-1")]
    decided = by_id(retention.decide_images(inputs(*line, *crowd), POLICY, now=NOON))
    assert not decided["ami-1"].stays
    assert not decided["ami-2"].stays


def test_of_twelve_images_exactly_the_right_ones_stay() -> None:
    known = inputs(
        image("ami-gpu-1", 100),  # goes
        image("ami-gpu-2", 90),  # the previous one
        image("ami-gpu-3", 80),  # the parent of digits-2
        image("ami-gpu-4", 70),  # an instance uses it
        image("ami-gpu-5", 60),  # goes
        image("ami-gpu-6", 50),  # the last two
        image("ami-gpu-7", 40, parent="ami-0123"),  # ... and the current one
        image("ami-digits-1", 75, family="digits", parent="ami-gpu-1"),  # goes
        image("ami-digits-2", 65, family="digits", parent="ami-gpu-3"),  # the last two
        image("ami-digits-3", 55, family="digits", parent="ami-gpu-4"),
        image("ami-digits-4", 54, "failed", family="digits"),  # goes
        image("ami-i-1", 200, family="i-0123"),  # the only image of its host
        current="ami-gpu-7",
        previous="ami-gpu-2",
        in_use=frozenset({"ami-gpu-4"}),
    )
    decided = retention.decide_images(known, POLICY, now=NOON)
    assert len(decided) == 12
    assert sorted(each.id for each in decided if not each.stays) == [
        "ami-digits-1", "ami-digits-4", "ami-gpu-1", "ami-gpu-5",
    ]  # fmt: skip


def test_judging_again_after_retiring_retires_nothing_more() -> None:
    images = [image(f"ami-{number}", 20 + number) for number in range(6)]
    decided = retention.decide_images(inputs(*images), POLICY, now=NOON)
    left = [each for each in images if by_id(decided)[each.id].stays]
    assert len(left) == 2
    assert all(each.stays for each in retention.decide_images(inputs(*left), POLICY, now=NOON))


def stored(name: str, **changes: Any) -> Stored:
    known: dict[str, Any] = {
        "id": name, "gib": 100, "created": serialization.timestamp(NOON), "family": "gpu", "makers": ("made", "digits-1"), "image": "ami-gone", "made": True,
    }  # fmt: skip
    return Stored(**(known | changes))


LOOSE = [
    ("its image is gone", stored("snap-1"), {}, Decision.DUE, "no image uses it"),
    ("its execution is open", stored("snap-1"), {"open_runs": frozenset({"made"})}, Decision.KEPT, "the run made, which makes it, has not ended"),
    ("its host's run is open", stored("snap-1"), {"open_runs": frozenset({"digits-1"})}, Decision.KEPT, "the run digits-1, which makes it, has not ended"),
    ("an image of the yard stands on it", stored("snap-ami-a"), {}, None, ""),
    ("the image it is made for does not name it yet", stored("snap-1", image="ami-a"), {}, None, ""),
    ("another's image stands on it", stored("snap-ami-b"), {"others": {"ami-b": image("ami-b", 1)}}, None, ""),
    ("a user made it of a volume by hand", stored("snap-1", made=False), {}, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("snapshot", "known", "fate", "said"), [row[1:] for row in LOOSE], ids=[row[0] for row in LOOSE]
)
def test_a_snapshot_without_an_image_goes(
    snapshot: Stored, known: dict[str, Any], fate: Decision | None, said: str
) -> None:
    decided = retention.decide_snapshots(inputs(image("ami-a", 1), snapshots=(snapshot,), **known))
    assert [(each.fate, each.reason) for each in decided] == ([(fate, said)] if fate else [])


def test_the_report_says_what_stays_why_and_what_it_costs() -> None:
    decided = retention.decide_images(
        inputs(image("ami-1", 30), image("ami-2", 31), image("ami-3", 32)), POLICY, now=NOON
    )
    loose = retention.decide_snapshots(inputs(snapshots=(stored("snap-1"),)))
    done = tuple(each if each.stays else replace(each, fate=Decision.RETIRED) for each in decided)
    stuck = tuple(replace(each, fate=Decision.LEFT, reason="EC2 says no") for each in loose)
    report = retention.report(done, stuck, POLICY, inputs=inputs(), now=NOON)
    first = report["images"][0]
    assert (first["id"], first["fate"], first["age_days"], first["gib"], first["dollars_per_month"]) == (
        "ami-1",
        "kept",
        30,
        100,
        5.0,
    )
    assert report["summary"] == (
        "Images and snapshots: 2 kept ($10.00 a month at most), 1 retired ($5.00), "
        "1 not deleted ($5.00), tried again next time: snap-1: EC2 says no."
    )
    text = retention.as_text(report)
    assert "ami-3 gpu 32 d 100 GiB retired 5.00 2 newer images of gpu stay" in " ".join(text.split())
    assert report["summary"] in text
    assert "($0.05 per GiB and month, prices of us-east-1, 2026-11-20)." in text


def test_images_cost_what_their_region_asks() -> None:
    own = inputs(image("ami-1", 30), prices=prices("eu-central-1", storage={"snapshot": 0.054}))
    (kept,) = retention.decide_images(own, POLICY, now=NOON)
    assert kept.dollars_per_month == 5.4
    assert retention.report((kept,), (), POLICY, inputs=own, now=NOON)["dollars_per_gib_month"] == 0.054
    unread = inputs(image("ami-1", 30), prices=Prices("eu-central-1"))
    (kept,) = retention.decide_images(unread, POLICY, now=NOON)
    text = retention.as_text(retention.report((kept,), (), POLICY, inputs=unread, now=NOON))
    assert kept.dollars_per_month == 5.0
    assert "prices of us-east-1, 2026-07-20: patrol has not read the price list of eu-central-1 yet" in text


def test_a_sentence_names_ten_of_many_that_are_left() -> None:
    many = inputs(snapshots=tuple(stored(f"snap-{number:02d}") for number in range(12)))
    decided = retention.decide_snapshots(many)
    said = retention.summary(
        (), [replace(each, fate=Decision.LEFT, reason="EC2 says no") for each in decided]
    )
    assert "12 not deleted ($60.00)" in said
    assert said.endswith("snap-09: EC2 says no; and 2 more, which the report names.")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({}, False),
        ({"report_only": False}, False),
        ({"report_only": True}, True),
        ({"report_only": "yes"}, "report_only: found \"yes\"; true or false is allowed"),
        ({"dry_run": True}, "dry_run: unknown key; allowed are report_only"),
        ([], "a mapping with the keys report_only, images is allowed"),
    ],
)  # fmt: skip
def test_the_input_says_whether_only_to_report(said: Any, answer: bool | str) -> None:
    read = retention.read_input(said)
    if isinstance(answer, bool):
        assert read == RetireRequest(report_only=answer)
    else:
        assert isinstance(read, InputFaults)
        assert answer in read.reason


def test_images_that_a_user_names_go_however_new_they_are() -> None:
    known = inputs(image("ami-1", 0), image("ami-2", 1, parent="ami-1"))
    (chosen,) = tuple_of(retention.decide_chosen(known, ["ami-1"], POLICY, now=NOON))
    assert (chosen.id, chosen.fate, chosen.reason) == ("ami-1", Decision.DUE, "a user has asked for it")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"current": "ami-old"}, "images[1]: ami-old stays: it is the current image"),
        ({"previous": "ami-old"}, "ami-old stays: it is the previous image"),
        ({"in_use": frozenset({"ami-old"})}, "ami-old stays: running or stopped instances use it"),
        ({"named": {"ami-old": "digits-1"}}, "ami-old stays: the run digits-1"),
        ({"images": (image("ami-1", 0),)}, "images[1]: ami-old is not an image of the yard trainyard"),
    ],
)
def test_none_goes_if_one_of_those_that_a_user_names_is_needed(known: dict[str, Any], said: str) -> None:
    found = inputs(image("ami-1", 0), OLD)
    answer = retention.decide_chosen(replace(found, **known), ["ami-1", "ami-old"], POLICY, now=NOON)
    assert isinstance(answer, InputFaults)
    assert said in answer.reason
    assert "nothing was deleted" in answer.reason


def tuple_of(answer: tuple[Disposition, ...] | InputFaults) -> tuple[Disposition, ...]:
    assert not isinstance(answer, InputFaults)
    return answer
