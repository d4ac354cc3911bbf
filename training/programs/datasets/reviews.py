"""Read reviews with a sentiment in the layout of the Large Movie Review Dataset (aclImdb).

Texts are `train/pos/*.txt`, `train/neg/*.txt`, `test/pos/*.txt`, `test/neg/*.txt`, at any depth below a folder, or in
one tar archive in that folder, like the published aclImdb_v1.tar.gz. Other files are ignored.
"""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SENTIMENTS = ("neg", "pos")
"""Names of the labels 0 and 1."""
REVIEW = re.compile(r"(?:^|/)(train|test)/(neg|pos)/[^/]+\.txt$")
ARCHIVES = ("*.tar", "*.tar.gz", "*.tgz")


@dataclass(frozen=True, slots=True)
class Reviews:
    """Texts and their labels, in the order of the files' names, which is the same on every host."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.texts)


def read(folder: Path) -> dict[str, Reviews]:
    """Return the reviews of `train` and `test`. Raises SystemExit if one lacks a sentiment, or a text is not UTF-8."""
    found: dict[str, list[tuple[str, int, str]]] = {"train": [], "test": []}
    for name, content in _files(folder):
        matched = REVIEW.search(name)
        if matched:
            part, sentiment = matched.groups()
            found[part].append((name, SENTIMENTS.index(sentiment), _text(name, content)))
    for part, rows in found.items():
        for label, sentiment in enumerate(SENTIMENTS):
            if all(row[1] != label for row in rows):
                raise SystemExit(
                    f"there is no {part}/{sentiment}/*.txt under {folder}: reviews lie as in aclImdb, in train/pos, "
                    "train/neg, test/pos and test/neg, or in one tar archive with these folders"
                )
    return {part: _in_order(rows) for part, rows in found.items()}


def _in_order(rows: list[tuple[str, int, str]]) -> Reviews:
    rows = sorted(rows)
    return Reviews(tuple(text for _, _, text in rows), tuple(label for _, label, _ in rows))


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SystemExit(f"{name} is not UTF-8 text (byte {error.start}): convert it") from error


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file below the folder, and of every file in the archives there."""
    for path in sorted(folder.rglob("*.txt")):
        yield path.relative_to(folder).as_posix(), path.read_bytes()
    for archive in sorted(path for ending in ARCHIVES for path in folder.rglob(ending)):
        yield from _members(archive)


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(archive) as opened:
            for member in opened:
                content = opened.extractfile(member) if member.isfile() else None
                if content:
                    yield member.name, content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SystemExit(f"{archive} is not a whole tar archive ({error}): fetch it again") from error
