"""Any damage to a program's own folders is the program's fault, and is read in bounded memory."""

import errno
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from training.host.account import remove_tree
from training.host.bucket import Bucket
from training.host.checkpoints.on_disk import listing_of, missing, step_of, steps_in
from training.host.disk import Disk, fresh, measure_below, readable_files, walk
from training.host.errors import HostTrouble, ProgramFault
from training.host.keys import LeftOut
from training.host.outputs.scan import scan
from training.host.paths import Paths
from training.host.program import folders
from training.host.reporting.results import FolderUpload

DEEP = 1500


class Sent(Bucket):
    """A bucket that records the keys of uploads."""

    def __init__(self) -> None:
        super().__init__(None, "bucket")
        self.keys: list[str] = []

    def upload(self, path: Path, key: str) -> None:
        self.keys.append(key)


def nest(folder: Path, depth: int, *, name: str = "d") -> None:
    """Make folders that are nested to this depth. Their whole path may be longer than Linux accepts."""
    folder.mkdir(parents=True, exist_ok=True)
    inside = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=inside)
        deeper = os.open(name, os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=inside))
    os.close(inside)


READERS: dict[str, Callable[[Path], object]] = {
    "the upload of model and events": lambda folder: list(readable_files(folder)),
    "the signs of life": lambda folder: measure_below(folder, besides=()),
    "all files": lambda folder: list(walk(folder)),
    "the checkpoint": listing_of,
    "the outputs": lambda folder: scan(folder, "runs/r/outputs/"),
}


@pytest.mark.parametrize("depth", [DEEP, 5000])
def test_folders_may_be_nested_deeper_than_python_and_linux_follow(tmp_path: Path, depth: int) -> None:
    nest(tmp_path / "top", depth)
    (tmp_path / "top/weights").write_text("w")
    for reads, read in READERS.items():
        assert read(tmp_path / "top"), reads
    assert tmp_path / "top/weights" in set(readable_files(tmp_path / "top"))
    fresh(tmp_path / "top")
    assert list((tmp_path / "top").iterdir()) == []
    remove_tree(tmp_path / "top")
    assert not (tmp_path / "top").exists()


def test_a_folder_whose_owner_has_no_rights_is_removed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("c")
    (tmp_path / "a/b").chmod(0)
    (tmp_path / "a").chmod(0)
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_rights_that_a_program_took_away_are_given_back_and_named(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    given = folders.list_program_folders(paths, 1)
    for folder in given:
        folder.mkdir(parents=True, exist_ok=True)
    paths.model.chmod(0o500)
    paths.home.chmod(0)
    lacked = folders.give_back_rights(given)
    assert lacked == (f"{paths.home} (mode 000)", f"{paths.model} (mode 500)")
    assert paths.home.stat().st_mode & 0o777 == 0o700
    assert folders.give_back_rights(given) == ()
    assert f"removed its permissions for {paths.home} (mode 000) and" in folders.why_failed(lacked)


def test_what_is_no_folder_of_the_program_any_more_is_passed_over(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.home.mkdir(parents=True)
    paths.checkpoints.symlink_to(tmp_path)
    paths.results.write_text("a file")
    tmp_path.chmod(0o755)
    assert folders.give_back_rights(folders.list_program_folders(paths, 1)) == ()


FAULTS = [
    # name, error, path below the disk's root, kind of fault
    ("no rights", errno.EACCES, "home/model", ProgramFault),
    ("a file in a folder's place", errno.ENOTDIR, "home/results/model/x", ProgramFault),
    ("a folder in a file's place", errno.EISDIR, "home/results/metrics.json", ProgramFault),
    ("links in a circle", errno.ELOOP, "home/checkpoints", ProgramFault),
    ("a path that is too long", errno.ENAMETOOLONG, "home/program/x", ProgramFault),
    ("no rights elsewhere", errno.EACCES, "state.json", HostTrouble),
    ("a broken disk", errno.EIO, "home/model", HostTrouble),
    ("a name that begins alike", errno.EACCES, "homes/model", HostTrouble),
]


@pytest.mark.parametrize(
    ("number", "path", "kind"), [row[1:] for row in FAULTS], ids=[str(row[0]) for row in FAULTS]
)
def test_whose_fault_an_error_of_the_disk_is(
    tmp_path: Path, number: int, path: str, kind: type[HostTrouble]
) -> None:
    disk = Disk(tmp_path / "reserve", tmp_path / "home")
    trouble = disk.trouble(OSError(number, os.strerror(number), str(tmp_path / path)))
    assert type(trouble) is kind
    assert trouble.final is (kind is ProgramFault)
    assert str(tmp_path / path) in trouble.reason


def test_a_checkpoint_file_of_3_gb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "checkpoint").open("wb") as file:
        file.truncate(3 * 2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = listing_of(tmp_path)
    assert (step_of(tmp_path, found), missing(tmp_path, found)) == (None, None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "KiB"


@pytest.mark.parametrize("name", ["1750000000000000", "9" * 16, "1" + "0" * 15])
def test_a_number_too_large_for_a_step_is_a_name_of_the_programs_own(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "facts.json").write_text("{}")
    (tmp_path / name / "trainyard-metadata.json").write_text("{}")
    assert steps_in(tmp_path) == []


def test_pipes_and_devices_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    subprocess.run(["mknod", tmp_path / "null", "c", "1", "3"], check=False, capture_output=True)
    assert list(readable_files(tmp_path)) == []
    assert "pipe" in listing_of(tmp_path).left_out
    assert "pipe" in scan(tmp_path, "").left_out


def test_a_file_of_6_tb_of_holes_is_sent_nowhere(tmp_path: Path) -> None:
    """A host once uploaded zeros until its deadline. Every terabyte is billed."""
    for name in ("model", "checkpoints", "work"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text("w")
        with (tmp_path / name / "holes").open("wb") as file:
            file.truncate(6 << 40)
    sent, notes = Sent(), list[str]()
    left_out = LeftOut(notes.append, "${model}")
    FolderUpload(sent, tmp_path / "model", "runs/r/model/", left_out).send(last=True)
    assert sent.keys == ["runs/r/model/weights"]
    assert notes == ["${model}/holes is left out: it is sparse: most of it was never written"]
    seen = listing_of(tmp_path / "checkpoints")
    assert set(seen.files) == {"weights"}
    assert "larger than the disk" in seen.left_out["holes"]
    assert set(scan(tmp_path / "work", "runs/r/outputs/").files) == {"weights"}


def test_a_checkpoint_with_holes_that_fits_on_the_disk_is_kept(tmp_path: Path) -> None:
    with (tmp_path / "embedding").open("wb") as file:
        file.truncate(2 << 30)
    assert set(listing_of(tmp_path).files) == {"embedding"}
