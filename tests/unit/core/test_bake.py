"""Which old images go, and what images are called."""

import pytest

from lambdas.core import bake
from lambdas.core.bake import Made

NEWEST_FIRST = [Made(f"ami-{n}", "recipe", True) for n in (5, 4, 3, 2, 1)]

RETIRED = [
    # sentence, keep, current, in use, who goes
    ("the newest stay", 3, "ami-5", set(), ["ami-2", "ami-1"]),
    ("one in use stays", 3, "ami-5", {"ami-1"}, ["ami-2"]),
    ("the current one stays, however old", 1, "ami-2", set(), ["ami-4", "ami-3", "ami-1"]),
    ("nobody goes while there is room", 5, "ami-5", set(), []),
]


@pytest.mark.parametrize(
    ("keep", "current", "in_use", "gone"), [row[1:] for row in RETIRED], ids=[row[0] for row in RETIRED]
)
def test_which_images_are_retired(keep: int, current: str, in_use: set[str], gone: list[str]) -> None:
    found = bake.retirements(NEWEST_FIRST, current=current, in_use=in_use, keep=keep)
    assert [image.id for image in found] == gone


def test_snapshots_of_hosts_are_the_users_and_stay() -> None:
    snapshots = [Made(f"ami-s{n}", "", True) for n in range(9)]
    assert bake.retirements(snapshots, current="ami-5", in_use=(), keep=1) == ()


def test_an_images_name_is_one_that_ec2_takes() -> None:
    assert len(bake.baked_name("trainyard", "0123456789abcdef", "x" * 80)) <= 128
