"""Layers on top of each other: what a layer removes, what is left out, and what never leaves the image's folder."""

import gzip
import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from training.host.container import unpack
from training.host.container.configuration import Layer, find_user, resolve
from training.host.errors import HostTrouble, ProgramFault

Member = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: str = "", mode: int = 0o644) -> Member:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    return member, content.encode()


def special(name: str, kind: bytes, target: str = "", mode: int = 0o755) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, mode
    return member, b""


def folder(name: str, mode: int = 0o755) -> Member:
    return special(name, tarfile.DIRTYPE, mode=mode)


def link(name: str, target: str) -> Member:
    return special(name, tarfile.SYMTYPE, target)


def hard(name: str, target: str) -> Member:
    return special(name, tarfile.LNKTYPE, target)


def pack(members: Iterable[Member], *, with_end: bool = True) -> bytes:
    packed = io.BytesIO()
    tar = tarfile.open(  # noqa: SIM115 - closed only with its end mark
        fileobj=packed, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape"
    )
    for member, content in members:
        tar.addfile(member, io.BytesIO(content))
    if with_end:
        tar.close()
    return packed.getvalue()


def stack(tmp_path: Path, *layers: bytes) -> Path:
    """Unpack layers on top of each other, and return the image's folder."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    for number, content in enumerate(layers):
        blob = tmp_path / f"layer-{number}"
        blob.write_bytes(content)
        layer = Layer(digest=f"sha256:{number}", size=len(content))
        unpack.unpack(layer, blob, unpack.read_contents(layer, blob), root)
    return root


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_whiteout_removes_a_file_of_a_lower_layer_and_a_folder_with_all_below_it(tmp_path: Path) -> None:
    lower = pack([folder("a"), file("a/one", "1"), file("a/two", "2"), folder("b"), file("b/three", "3")])
    upper = pack([folder("a"), file("a/.wh.one"), file(".wh.b"), file("a/four", "4")])
    assert names(stack(tmp_path, lower, upper)) == ["a", "a/four", "a/two"]


def test_an_opaque_folder_keeps_only_files_of_its_own_layer_and_of_higher_ones(tmp_path: Path) -> None:
    lower = pack([folder("a"), file("a/one", "1"), folder("a/b"), file("a/b/two", "2")])
    upper = pack([folder("a"), file("a/new", "n"), file("a/.wh..wh..opq")])
    assert names(stack(tmp_path, lower, upper)) == ["a", "a/new"]


def test_hard_links_stay_links_and_a_higher_layer_replaces_only_one_of_the_names(tmp_path: Path) -> None:
    lower = pack([file("one", "old"), hard("two", "one")])
    root = stack(tmp_path, lower, pack([file("one", "new")]))
    assert ((root / "one").read_text(), (root / "two").read_text()) == ("new", "old")
    again = stack(tmp_path, pack([hard("three", "two")]))
    assert (again / "three").samefile(again / "two")


@pytest.mark.parametrize(
    "spellings",
    [("./a/evil", "a/evil"), ("a//evil", "a/evil"), ("a/evil", "a/evil"), ("/a/evil", "a/./evil")],
)
def test_a_second_spelling_of_a_name_leads_no_file_out_of_the_image(
    tmp_path: Path, spellings: tuple[str, ...]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = stack(tmp_path, pack([link("a", str(outside))]), pack([file(name, "1") for name in spellings]))
    assert names(outside) == []
    assert (root / str(outside).lstrip("/") / "evil").read_text() == "1"


@pytest.mark.parametrize(
    "name",
    ["evil ", "evil\t", " evil", "e*il", "e?il", "e[v]il", "e\\vil", "e\\", "#evil", "-x", "дело", "\udce9"],
)
def test_an_odd_name_behind_a_link_leads_no_file_out_of_the_image(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = stack(tmp_path, pack([link("a", str(outside))]), pack([file(f"a/{name}", "1"), file("evil", "2")]))
    assert names(outside) == []
    assert (root / str(outside).lstrip("/") / name).read_text() == "1"
    assert (root / "evil").read_text() == "2"


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh.", "a/.wh..", "a/.wh..."])
def test_a_whiteout_that_would_remove_its_own_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(HostTrouble, match=r"sha256:1 removes the folder") as raised:
        stack(tmp_path, pack([folder("a"), file("a/one", "1")]), pack([file(name), file("new")]))
    assert raised.value.final
    assert names(tmp_path / "root") == ["a", "a/one"]


def test_a_whiteout_below_a_file_removes_nothing(tmp_path: Path) -> None:
    assert names(stack(tmp_path, pack([file("a", "1")]), pack([file("a/.wh.x"), file("b")]))) == ["a", "b"]


def test_a_layer_can_write_into_a_folder_that_a_lower_layer_has_removed(tmp_path: Path) -> None:
    lower = pack([folder("a", mode=0o500), file("a/one", "1")])
    root = stack(tmp_path, lower, pack([file(".wh.a")]), pack([file("a/two", "2")]))
    assert names(root) == ["a", "a/two"]


def test_a_member_that_no_host_can_unpack_ends_the_run(tmp_path: Path) -> None:
    loop = pack([link("a", "b"), link("b", "a")])
    for upper in (file("a/x", "1"), file("d" * 300, "1")):
        with pytest.raises(HostTrouble, match=r"sha256:\d cannot be unpacked") as raised:
            stack(tmp_path, loop, pack([upper]))
        assert raised.value.final


def test_a_sparse_file_needs_only_the_disk_of_its_data(tmp_path: Path) -> None:
    with (tmp_path / "lastlog").open("wb") as big:
        big.truncate(1 << 40)
    for kind in ("gnu", "posix"):
        blob = tmp_path / kind
        words = ["tar", "--sparse", f"--format={kind}", f"--file={blob}", "--create", "lastlog"]
        subprocess.run(words, cwd=tmp_path, check=True)
        layer = Layer(digest="sha256:0", size=1)
        contents = unpack.read_contents(layer, blob, room=1 << 20)
        root = tmp_path / f"root-{kind}"
        root.mkdir()
        unpack.unpack(layer, blob, contents, root)
        status = (root / "lastlog").stat()
        assert (status.st_size, status.st_blocks) == (1 << 40, 0)


def test_a_root_folder_without_rights_is_writable_for_higher_layers(tmp_path: Path) -> None:
    root = stack(tmp_path, pack([folder("./", mode=0o555), file("./a", "1")]), pack([file("b", "2")]))
    assert names(root) == ["a", "b"]
    assert root.stat().st_mode & 0o777 == 0o755


def test_attributes_and_odd_times_of_files_are_no_obstacle(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, time in (("real/x", 2**62), ("a/y", 2**62), ("z", -(2**62))):
            member, _ = file(name)
            member.mtime = time
            member.pax_headers = {"SCHILY.xattr.security.capability": "\x01", "LIBARCHIVE.xattr.user.x": "eA"}
            tar.addfile(member)
    root = stack(tmp_path, pack([folder("real"), link("a", "/real")]), packed.getvalue())
    assert names(root) == ["a", "real", "real/x", "real/y", "z"]


def test_a_layer_without_a_file_changes_nothing(tmp_path: Path) -> None:
    assert names(stack(tmp_path, pack([file("a")]), pack([]), b"", gzip.compress(b""))) == ["a"]


def test_device_nodes_and_pipes_are_left_out(tmp_path: Path) -> None:
    layer = pack(
        [
            folder("dev"),
            special("dev/null", tarfile.CHRTYPE),
            special("pipe", tarfile.FIFOTYPE),
            hard("dev/zero", "./dev/null"),
            file("a"),
        ]
    )
    assert names(stack(tmp_path, layer)) == ["a", "dev"]


def test_a_file_replaces_a_folder_and_a_folder_replaces_a_link(tmp_path: Path) -> None:
    lower = pack([folder("a"), file("a/one", "1"), folder("real"), link("b", "real")])
    root = stack(tmp_path, lower, pack([file("a", "file"), folder("b"), file("b/two", "2")]))
    assert (root / "a").read_text() == "file"
    assert names(root / "real") == []
    assert (root / "b/two").read_text() == "2"


@pytest.mark.parametrize("target", ["/real", "real", "../../real", "/other/../real"])
def test_a_member_behind_a_link_arrives_where_a_process_inside_would_find_it(
    tmp_path: Path, target: str
) -> None:
    lower = pack([folder("real"), folder("other"), link("a", target)])
    upper = pack(
        [file("a/one", "1"), hard("two", "a/one"), folder("a/sub"), file("a/sub/three", "3", mode=0o400)]
    )
    root = stack(tmp_path, lower, upper)
    assert (root / "real/one").read_text() == "1"
    assert (root / "two").samefile(root / "real/one")
    assert (root / "real/sub/three").read_text() == "3"
    assert (root / "a").is_symlink()


def test_a_link_to_a_folder_of_the_host_leads_no_file_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    lower = pack([link("a", str(outside)), link("b", "../outside")])
    root = stack(tmp_path, lower, pack([file("a/evil", "1"), file("b/evil", "1"), file("a/.wh.keep")]))
    assert names(outside) == []
    assert (root / str(outside).lstrip("/") / "evil").read_text() == "1"


def test_a_link_of_the_same_layer_leads_no_file_out_of_the_image(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    stack(tmp_path, pack([link("a", str(outside)), file("a/evil", "1")]))
    assert names(outside) == []


@pytest.mark.parametrize(
    "member",
    [file("../evil"), file("a/../../evil"), hard("a", "../../etc/passwd"), file("a\nb"), file("/../evil")],
    ids=["above", "inside and above", "hard link", "line break", "absolute"],
)
def test_a_path_outside_the_image_ends_the_run_and_is_named_with_its_layer(
    tmp_path: Path, member: Member
) -> None:
    with pytest.raises(HostTrouble, match=r"sha256:0 .*outside the image") as raised:
        stack(tmp_path, pack([member]))
    assert raised.value.final


def test_an_absolute_path_is_one_of_the_image(tmp_path: Path) -> None:
    assert names(stack(tmp_path, pack([file("/etc/x", "1")]))) == ["etc", "etc/x"]


def test_files_that_only_root_could_use_are_usable_by_their_owner(tmp_path: Path) -> None:
    lower = pack([folder("root", mode=0o500), file("root/shadow", "s", mode=0)])
    root = stack(tmp_path, lower, pack([file("root/more", "m")]))
    assert (root / "root").stat().st_mode & 0o777 == 0o700
    assert (root / "root/shadow").stat().st_mode & 0o777 == 0o600
    assert (root / "root/more").read_text() == "m"


def test_a_layer_without_an_end_mark_is_whole(tmp_path: Path) -> None:
    assert names(stack(tmp_path, pack([file("a", "1"), file("b", "2")], with_end=False))) == ["a", "b"]


def test_twenty_layers_each_change_the_same_file(tmp_path: Path) -> None:
    root = stack(
        tmp_path, *(pack([file("same", str(number)), file(f"own-{number}")]) for number in range(20))
    )
    assert (root / "same").read_text() == "19"
    assert len(names(root)) == 21


def _zstd(content: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=content, capture_output=True, check=True).stdout


@pytest.mark.parametrize(("command", "press"), [("gzip", gzip.compress), ("zstd", _zstd), ("cat", bytes)])
def test_the_bytes_of_a_layer_show_how_it_is_compressed(
    tmp_path: Path, command: str, press: Callable[[bytes], bytes]
) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"this machine has no {command}")
    assert names(stack(tmp_path, press(pack([file("a", "1")])))) == ["a"]


def test_a_layer_that_cannot_be_decompressed_names_the_reason(tmp_path: Path) -> None:
    with pytest.raises(HostTrouble, match=r"sha256:0.*(gzip|tar archive)") as raised:
        stack(tmp_path, b"\x1f\x8bno gzip at all")
    assert raised.value.final


def test_a_host_without_the_command_of_a_layer_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostTrouble, match="add zstd to apt in the recipe") as raised:
        stack(tmp_path, b"\x28\xb5\x2f\xfd")
    assert raised.value.final


def test_a_layer_that_unpacks_to_more_than_the_disk_is_not_read_to_its_end(tmp_path: Path) -> None:
    blob = tmp_path / "bomb"
    blob.write_bytes(gzip.compress(pack([file(str(number), "0" * 1_000_000) for number in range(9)])))
    with pytest.raises(unpack.TooLargeError):
        unpack.read_contents(Layer(digest="sha256:0", size=1), blob, room=2_000_000)


def test_a_full_disk_is_reported_with_the_size_that_would_do(tmp_path: Path) -> None:
    trouble = unpack.no_room(tmp_path / "missing", 23 << 30)
    assert trouble.final
    assert "the image needs 23.0 GiB" in trouble.reason
    assert "hardware.disk_gib: " in trouble.reason


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("", (0, 0)),
        ("1000", (1000, 50)),
        ("7", (7, 0)),
        ("7:8", (7, 8)),
        ("ann", (1000, 50)),
        ("ann:wheel", (1000, 10)),
        ("root", (0, 0)),
    ],
)
def test_the_user_of_an_image(tmp_path: Path, written: str, found: tuple[int, int]) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nann:x:1000:50::/home/ann:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nwheel:x:10:ann\n")
    assert find_user(tmp_path, written) == found


@pytest.mark.parametrize("written", ["99999999999", "7:99999999999"])
def test_a_number_that_no_user_has_is_a_fault_of_the_image(tmp_path: Path, written: str) -> None:
    with pytest.raises(ProgramFault, match="numbers of users and groups are 0 to 2,147,483,647"):
        find_user(tmp_path, written)


@pytest.mark.parametrize("written", ["bob", "ann:nobody", "-1", "\N{SUPERSCRIPT TWO}", " 7", "big"])
def test_a_user_that_the_image_does_not_list_is_a_fault_of_the_image(tmp_path: Path, written: str) -> None:
    (tmp_path / "etc").mkdir()
    lines = "ann:x:1000:50::/home/ann:/bin/sh\nbig:x:99999999999:50::/:/bin/sh\n"
    (tmp_path / "etc/passwd").write_text(lines)
    with pytest.raises(ProgramFault, match="write its number"):
        find_user(tmp_path, written)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("/a")
    with pytest.raises(OSError, match="loop of links"):
        resolve(tmp_path, "a/x")
