"""The reserve: the agent can write to a full disk, and a program's error names the disk."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from training.host.disk import RESERVE_BYTES, Disk

SIZE = 8 * RESERVE_BYTES


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return a disk of SIZE that has only the reserve and files of a program."""

    def usage(_: Path) -> SimpleNamespace:
        used = sum(path.stat().st_size for path in tmp_path.iterdir())
        return SimpleNamespace(free=SIZE - used, total=SIZE)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    return Disk(tmp_path / "reserve", tmp_path / "home")


def fill(disk: Disk) -> Path:
    written = disk.reserve.with_name("program")
    with written.open("wb") as file:
        file.truncate(disk.room().free)
    return written


def test_a_disk_is_still_full_once_the_reserve_is_released(disk: Disk) -> None:
    disk.hold()
    fill(disk)
    assert disk.room().is_full
    disk.release()
    assert disk.room().is_full
    assert "(0 MB of" in disk.room().advice
    assert shutil.disk_usage(disk.reserve.parent).free == RESERVE_BYTES, "the agent can write"


def test_the_reserve_is_held_again_once_there_is_room(disk: Disk) -> None:
    disk.hold()
    written = fill(disk)
    disk.release()
    disk.hold()
    assert disk.reserve.stat().st_size == 0
    written.unlink()
    disk.hold()
    assert disk.reserve.stat().st_size == RESERVE_BYTES


def test_where_none_was_held_nothing_is_taken_off(disk: Disk) -> None:
    disk.release()
    assert disk.room().free == SIZE
