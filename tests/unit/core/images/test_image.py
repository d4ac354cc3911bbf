"""Images by name."""

import pytest

from trainyard.core.model.gang import size
from trainyard.core.model.hardware import Hardware
from trainyard.core.model.images.image import Image, select_image
from trainyard.core.model.instance_types import MarketChoice
from trainyard.core.model.job import Job, one_host_job
from trainyard.protocol.cluster import Gang
from trainyard.values import serialization


def image(ami: str, hour: int, state: str = "available", **tags: str) -> Image:
    marks = {f"trainyard:{key}": value for key, value in tags.items()}
    return Image(ami, "", state, "", f"2026-11-20T{hour:02d}:00:00.000Z", marks)


KNOWN = (
    image("ami-0000000a", 1, run="bake-1", family="gpu"),
    image("ami-0000000b", 3, run="bake-2", family="gpu"),
    image("ami-0000000c", 2, run="digits-1", family="digits"),
    image("ami-0000000d", 4, run="digits-1", family="digits"),
    image("ami-0000000e", 5, "pending", run="digits-2", family="digits"),
    image("ami-0000000f", 6, "failed", run="lone", family="lone"),
    image("ami-00000010", 0, run="gpu", family="other"),
)

MEANT = [
    ("an id", "ami-0000000c", "ami-0000000c"),
    ("an unknown id", "ami-000000ff", None),
    ("a run: its newest", "digits-1", "ami-0000000d"),
    ("a family: the newest of all its runs that is available", "digits", "ami-0000000d"),
    ("a run whose only image is not available yet", "digits-2", "ami-0000000e"),
    ("a family whose only image failed", "lone", "ami-0000000f"),
    ("a run goes before a family of the same name", "gpu", "ami-00000010"),
    ("nobody", "digit", None),
]


@pytest.mark.parametrize(("name", "ami"), [row[1:] for row in MEANT], ids=[row[0] for row in MEANT])
def test_a_name_means_one_image(name: str, ami: str | None) -> None:
    found = select_image(name, KNOWN)
    assert (found.id if found else None) == ami


def test_a_job_of_one_host_has_one_gang_of_one_and_survives_the_ledger() -> None:
    hardware = Hardware(instance_types=("g5.xlarge",), market=MarketChoice.ON_DEMAND)
    made = one_host_job("gpu", hardware, hours=3, wait_minutes=30, restarts=2)
    assert (made.gang, size(made, Gang.MAIN), made.cpu_gang) == (1, 1, 0)
    assert (made.limits.hours, made.limits.wait_minutes, made.limits.restarts) == (3, 30, 2)
    assert serialization.from_json(Job, serialization.to_json(made)) == made
