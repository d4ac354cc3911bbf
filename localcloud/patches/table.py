"""Operations on a table of patched names, for any library."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml

ABSENT = "absent"


class _Omitted:
    def __repr__(self) -> str:
        return ""


@dataclass(frozen=True)
class Patch:
    """A patched name of a library."""

    shape: str
    """Result of `shape_of` for the name in the pinned version."""
    ours: str
    """Names of the replacement or wrapper, below `localcloud`, separated by commas."""
    why: str


class Patches:
    """The table of one library.

    Names are `module:attribute` within the library. Only names in the table may be patched.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        rows = yaml.safe_load(Path(__file__).with_name(f"{library}.yaml").read_text())
        self.patches = {
            f"{m}:{name}": Patch(*row) for m, names in rows.items() for name, row in names.items()
        }

    def stock(self, name: str) -> Any:
        """Return the current value: the library's own, or the wrapper of an earlier part."""
        return attrgetter(name.partition(":")[2])(self._module(name))

    def replace(self, name: str, ours: Any) -> None:
        owner, _, attribute = name.partition(":")[2].rpartition(".")
        module = self._module(name)
        setattr(attrgetter(owner)(module) if owner else module, attribute, ours)

    def extend(self, name: str, entries: Mapping[str, Any]) -> None:
        """Add entries to the dictionary at this name."""
        self.stock(name).update(entries)

    def differences(self) -> list[str]:
        """Return a line for each name that differs from the table. Call this in a process without patches."""
        found = []
        for name, patch in self.patches.items():
            try:
                shape = shape_of(self.stock(name))
            except (ImportError, AttributeError):
                shape = ABSENT
            if shape != patch.shape:
                found.append(
                    f"{self.library}.{name} is {shape}, not {patch.shape}: see {patch.ours} ({patch.why})"
                )
        return found

    def _module(self, name: str) -> Any:
        if name not in self.patches:
            raise KeyError(f"{name} is not in the table of {self.library}'s patched names")
        return importlib.import_module(f"{self.library}.{name.partition(':')[0]}")


def shape_of(value: Any) -> str:
    """Return a function's parameters without types and defaults, or the type of any other value."""
    if not inspect.isroutine(value):
        return type(value).__name__
    signature = inspect.signature(value)
    bare = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else _Omitted())
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
