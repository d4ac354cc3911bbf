"""What a table of patched names can do; knows no library."""

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
    """A name of a library at which something of ours stands."""

    shape: str
    """What `shape_of` says of it in the pinned version."""
    ours: str
    """What stands there instead, or puts something around it: names below `localcloud`, with commas."""
    why: str


class Patches:
    """One library's table. Names are `module:attribute`, below the library; what is not in the table is not patched."""

    def __init__(self, library: str) -> None:
        self.library = library
        rows = yaml.safe_load(Path(__file__).with_name(f"{library}.yaml").read_text())
        self.patches = {
            f"{m}:{name}": Patch(*row) for m, names in rows.items() for name, row in names.items()
        }

    def stock(self, name: str) -> Any:
        """What stands there now: the library's own, or what an earlier part put around it."""
        return attrgetter(name.partition(":")[2])(self._module(name))

    def replace(self, name: str, ours: Any) -> None:
        """Put `ours` there."""
        owner, _, attribute = name.partition(":")[2].rpartition(".")
        module = self._module(name)
        setattr(attrgetter(owner)(module) if owner else module, attribute, ours)

    def extend(self, name: str, entries: Mapping[str, Any]) -> None:
        """Put these entries into the dictionary that stands there."""
        self.stock(name).update(entries)

    def differences(self) -> list[str]:
        """A line for each name that is not what the table says; to be asked of a process that has patched nothing."""
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
    """The parameters of a function, without types and defaults; the type of anything else."""
    if not inspect.isroutine(value):
        return type(value).__name__
    signature = inspect.signature(value)
    bare = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else _Omitted())
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
