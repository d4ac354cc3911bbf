"""A notebook as a job. The program is the notebook or the folder that it needs; its parameters are `program.args`.

The equivalent job file:

    name: train
    program:
      source: ./train.ipynb
      command: [python, -m, trainyard.notebook, train.ipynb]
      args: {lr: "0.1"}
"""

import keyword
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.core.jobfile.program_code import Broken, needed_python
from trainyard.core.model.job_fields import is_here
from trainyard.notebook import document
from trainyard.notebook.document import CodeCell, Notebook, NotUsable
from trainyard.values.validation import Fault, InputFaults, did_you_mean

ENDING = ".ipynb"
RUNNER = ("python", "-m", "trainyard.notebook")
SOURCE = "program.source"
INSTALL = re.compile(
    r"^\s*[%!]{0,2}\s*(?:\S*python\S*\s+-m\s+)?(?:pip3?|uv\s+pip|conda|mamba)\s+install\s", re.MULTILINE
)
ARGS = ("args.", "program.args.")


@dataclass(frozen=True)
class NotebookJob:
    """The job of a notebook, and warnings about its probable failures."""

    document: dict[str, Any]
    warnings: tuple[str, ...]


def job_of(file: Path, content: bytes, changes: Mapping[str, Any]) -> NotebookJob | InputFaults:
    """Return the job of a notebook. `changes` are the user's options: `program.source`, a folder relative to the
    notebook's, uploads that folder, and `program.args` are the parameters."""
    read = document.read(content)
    if isinstance(read, NotUsable):
        return InputFaults(file.name, (Fault("", read.problem),))
    source = changes.get(SOURCE) or f"./{file.name}"
    inside = _inside(file, str(source))
    faults = list(_faults(read, _parameters(changes)))
    if inside is None:
        faults.append(Fault(SOURCE, f"{source} is not a folder above {file.name}"))
    if faults:
        return InputFaults(file.name, tuple(faults))
    program: dict[str, Any] = {"source": source, "command": [*RUNNER, inside], "args": {}}
    warnings = [
        *_newer(read),
        *_installs(read),
        *(_warn_missing_modules(file, read) if SOURCE not in changes else ()),
    ]
    return NotebookJob({"name": _name_of(file), "program": program}, tuple(warnings))


def as_changes(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as changes of the job. Hosts read each value unchanged."""
    return {f"program.args.{name}": document.as_word(value) for name, value in parameters.items()}


def source_of(file: Path, folder: Path) -> str:
    """Return `program.source` for the folder, relative to the notebook's folder."""
    way = os.path.relpath(folder.resolve(), file.resolve().parent)
    return way if way.startswith("..") else f"./{way}"


def _faults(notebook: Notebook, parameters: Mapping[str, object]) -> Iterator[Fault]:
    """Yield why the notebook cannot run with these parameters."""
    for cell in notebook.cells:
        if isinstance(error := cell.tree, SyntaxError) and not _needs(cell, error):
            line = f" line {error.lineno}" if error.lineno else ""
            yield Fault(f"cell [{cell.number}]{line}", f"cannot be compiled: {error.msg}")
    if sum(document.PARAMETERS in cell.tags for cell in notebook.cells) > 1:
        yield Fault(document.PARAMETERS, "two cells have this tag; one is allowed")
    known = notebook.parameters
    for name in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            yield Fault(f"-p {name}", "is not a name that Python can assign to")
        elif known is not None and name not in known:
            named = ", ".join(known) or "none"
            hint = did_you_mean(name, known)
            yield Fault(
                f"-p {name}",
                f"the cell tagged `{document.PARAMETERS}` has no such name{hint}; it has {named}",
            )


def _inside(file: Path, source: str) -> str | None:
    """Return the notebook's path in its source, or None if the source does not contain it."""
    if source == f"./{file.name}":
        return file.name
    folder = (file.parent / source).resolve()
    if not is_here(source) or not folder.is_dir() or not file.resolve().is_relative_to(folder):
        return None
    return file.resolve().relative_to(folder).as_posix()


def _parameters(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key.removeprefix(begin): value
        for key, value in changes.items()
        for begin in ARGS
        if key.startswith(begin)
    }


def _name_of(file: Path) -> str:
    """Return a job name made from the file name."""
    name = re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")
    return (name if name[:1].isalpha() else f"notebook-{name}")[:40].rstrip("-")


def _needs(cell: CodeCell, error: SyntaxError) -> tuple[int, int] | None:
    """Return the Python, newer than the running one, that may compile the cell."""
    return needed_python(cell.source.encode(), error.lineno)


def _newer(notebook: Notebook) -> Iterator[str]:
    """Yield a warning for each cell that only a Python newer than the running one can compile. Hosts have their own
    Python."""
    for cell in notebook.cells:
        if isinstance(error := cell.tree, SyntaxError) and (needs := _needs(cell, error)):
            yield str(Broken(f"cell [{cell.number}]", error.lineno, error.msg, needs))


def _installs(notebook: Notebook) -> Iterator[str]:
    """Yield a warning for each cell that installs packages, because hosts reach no package index."""
    for cell in notebook.cells:
        if INSTALL.search(cell.source):
            yield (
                f"cell [{cell.number}] installs packages, which fails on hosts: they do not reach the internet; "
                "name the packages in the file of program.requirements"
            )


def _warn_missing_modules(file: Path, notebook: Notebook) -> Iterator[str]:
    """Yield a warning for each imported module beside the notebook that would not be uploaded."""
    for name in notebook.imports:
        module = file.parent / name
        if module.with_suffix(".py").is_file() or (module / "__init__.py").is_file():
            yield (
                f"{file.name} imports {name}, which lies beside it and does not go along; --source {file.parent} takes "
                "its folder along"
            )
