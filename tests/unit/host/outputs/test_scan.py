"""The results of a scan of a working folder, and its time."""

import os
from pathlib import Path
from typing import Any

import pytest

from training.host.keys import fault_of
from training.host.outputs import scan as scanning
from training.host.outputs.scan import Seen, scan

PREFIX = "runs/run-1/outputs/"


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        return self.function(*given)


def test_20000_files_cost_one_listing_a_folder_and_no_opened_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in range(20):
        (tmp_path / f"{folder:02d}").mkdir()
        for file in range(1000):
            os.close(os.open(tmp_path / f"{folder:02d}/{file:04d}.npy", os.O_CREAT | os.O_WRONLY))
    listings, opened, checked = Counted(os.scandir), Counted(os.open), Counted(fault_of)
    monkeypatch.setattr(os, "scandir", listings)
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(scanning, "fault_of", checked)
    found = scan(tmp_path, PREFIX)
    assert (len(found.files), found.is_complete, found.beyond, found.left_out) == (20_000, True, 0, {})
    assert (listings.calls, opened.calls, checked.calls) == (21, 0, 0)


def test_files_beyond_the_most_are_counted_and_none_of_them_counts_as_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "MOST_FILES", 3)
    for name in "abcde":
        (tmp_path / name).write_text(name)
    found = scan(tmp_path, PREFIX)
    assert (len(found.files), found.beyond, found.is_complete) == (3, 2, False)


def test_files_links_and_empty_folders_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/7.pt").write_text("weights")
    (tmp_path / "last.pt").symlink_to("checkpoints/7.pt")
    (tmp_path / "around").symlink_to(".")
    (tmp_path / "empty/inside").mkdir(parents=True)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/mine.pyc").write_text("x")
    found = scan(tmp_path, PREFIX)
    assert found.files == {"checkpoints/7.pt": Seen.of((tmp_path / "checkpoints/7.pt").lstat())}
    assert found.links == {"last.pt": "checkpoints/7.pt", "around": "."}
    assert found.folders == ["empty/inside"]
    assert found.left_out == {}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def _environment(path: Path) -> None:
    path.mkdir()
    (path / "pyvenv.cfg").write_text("home = /usr/bin")


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "x").write_text("x")


@pytest.mark.parametrize(
    ("name", "make", "listed", "reason"),
    [
        ("pipe", _pipe, "pipe", "it is a pipe"),
        ("sparse", _sparse, "sparse", "it is sparse"),
        ("env", _environment, "env/", "it is a virtual environment"),
        (".git", _folder, ".git/", "it is a cache"),
        ("@worker-1", _folder, "@worker-1", "Trainyard keeps other hosts' files"),
        ("@attempt-1", _folder, "@attempt-1", "Trainyard keeps other hosts' files"),
    ],
)
def test_what_is_not_kept_is_listed_with_its_reason(
    name: str, make: Any, listed: str, reason: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    (tmp_path / "beside.txt").write_text("kept")
    found = scan(tmp_path, PREFIX)
    assert found.files.keys() == {"beside.txt"}
    assert found.left_out[listed].reason.startswith(reason)
