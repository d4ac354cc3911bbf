"""The folder of recordings. Only facts from it may enter this project."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

OUTSIDE_TEXT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
SOURCE = re.compile(r"\b((?:Cloud )?[A-Z][A-Za-z]+)(?:'s tests)? \(?([0-9a-f]{7}), (\d{4}-\d{2})\)")


class UnreadableError(Exception):
    """A recording has a form that this project does not know."""


@dataclass(frozen=True)
class Recording:
    """A recorded test of another project against AWS."""

    service: str
    file: Path
    test: str
    date: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Oracle:
    """A folder of recordings."""

    folder: Path

    @cached_property
    def sources(self) -> list[str]:
        """Name the commit and the month of each collection, as the folder's README does."""
        readme = self.folder / "README.md"
        text = readme.read_text() if readme.exists() else ""
        return [f"{name} {commit} ({month})" for name, commit, month in SOURCE.findall(text)]

    def of(self, service: str) -> Iterator[Recording]:
        """Yield the recordings of a service, of all folders below its own."""
        root = self.folder / "localstack" / service
        for file in sorted(root.rglob("*.snapshot.json")):
            for key, found in read(file).items():
                content = found.get("recorded-content") if isinstance(found, dict) else None
                if isinstance(content, dict):
                    date = str(found.get("recorded-date", ""))
                    yield Recording(service, file, key.rpartition("::")[2], date, content)


def read(file: Path) -> Any:
    """Read JSON with comments and trailing commas. Raise UnreadableError for anything else."""
    try:
        text = OUTSIDE_TEXT.sub(lambda found: found[1] or "", file.read_text())
        return json.loads(TRAILING.sub(lambda found: found[1] or "", text), strict=False)
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{file}: {error}") from error
