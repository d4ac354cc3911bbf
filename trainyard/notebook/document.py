"""A notebook as it lies in its file (nbformat 4, JSON): its cells, its faults, its parameters. Pure.

Parameters are papermill's: a cell tagged `parameters` says what there is and its defaults; a cell with other values is
put behind it, tagged `injected-parameters`.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from trainyard.notebook.cells import python_of

FORMAT = 4
PARAMETERS, INJECTED = "parameters", "injected-parameters"
UNKNOWN_NAMES = re.compile(r"^\s*%(?:run|load|store|macro|recall|rerun)\b", re.MULTILINE)
"""Magics that may assign any name."""


@dataclass(frozen=True)
class CodeCell:
    """`number` counts cells with code from 1, as a kernel that has just started counts them: `[3]` before the cell."""

    number: int
    source: str
    tags: tuple[str, ...] = ()

    @cached_property
    def tree(self) -> ast.Module | SyntaxError | None:
        """The cell's Python, or why IPython cannot read the cell; None for a cell that a magic takes as a whole."""
        return python_of(self.source)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names that the cell assigns; None if it may assign others (`%run`, `from ... import *`, `%%capture`)."""
        tree = self.tree
        if not isinstance(tree, ast.Module) or UNKNOWN_NAMES.search(self.source):
            return None
        stars = (node for node in ast.walk(tree) if isinstance(node, ast.alias) and node.name == "*")
        return None if any(stars) else tuple(dict.fromkeys(_assigned(tree)))


@dataclass(frozen=True)
class Notebook:
    """Its cells with code, in their order; empty ones count for nothing."""

    cells: tuple[CodeCell, ...]

    @property
    def parameters(self) -> tuple[str, ...] | None:
        """The names that the cell tagged `parameters` assigns; None if there is no such cell, or it may assign any."""
        tagged = [cell for cell in self.cells if PARAMETERS in cell.tags]
        return tagged[0].names if tagged else None

    @property
    def imports(self) -> tuple[str, ...]:
        """The top-level modules that its cells import, as far as these are Python alone."""
        trees = [tree for cell in self.cells if isinstance(tree := cell.tree, ast.Module)]
        return tuple(dict.fromkeys(name for tree in trees for name in _imported(tree)))


@dataclass(frozen=True)
class NotUsable:
    """The file is no notebook that can be run; `problem` says why, and what to do."""

    problem: str


def read(text: bytes) -> Notebook | NotUsable:
    """The notebook that a file holds."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = (
            f"line {error.lineno}, column {error.colno}: {error.msg}"
            if isinstance(error, json.JSONDecodeError)
            else error
        )
        return NotUsable(f"is no notebook, since it is not JSON ({where}); save it anew in Jupyter")
    if not isinstance(content, Mapping) or "nbformat" not in content:
        return NotUsable("is no notebook: it has no nbformat; save it anew in Jupyter")
    if content["nbformat"] != FORMAT:
        return NotUsable(
            f"is a notebook of format {content['nbformat']}, and hosts read {FORMAT}: "
            f"jupyter nbconvert --to notebook --nbformat {FORMAT} --inplace FILE"
        )
    if (language := _language(content)) not in (None, "python"):
        return NotUsable(f"is a notebook for {language}; hosts run Python")
    cells = content.get("cells")
    if not isinstance(cells, Sequence) or not all(isinstance(cell, Mapping) for cell in cells):
        return NotUsable("has no list of cells; save it anew in Jupyter")
    codes = [cell for cell in cells if cell.get("cell_type") == "code" and source_of(cell).strip()]
    if not codes:
        return NotUsable("has no cell with code, so there is nothing to run")
    return Notebook(
        tuple(CodeCell(number, source_of(cell), tags_of(cell)) for number, cell in enumerate(codes, start=1))
    )


def source_of(cell: Mapping[str, Any]) -> str:
    """Its text, which files have as one or as lines."""
    source = cell.get("source") or ""
    return source if isinstance(source, str) else "".join(map(str, source))


def tags_of(cell: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, Mapping) else None
    return tuple(map(str, tags)) if isinstance(tags, Sequence) and not isinstance(tags, str) else ()


def as_word(value: object) -> str:
    """A parameter as a word of a command line, which `value_of` reads: JSON, or plain text where that is none."""
    return value if isinstance(value, str) and value_of(value) == value else json.dumps(value)


def value_of(word: str) -> object:
    """What such a word says."""
    try:
        return json.loads(word)
    except ValueError:
        return word


def assignments(parameters: Mapping[str, object]) -> str:
    """The cell that gives them these values."""
    return "\n".join(["# Parameters", *(f"{name} = {_literal(value)}" for name, value in parameters.items())])


def _literal(value: object) -> str:
    """Return Python for a value of JSON. NaN and infinities, which JSON's readers take, have no literal."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_literal(item)}' for key, item in value.items())}}}"
    return repr(value) if not isinstance(value, float) or isfinite(value) else f'float("{value}")'


def _language(content: Mapping[str, Any]) -> str | None:
    """In which it is written; None where it does not say."""
    metadata = content.get("metadata")
    said = metadata if isinstance(metadata, Mapping) else {}
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        held = said.get(section)
        if isinstance(held, Mapping) and isinstance(held.get(key), str):
            return str(held[key]).lower()
    return None


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
