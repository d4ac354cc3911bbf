"""Copies of a fetched checkpoint in the program's folder, also over an earlier one on an evaluator's host."""

import os
from pathlib import Path

import pytest

from training.host import account
from training.host.bucket import Bucket
from training.host.checkpoints.catalogue import Link, Manifest, Stored, Version
from training.host.checkpoints.evaluator import CheckpointDownload
from training.host.checkpoints.fetching import Fetched
from training.host.checkpoints.placing import move_into
from training.host.paths import Paths

SECOND = 1_000_000_000


def fetched(
    folder: Path, files: dict[str, int], links: dict[str, str], folders: tuple[str, ...] = ()
) -> Fetched:
    """Return a fetched copy of files that contain their own name. `files` gives the second of each last change."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return Fetched(
        folder,
        Manifest(
            {name: Stored(len(name), at * SECOND + 7, 0o640, f"k/{name}") for name, at in files.items()},
            {name: Link(target, 5 * SECOND) for name, target in links.items()},
            dict.fromkeys(folders, (3 * SECOND, 493)),
        ),
    )


def test_times_are_exact_and_the_newest_by_any_clock_is_the_newest(tmp_path: Path) -> None:
    target = tmp_path / "checkpoints"
    target.mkdir()
    files = {f"{name}.pt": at for name, at in {"c": 30, "a": 10, "d": 20, "b": 40}.items()}
    move_into(fetched(tmp_path / "copy", files, {}), target)
    paths = list(target.iterdir())
    assert {path.name: path.stat().st_mtime_ns for path in paths} == {
        name: at * SECOND + 7 for name, at in files.items()
    }
    assert [max(paths, key=by).name for by in (os.path.getmtime, os.path.getctime)] == ["b.pt", "b.pt"]
    assert [path.name for path in sorted(paths, key=os.path.getctime)] == ["a.pt", "d.pt", "c.pt", "b.pt"]
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o640}


def test_folders_have_their_times_also_those_with_files_and_links_in_them(tmp_path: Path) -> None:
    target = tmp_path / "checkpoints"
    target.mkdir()
    copy = fetched(tmp_path / "copy", {"step-1/a": 1}, {"step-1/up": ".."}, ("step-1", "step-1/empty"))
    move_into(copy, target)
    assert {name: (target / name).stat().st_mtime for name in ("step-1", "step-1/empty")} == {
        "step-1": 3.0,
        "step-1/empty": 3.0,
    }
    assert (target / "step-1/up").lstat().st_mtime == 5.0


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_that_leads_out_becomes_the_file_where_the_other_is_lost(
    tmp_path: Path, is_there: bool
) -> None:
    target, outside = tmp_path / "checkpoints", tmp_path / "data.txt"
    target.mkdir()
    if is_there:
        outside.write_text("the data of this host")
    move_into(fetched(tmp_path / "copy", {"vocabulary": 1}, {"vocabulary": str(outside)}), target)
    path = target / "vocabulary"
    assert path.is_symlink() is is_there
    assert path.read_text() == ("the data of this host" if is_there else "vocabulary")


def test_an_evaluator_follows_links_and_loses_what_the_chief_removed(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.checkpoints.mkdir(parents=True)
    download = CheckpointDownload(Bucket(None, "b"), "r", paths, account.own(), keep=2, have=-1)
    for step, other in ((30, "old.txt"), (40, "new.txt")):
        files = {f"step-{step}/model.pt": step, "step-30/model.pt": 30, other: 1, "checkpoint": step}
        copy = fetched(tmp_path / f"copy-{step}", files, {"latest": f"step-{step}"}, ("step-30",))
        download._put(Version(step, f"runs/r/checkpoints/{step:08d}/", "folder", "at"), copy)
        assert (paths.checkpoints / "latest").readlink() == Path(f"step-{step}")
        assert (paths.checkpoints / "latest/model.pt").read_text() == f"step-{step}/model.pt"
    assert sorted(path.name for path in paths.checkpoints.iterdir()) == [
        "checkpoint",
        "latest",
        "new.txt",
        "step-30",
        "step-40",
    ]
