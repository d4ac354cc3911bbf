import io
import tarfile
from pathlib import Path

import pytest

from training.host.errors import ProgramFault
from training.host.program.archive import unpack


def archive(path: Path, *members: tarfile.TarInfo, text: bytes = b"print(1)\n") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            member.size = len(text) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(text) if member.isreg() else None)
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def fifo(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.FIFOTYPE
    return member


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", link("here", "lib"), tarfile.TarInfo("here/evil.py"))
    with pytest.raises(ProgramFault, match="through a symbolic link"):
        unpack(path, tmp_path / "out", source="s3://b/p.tar.gz")


def test_a_link_inside_the_archive_is_kept(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", tarfile.TarInfo("lib/a.py"), link("lib/b.py", "a.py"))
    unpack(path, tmp_path / "out", source="s3://b/p.tar.gz")
    assert (tmp_path / "out" / "lib" / "b.py").read_text() == "print(1)\n"


def test_a_program_is_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", tarfile.TarInfo("train.py"), tarfile.TarInfo("lib/a.py"))
    assert unpack(path, tmp_path / "out", source="s3://b/p.tar.gz") == 2
    assert (tmp_path / "out" / "lib" / "a.py").read_text() == "print(1)\n"


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../evil.py"),
        tarfile.TarInfo("a/../../evil.py"),
        link("here", "/etc"),
        link("here", "../../outside"),
        fifo("pipe"),
    ],
    ids=lambda member: member.name + member.linkname,
)
def test_nothing_of_an_archive_lands_outside(tmp_path: Path, member: tarfile.TarInfo) -> None:
    path = archive(tmp_path / "p.tar.gz", member, tarfile.TarInfo("train.py"))
    with pytest.raises(ProgramFault, match=r"s3://b/p\.tar\.gz"):
        unpack(path, tmp_path / "in" / "out", source="s3://b/p.tar.gz")
    assert not list(tmp_path.rglob("evil.py"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no tar at all", b"\x1f\x8b\x08\x00 broken gzip"])
def test_what_is_no_tar_is_the_users_fault_and_final(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.tar.gz"
    path.write_bytes(content)
    with pytest.raises(ProgramFault) as refused:
        unpack(path, tmp_path / "out", source="s3://b/p.tar.gz")
    assert refused.value.final
    assert "tar -czf" in refused.value.reason


def test_an_archive_that_was_cut_short_is_no_whole_tar(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", tarfile.TarInfo("train.py"), text=bytes(range(256)) * 500)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ProgramFault):
        unpack(path, tmp_path / "out", source="s3://b/p.tar.gz")


def test_an_empty_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgramFault, match="empty archive"):
        unpack(archive(tmp_path / "p.tar.gz"), tmp_path / "out", source="s3://b/p.tar.gz")
