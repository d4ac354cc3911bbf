"""Archives of results. No file name in an archive leads out of the folder that it is unpacked into."""

import subprocess
from pathlib import Path

import pytest

from tests.unit.ui import canned
from tests.unit.ui.site import owner
from trainyard.ui.downloads import member_names

HOSTILE = (
    "model/../../../../evil-1.txt", "model/..", "/etc/passwd", "//etc/passwd", "model//a", "model/./a", "model/...",
    "model/..\\..\\evil", "C:\\evil", "C:/evil", "model/a:stream", "\\\\server\\share", "model/\x1b]0;evil\x07",
    "model/\x9b31m", "model/a\nb", "model/a\0b", "model/\u202egpj.exe", "model/con", "model/NUL.txt", "model/lpt1",
    "model/a.", "model/a ", "model/a", "model/a/b", "model/a/b/c", "model/%2E%2E", "model/a%3Astream",
    "..", ".", "model/~root",
)  # fmt: skip


def test_each_name_stays_in_the_folder_and_is_its_own() -> None:
    names = member_names(HOSTILE)
    assert names.keys() == set(HOSTILE)
    assert len({name.casefold() for name in names.values()}) == len(HOSTILE)
    for name in names.values():
        parts = name.split("/")
        assert all(part.strip(". ") for part in parts), name
        assert name.isprintable()
        assert not set(name) & set('\\:*?"<>|')
    paths = {tuple(name.split("/")) for name in names.values()}
    assert not [path for path in paths for other in paths if path != other and other[: len(path)] == path]


@pytest.mark.parametrize(
    "name",
    ["model/weights.pt", "model/a b", "logs/läuft", "model/100%", "model/.hidden", "a/名前", "console"],
)
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert member_names([name]) == {name: name}


def test_a_mark_of_a_folder_is_no_file() -> None:
    assert member_names(["model/", "model/a"]) == {"model/a": "model/a"}


def test_an_archive_of_hostile_names_unpacks_below_its_folder(tmp_path: Path) -> None:
    """Unpack with a tar that accepts every name."""
    cloud, deep = canned.cloud(), tmp_path / "deep" / "folder"
    hostile = [name for name in HOSTILE if name.startswith("model/")]
    cloud.stories[canned.TRAINING].files.clear()
    cloud.stories[canned.TRAINING].files.update({name: name.encode() for name in hostile})
    answer = owner(cloud).get(f"/runs/{canned.TRAINING}/results/model")
    deep.mkdir(parents=True)
    subprocess.run(["tar", "-xP", "-C", deep], input=answer.content, check=True)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(deep / "model") for path in written)
    assert {path.read_bytes().decode() for path in written} == set(hostile)
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]
