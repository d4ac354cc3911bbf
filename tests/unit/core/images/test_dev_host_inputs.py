"""The image and the host of a launch, and further hosts after a failure."""

from typing import Any

import pytest

from lambdas.core.images import dev_host
from lambdas.core.images.dev_host import DevHostRequest
from lambdas.core.run.recovery import EndRun, Retry, Trouble
from tests.unit.core.builders import NOON, ZONES, after, an_image, ended_run
from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import MarketChoice
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.plan import Market
from trainyard.values.validation import InputFaults

OLD = an_image(
    ami="ami-0000000000000000a", kind="snapshot", family="digits", run="digits-1", execution="snap-1"
)
NEW = an_image("pending", ami="ami-0000000000000000b", kind="snapshot", family="digits", run="digits-2")
BAKED = an_image(ami="ami-0000000000000000c", kind="baked", family="gpu", run="bake-1")


def asked(**given: Any) -> DevHostRequest:
    found = dev_host.read_input({"latest": "digits"} | given)
    assert isinstance(found, DevHostRequest), found
    return found


def test_defaults_are_twelve_hours_in_any_zone_and_spot_first() -> None:
    assert asked() == DevHostRequest(
        latest="digits",
        market=MarketChoice.SPOT_THEN_ON_DEMAND,
        hours=12.0,
        wait_minutes=30.0,
        hold_hours=None,
    )


def test_nobody_is_held_who_did_not_ask_for_it() -> None:
    until, held = said_of(hold_hours=None)
    assert (until, held) == ("2026-11-21T00:00:00.000Z", None)


def test_a_hold_begins_when_the_host_can_be_used_and_makes_its_hours_longer_never_shorter() -> None:
    assert said_of(hold_hours=2.0) == ("2026-11-21T00:00:00.000Z", "2026-11-20T14:05:00.000Z")
    assert said_of(hold_hours=48.0) == ("2026-11-22T12:05:00.000Z",) * 2


def said_of(**row: Any) -> tuple[str | None, str | None]:
    """Return the ends of the lease and of the hold for a host launched for 12 hours and ready after 5 minutes."""
    host = HostRow(
        instance="i-1",
        type="g6.xlarge",
        zone="us-east-1a",
        market=Market.SPOT,
        price=0.3,
        launched=NOON,
        attempt=1,
    )
    one = AttemptRow(attempt=1, candidate={"pool": "p"}, hosts=("i-1",), launched=NOON)
    ended = ended_run(
        "nb", 300, attempts=[one], hosts=[host], kind="dev-host", deadline=after(12 * 3600), **row
    )
    summary = dev_host.summarise(ended)
    return summary["until"], summary["held"]


FAULTS = [
    ({}, ["found neither image nor run nor latest"]),
    ({"run": "a", "latest": "b"}, ["found both run and latest; give"]),
    ({"image": "ubuntu"}, ["image: "]),
    (
        {
            "latest": "digits",
            "instance_types": ["g6.xlrge", "g6.xlarge", "g6.xlarge"],
            "hours": 0,
            "zone": "a",
        },
        [
            "zone: unknown key",
            "instance_types[0]",
            'did you mean "g6.xlarge"',
            "instance_types[2]",
            "hours: ",
        ],
    ),
    ({"latest": "digits", "hold_hours": 0}, ["hold_hours: "]),
    (
        {"latest": "digits", "disk_gib": 99_999},
        ["disk_gib: found the number 99999; a whole number from 1 to 16384"],
    ),
    ({"latest": "digits", "instance_types": [], "zones": "us-east-1a"}, ["instance_types: ", "zones: "]),
]


@pytest.mark.parametrize(("given", "said"), FAULTS)
def test_every_fault_of_an_input_is_told_at_once(given: object, said: list[str]) -> None:
    answer = dev_host.read_input(given)
    assert isinstance(answer, InputFaults)
    assert "nothing was launched" in answer.reason
    for each in said:
        assert each in answer.reason


MEANT = [
    ({"image": BAKED.id}, BAKED.id),
    ({"run": "digits-1"}, OLD.id),
    ({"run": "snap-1"}, OLD.id),
    ({"latest": "digits"}, OLD.id),
    ({"latest": "gpu"}, BAKED.id),
]


@pytest.mark.parametrize(("given", "image"), MEANT)
def test_a_name_means_the_newest_image_that_is_available(given: dict[str, str], image: str) -> None:
    question = dev_host.read_input(given)
    assert isinstance(question, DevHostRequest)
    answer = dev_host.find_image(question, [OLD, NEW, BAKED])
    assert isinstance(answer, Image)
    assert answer.id == image


NOBODY = [
    ({"image": "ami-000000000000000ff"}, "image: the yard has no image ami-000000000000000ff"),
    ({"run": "digits-9"}, "no image was made by the run digits-9"),
    ({"latest": "digit"}, "no image belongs to a family digit"),
    ({"run": "digits-2"}, f"the image {NEW.id} is pending, not available; wait"),
]


@pytest.mark.parametrize(("given", "said"), NOBODY)
def test_a_name_that_means_no_image_to_start_from_is_refused(given: dict[str, str], said: str) -> None:
    question = dev_host.read_input(given)
    assert isinstance(question, DevHostRequest)
    answer = dev_host.find_image(question, [OLD, NEW, BAKED])
    assert isinstance(answer, InputFaults)
    assert said in answer.reason


def test_a_launch_is_a_job_of_one_host_in_the_zones_and_of_the_types_asked_for() -> None:
    question = asked(
        instance_types=["g5.xlarge"],
        zones=["us-east-1b"],
        market="on_demand",
        max_dollars_per_hour=2,
        disk_gib=150,
    )
    job = dev_host.admit(question, OLD.family, types=question.instance_types, zones=ZONES)
    assert isinstance(job, Job)
    assert job.name == "digits"
    assert job.gang == 1
    assert job.hardware.instance_types == ("g5.xlarge",)
    assert job.hardware.zones == ("us-east-1b",)
    assert (job.hardware.max_dollars_per_hour, job.hardware.disk_gib) == (2, 150)
    assert (job.limits.hours, job.limits.restarts) == (12, 2)


def test_without_types_it_is_of_the_type_that_was_imaged() -> None:
    job = dev_host.admit(asked(), OLD.family, types=["g6.xlarge"], zones=ZONES)
    assert isinstance(job, Job)
    assert job.hardware.instance_types == ("g6.xlarge",)


def test_zones_that_the_yard_has_not_and_a_type_that_nobody_knows_are_refused() -> None:
    answer = dev_host.admit(asked(zones=["eu-west-1a"]), OLD.family, types=[], zones=ZONES)
    assert isinstance(answer, InputFaults)
    assert "zones[0]" in answer.reason
    assert "instance_types: is missing" in answer.reason


AFTER = [
    (Trouble(error="HostLost"), 1, True),
    (Trouble(error="NotRegistered"), 2, True),
    (Trouble(error="Lambda.Unknown"), 1, True),
    (Trouble(error="HostLost"), 3, False),
    (Trouble(error="AccessDenied"), 1, False),
    (Trouble(error="NoCapacity"), 1, False),
    (Trouble(error="States.Runtime"), 1, False),
]


@pytest.mark.parametrize(("trouble", "attempt", "again"), AFTER)
def test_another_host_follows_one_that_failed_three_in_all(
    trouble: Trouble, attempt: int, again: bool
) -> None:
    decision = dev_host.decide_after(trouble, attempt=attempt, now=NOON, deadline=after(3600))
    assert isinstance(decision, Retry if again else EndRun)


def test_none_follows_when_the_lease_is_used_up() -> None:
    decision = dev_host.decide_after(Trouble(error="HostLost"), attempt=1, now=NOON, deadline=after(5))
    assert isinstance(decision, EndRun)
    assert decision.error == "LimitReached"
