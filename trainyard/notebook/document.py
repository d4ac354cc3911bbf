"""A notebook as it lies in its file (nbformat 4, JSON): its cells, its faults, its parameters. Pure.

Parameters are papermill's: a cell tagged `parameters` says what there is and its defaults; a cell with other values is
put behind it, tagged `injected-parameters`.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = 4
PARAMETERS, INJECTED = "parameters", "injected-parameters"
AS_IN_A_CELL = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
OF_IPYTHON = ("%", "!", "?")
"""How lines begin that are IPython's and not Python's."""


@dataclass(frozen=True)
class CodeCell:
    """`number` counts cells with code from 1, as a kernel that has just started counts them: `[3]` before the cell."""

    number: int
    source: str
    tags: tuple[str, ...] = ()

    @property
    def tree(self) -> ast.Module | SyntaxError | None:
        """What it says, or why Python cannot read it; None where lines of it are IPython's own (`%`, `!`, `?`)."""
        lines = [line.strip() for line in self.source.splitlines()]
        if any(line.startswith(OF_IPYTHON) or line.endswith("?") for line in lines):
            return None
        try:
            tree: ast.Module = compile(self.source, "cell", "exec", AS_IN_A_CELL)
            return tree
        except SyntaxError as error:
            return error
        except ValueError as error:
            return SyntaxError(str(error))


@dataclass(frozen=True)
class Notebook:
    """Its cells with code, in their order; empty ones count for nothing."""

    cells: tuple[CodeCell, ...]

    @property
    def parameters(self) -> tuple[str, ...] | None:
        """The names that its cell tagged `parameters` assigns; None where no cell is tagged so."""
        tagged = [cell for cell in self.cells if PARAMETERS in cell.tags]
        if not tagged:
            return None
        tree = tagged[0].tree
        return tuple(_assigned(tree)) if isinstance(tree, ast.Module) else ()

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
    return "\n".join(["# Parameters", *(f"{name} = {value!r}" for name, value in parameters.items())])


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


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
