"""Deletion of disks while other hosts start."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from localcloud.machine.hypervisor.disk import Disks


def test_files_are_removed_while_others_may_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    disks.provide("ami-1", {"/etc/one": "1"})
    disks.prepare("i-1", "ami-1")
    removed: list[str] = []

    def rmtree(path: Path, **given: Any) -> None:
        disks.prepare(f"i-{len(removed) + 2}", "ami-2")  # waits forever if the lock is held
        removed.append(path.name.split(".")[1])

    disks.delete_image("ami-1")
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    disks.delete("i-1")
    assert removed == ["i-1", "ami-1"]
    assert not (tmp_path / "instances/i-1").exists()


def test_a_start_removes_what_a_killed_server_left(tmp_path: Path) -> None:
    Disks(tmp_path)
    for folder in ("images/.ami-1", "instances/.i-1.0a0b"):
        (tmp_path / folder / "layer").mkdir(parents=True)
    Disks(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["base-5"]
