"""Hosts and Admit accept the same archives, write only into the folder, and blame the archive for its faults."""

import gzip
import os
import stat
import tarfile
from pathlib import Path

import pytest

from tests.unit.archives import BAD, GOOD, file, link, packed, with_size
from training.host.errors import HostTrouble, ProgramFault
from training.host.program.archive import unpack
from trainyard import archives
from trainyard.core.jobfile import program_archive

SOURCE = "s3://b/programs/p.tar.gz"


FILTERS = ["data", "fully_trusted"] if hasattr(tarfile, "data_filter") else [None]


@pytest.fixture(params=FILTERS, autouse=True)
def filtered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with Python's own filter and without it, as on Debian 12's Python 3.11.2."""
    chosen = {"filter": request.param} if request.param else {}
    monkeypatch.setattr("training.host.program.archive.FILTER", chosen)


def unpacked(tmp_path: Path, content: bytes) -> Path:
    """Unpack an archive, check that only its folder was written, and return the folder."""
    (tmp_path / "p.tar.gz").write_bytes(content)
    folder = tmp_path / "in" / "out"
    folder.parent.mkdir()
    try:
        unpack(tmp_path / "p.tar.gz", folder, source=SOURCE)
    finally:
        outside = [path for path in tmp_path.rglob("*") if folder not in (path, *path.parents)]
        assert sorted(path.name for path in outside) == ["in", "p.tar.gz"]
    return folder


@pytest.mark.parametrize("kind", GOOD)
def test_what_people_pack_is_unpacked(tmp_path: Path, kind: str) -> None:
    content = GOOD[kind]()
    folder = unpacked(tmp_path, content)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.resolve().is_relative_to(folder.resolve())
        assert stat.S_IMODE(path.stat().st_mode) & 0o6022 == 0
        assert os.access(path, os.R_OK)
    assert isinstance(program_archive.read(content), program_archive.Archive)


@pytest.mark.parametrize("kind", BAD)
def test_what_may_not_be_unpacked_is_the_programs_fault_on_both_sides(tmp_path: Path, kind: str) -> None:
    make, says = BAD[kind]
    content = make()
    admitted = program_archive.read(content)
    if isinstance(admitted, program_archive.Archive):
        assert says == "", "Admit would launch a host for it"
        unpacked(tmp_path, content)
        return
    with pytest.raises(ProgramFault) as refused:
        unpacked(tmp_path, content)
    assert refused.value.final
    assert says in refused.value.reason
    assert admitted is None or says in admitted.reason


def test_what_has_no_room_on_the_disk_is_final_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.host.program.archive.LEFT_FREE", 2**60)
    with pytest.raises(HostTrouble, match="no room") as full:
        unpacked(tmp_path, packed(file("train.py")))
    assert full.value.final
    assert not isinstance(full.value, ProgramFault)


def test_more_members_than_anybody_packs_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    found = program_archive.read(packed(*(file(f"{number}.py") for number in range(4))))
    assert isinstance(found, program_archive.NotUnpacked)
    assert "more than 3 members" in found.reason


def test_long_files_are_not_looked_into_and_their_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_archive, "MOST_TEXT", 10)
    monkeypatch.setattr(program_archive, "MOST_TEXTS", 15)
    found = program_archive.read(
        packed(file("a.py", b"1" * 9), file("long.py", b"1" * 11), file("b.py", b"1" * 9), file("c.py", b"1"))
    )
    assert isinstance(found, program_archive.Archive)
    assert found.paths == {"a.py", "b.py", "c.py", "long.py"}
    assert set(found.texts) == {"a.py", "c.py"}


def test_names_are_shown_without_what_a_terminal_obeys() -> None:
    name = "\x1b[2J\u202efiles.py"
    found = program_archive.read(packed(file(f"../{name}")))
    assert isinstance(found, program_archive.NotUnpacked)
    assert r"../\x1b[2J\u202efiles.py is outside" in found.reason


@pytest.mark.parametrize("way", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_host_unpacks_whatever_tar_packs(tmp_path: Path, way: str) -> None:
    with tarfile.open(tmp_path / "p", way) as tar:  # type: ignore[call-overload]
        (tmp_path / "train.py").write_text("print(1)\n")
        tar.add(tmp_path / "train.py", "train.py")
    assert unpack(tmp_path / "p", tmp_path / "out", source=SOURCE) == 1


def test_a_link_that_stands_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    """An earlier archive left the link in the folder."""
    (tmp_path / "out").mkdir()
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "out" / "train.py").symlink_to("../theirs")
    (tmp_path / "p").write_bytes(packed(file("train.py"), link("a", "train.py")))
    unpack(tmp_path / "p", tmp_path / "out", source=SOURCE)
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_an_archive_that_unpacks_to_too_much_is_the_hosts_to_read() -> None:
    huge = gzip.decompress(with_size(program_archive.MOST_UNPACKED + 1))
    assert program_archive.read(gzip.compress(huge)) is None
