"""Archives that users upload and attackers craft, with the expected result of each."""

import gzip
import io
import tarfile
from collections.abc import Callable, Mapping

TEXT = b"print(1)\n"
Member = tuple[tarfile.TarInfo, bytes]


def file(name: str, text: bytes = TEXT, **facts: object) -> Member:
    return _member(name, tarfile.REGTYPE, text, **facts)


def folder(name: str) -> Member:
    return _member(name, tarfile.DIRTYPE)


def link(name: str, target: str) -> Member:
    return _member(name, tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> Member:
    return _member(name, tarfile.LNKTYPE, linkname=target)


def of_type(name: str, kind: bytes) -> Member:
    return _member(name, kind)


def _member(name: str, kind: bytes, text: bytes = b"", **facts: object) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, len(text)
    for key, value in facts.items():
        setattr(member, key, value)
    return member, text


def packed(*members: Member, kind: int = tarfile.PAX_FORMAT) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=kind) as tar:
        for member, text in members:
            tar.addfile(member, io.BytesIO(text) if text else None)
    return gzip.compress(whole.getvalue(), mtime=0)


def pax(**headers: str) -> Member:
    return file("train.py", pax_headers=headers)


def with_size(claimed: int, name: str = "big.bin") -> bytes:
    """Return an archive with a member whose claimed bytes are missing."""
    member = tarfile.TarInfo(name)
    member.size = claimed
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024), mtime=0)


def long_header(kind: bytes, size: int) -> bytes:
    """Return an archive with a header that claims a long header."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = kind, size
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(size) + bytes(1024), mtime=0)


def sparse() -> bytes:
    """Return an archive in GNU's sparse format 1.0 whose map begins with an endless number."""
    head = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "x",
        "GNU.sparse.realsize": "9",
    }
    return packed(file("x", b"9" * 512, pax_headers=head))


def nested(depth: int) -> bytes:
    return packed(file("/".join(["d"] * depth) + "/train.py"))


GOOD: Mapping[str, Callable[[], bytes]] = {
    "a program": lambda: packed(file("train.py"), folder("lib"), file("lib/a.py")),
    "with ./ before each name": lambda: packed(folder("."), file("./train.py"), folder("./lib"), file("./lib/a.py")),
    "no folder of its own": lambda: packed(file("lib/a.py"), file("train.py")),
    "a link beside its file": lambda: packed(file("lib/a.py"), link("lib/b.py", "a.py"), file("train.py")),
    "a link that goes up as far as it may": lambda: packed(file("train.py"), link("a/b/c.py", "../../train.py")),
    "a link to a folder": lambda: packed(file("v1/train.py"), link("current", "v1"), link("train.py", "v1/train.py")),
    "a hard link": lambda: packed(file("train.py"), hard("copy.py", "train.py"), hard("more.py", "copy.py")),
    "the same file twice": lambda: packed(file("train.py", b"old\n"), file("train.py")),
    "a time before 1970": lambda: packed(pax(mtime="-1.5"), file("a.py")),
    "a time that is not a number": lambda: packed(pax(mtime="nan"), file("a.py")),
    "a time without end": lambda: packed(pax(mtime="inf"), file("a.py")),
    "no right to anything": lambda: packed(folder("lib"), file("lib/a.py", mode=0), file("train.py", mode=0)),
    "setuid and another owner": lambda: packed(file("train.py", mode=0o6755, uid=5, uname="bin")),
    "many folders deep": lambda: nested(40),
    "names that are no UTF-8": lambda: packed(file("caf\udce9.py"), file("train.py"), kind=tarfile.GNU_FORMAT),
    "an old tar": lambda: packed(file("train.py"), kind=tarfile.USTAR_FORMAT),
}  # fmt: skip
BAD: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "out by its name": (lambda: packed(file("../evil.py")), "outside the archive's folder"),
    "out after it went in": (lambda: packed(file("a/../../evil.py")), "outside the archive's folder"),
    "dots in between": (lambda: packed(file("a/../evil.py")), "outside the archive's folder"),
    "an absolute name": (lambda: packed(file("/tmp/evil.py")), "outside the archive's folder"),
    "a link to another place": (lambda: packed(link("here", "/etc"), file("train.py")), "is a link to /etc"),
    "a link that goes up too far": (lambda: packed(link("a/b", "../../x"), file("train.py")), "outside the archive"),
    "up after a link went down": (
        lambda: packed(link("a", "b/c"), link("s", "a/../../x"), file("train.py")),
        "goes up after it has gone down",
    ),
    "written through a link": (lambda: packed(link("a", "lib"), file("a/evil.py")), "written through a symbolic link"),
    "a folder through a link": (lambda: packed(link("a", "lib"), folder("a/b")), "written through a symbolic link"),
    "a link, then a file of its name": (lambda: packed(link("a", "b"), file("a")), "twice, as a "),
    "a file, then a link of its name": (lambda: packed(file("a"), link("a", "b")), "twice, as a "),
    "a folder, then a link of its name": (lambda: packed(file("a/b"), link("a", "c")), "twice, as a "),
    "a file, then a folder": (lambda: packed(file("a"), folder("a")), "twice, as a "),
    "a file, then something in it": (lambda: packed(file("a"), file("a/b")), "written through a file"),
    "a hard link to nothing": (lambda: packed(hard("train.py", "gone.py")), "not a file before it"),
    "a hard link to later": (lambda: packed(hard("a", "train.py"), file("train.py")), "not a file before it"),
    "a hard link out": (lambda: packed(hard("a", "/etc/passwd"), file("train.py")), "not a file before it"),
    "a hard link up": (lambda: packed(hard("a", "../x"), file("train.py")), "not a file before it"),
    "a hard link to a link": (lambda: packed(link("s", "x"), hard("a", "s")), "not a file before it"),
    "a hard link to a folder": (lambda: packed(folder("d"), hard("a", "d")), "not a file before it"),
    "a pipe": (lambda: packed(of_type("pipe", tarfile.FIFOTYPE)), "neither a file"),
    "a device": (lambda: packed(of_type("null", tarfile.CHRTYPE)), "neither a file"),
    "a disk": (lambda: packed(of_type("sda", tarfile.BLKTYPE)), "neither a file"),
    "an unknown kind": (lambda: packed(of_type("x", tarfile.GNUTYPE_SPARSE)), ""),
    "2,000 folders deep": (lambda: nested(2_000), ""),
    "65 folders deep": (lambda: nested(65), "more than 64 folders deep"),
    "a part of 300 characters": (lambda: packed(file("x" * 300)), "not a valid file name"),
    "a name of 2,000 characters": (lambda: packed(file("/".join(["x" * 100] * 20))), "not a valid file name"),
    "a name with a NUL": (lambda: packed(pax(path="a\0b")), ""),
    "2^60 bytes": (lambda: with_size(2**60), "bytes when unpacked"),
    "11 GiB": (lambda: with_size(11 * 2**30), "bytes when unpacked"),
    "fewer than no bytes": (lambda: with_size(-512), ""),
    "a size that is not a number": (lambda: packed(pax(size="x")), ""),
    "a pax header of 64 MB": (lambda: long_header(tarfile.XHDTYPE, 64 * 2**20), "one of its headers has"),
    "a global header of 2 MB": (lambda: long_header(tarfile.XGLTYPE, 2 * 2**20), "one of its headers has"),
    "a long name of 2 MB": (lambda: long_header(tarfile.GNUTYPE_LONGNAME, 2 * 2**20), "one of its headers has"),
    "a long link of 2 MB": (lambda: long_header(tarfile.GNUTYPE_LONGLINK, 2 * 2**20), "one of its headers has"),
    "a sparse map without end": (sparse, ""),
    "malformed pax": (lambda: packed(pax(mtime="x" * 9)), ""),
    "cut short": (lambda: packed(file("train.py", bytes(range(256)) * 500))[:-200], "not a complete tar"),
    "a tar that is cut": (lambda: gzip.decompress(packed(file("train.py", b"x" * 9000)))[:2048], "not a complete tar"),
    "a gzip in a gzip": (lambda: gzip.compress(packed(file("train.py")), mtime=0), "not a complete tar"),
    "no tar": (lambda: gzip.compress(b"only a text " * 100, mtime=0), "not a complete tar"),
    "broken gzip": (lambda: b"\x1f\x8b\x08\x00 broken", "not a complete tar"),
}  # fmt: skip
"""Archives with a part of the message, or "" if it depends on the version of Python."""
