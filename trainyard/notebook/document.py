"""The file of a notebook (nbformat 4, JSON): its cells, faults and parameters. Pure.

Parameters work as in papermill: a cell tagged `parameters` has the defaults, and a cell tagged `injected-parameters`
with other values follows it.
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
    """A cell with code."""

    number: int
    """Counts from 1, as a new kernel does: `[3]` before the cell."""
    source: str
    tags: tuple[str, ...] = ()

    @cached_property
    def tree(self) -> ast.Module | SyntaxError | None:
        """Return the cell's Python, its syntax error, or None for a cell magic."""
        return python_of(self.source)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names that the cell assigns; None if it may assign any (`%run`, `from ... import *`)."""
        tree = self.tree
        if not isinstance(tree, ast.Module) or UNKNOWN_NAMES.search(self.source):
            return None
        stars = (node for node in ast.walk(tree) if isinstance(node, ast.alias) and node.name == "*")
        return None if any(stars) else tuple(dict.fromkeys(_assigned_names(tree)))


@dataclass(frozen=True)
class Notebook:
    """A notebook."""

    cells: tuple[CodeCell, ...]
    """The cells with code, in order, without empty ones."""

    @property
    def parameters(self) -> tuple[str, ...] | None:
        """Return the names that the cell tagged `parameters` assigns; None if it is missing or may assign any."""
        tagged = [cell for cell in self.cells if PARAMETERS in cell.tags]
        return tagged[0].names if tagged else None

    @property
    def imports(self) -> tuple[str, ...]:
        """Return the top-level modules that the Python cells import."""
        trees = [tree for cell in self.cells if isinstance(tree := cell.tree, ast.Module)]
        return tuple(dict.fromkeys(name for tree in trees for name in _imported_names(tree)))


@dataclass(frozen=True)
class NotUsable:
    """A file that cannot run as a notebook. `problem` has the reason and the remedy."""

    problem: str


def read(text: bytes) -> Notebook | NotUsable:
    """Parse the file of a notebook."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = (
            f"line {error.lineno}, column {error.colno}: {error.msg}"
            if isinstance(error, json.JSONDecodeError)
            else error
        )
        return NotUsable(f"is not a notebook, because it is not JSON ({where}); save it again in Jupyter")
    if not isinstance(content, Mapping) or "nbformat" not in content:
        return NotUsable("is not a notebook: nbformat is missing; save it again in Jupyter")
    if content["nbformat"] != FORMAT:
        return NotUsable(
            f"is a notebook of format {content['nbformat']}, but hosts read format {FORMAT}: "
            f"jupyter nbconvert --to notebook --nbformat {FORMAT} --inplace FILE"
        )
    if (language := _language(content)) not in (None, "python"):
        return NotUsable(f"is a notebook for {language}; hosts run Python")
    cells = content.get("cells")
    if not isinstance(cells, Sequence) or not all(isinstance(cell, Mapping) for cell in cells):
        return NotUsable("has no list of cells; save it again in Jupyter")
    codes = [cell for cell in cells if cell.get("cell_type") == "code" and source_of(cell).strip()]
    if not codes:
        return NotUsable("has no cell with code, so there is nothing to run")
    return Notebook(
        tuple(CodeCell(number, source_of(cell), tags_of(cell)) for number, cell in enumerate(codes, start=1))
    )


def source_of(cell: Mapping[str, Any]) -> str:
    """Return the text of the cell, which files store as a text or as lines."""
    source = cell.get("source") or ""
    return source if isinstance(source, str) else "".join(map(str, source))


def tags_of(cell: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, Mapping) else None
    return tuple(map(str, tags)) if isinstance(tags, Sequence) and not isinstance(tags, str) else ()


def as_word(value: object) -> str:
    """Format a parameter for a command line: plain text if `value_of` reads it unchanged, else JSON."""
    return value if isinstance(value, str) and value_of(value) == value else json.dumps(value)


def value_of(word: str) -> object:
    """Parse a parameter of a command line: JSON, else plain text."""
    try:
        return json.loads(word)
    except ValueError:
        return word


def assignments(parameters: Mapping[str, object]) -> str:
    """Return the text of the cell that assigns the parameters."""
    return "\n".join(["# Parameters", *(f"{name} = {_literal(value)}" for name, value in parameters.items())])


def _literal(value: object) -> str:
    """Return Python for a JSON value. NaN and infinities have no literal."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_literal(item)}' for key, item in value.items())}}}"
    return repr(value) if not isinstance(value, float) or isfinite(value) else f'float("{value}")'


def _language(content: Mapping[str, Any]) -> str | None:
    """Return the programming language of the notebook, or None if the file does not name it."""
    metadata = content.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        held = known.get(section)
        if isinstance(held, Mapping) and isinstance(held.get(key), str):
            return str(held[key]).lower()
    return None


def _assigned_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
