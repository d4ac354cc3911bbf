"""Read a cell as IPython does: Python, mixed with IPython's own lines. Pure, and without IPython.

Python's compiler decides. If it fails at one of IPython's own lines (a magic, a shell command, a question), that line
is replaced by Python that assigns the same names, and the compiler runs again. So no cell that Jupyter runs is
refused, and Python's syntax errors are found in cells with magics, too.
"""

import ast
import builtins
import keyword
import re
import textwrap
import warnings
from collections.abc import Sequence

AS_IN_A_CELL = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CELL_MAGIC = "%%"
PROMPTS = re.compile(r"^(?:>>>|\.\.\.|In \[\d+\]:|\.\.\.+:)(?: |$)", re.MULTILINE)
"""Prompts of Python and IPython, which IPython removes from pasted text."""
LINE_END = re.compile(r"\r\n?|\n")
"""Line ends of Python's compiler. `str.splitlines` also splits at U+2028, which strings may contain."""
COMMAND = re.compile(r"^(?P<indent>\s*)(?:%%?[\w.]|!|\?|[,;/]\s*\w)")
"""Magics, shell commands, questions, and calls whose arguments are quoted by IPython."""
ASSIGNMENT = re.compile(r"^(?P<targets>\s*[^\s=!%#?][^=!%#?]*?)=\s*(?:%\w|!)")
QUESTION = re.compile(r"^(?P<indent>\s*)%{0,2}[\w*.\[\]'\"]+\?\??\s*(?:#.*)?$")
AUTOMAGIC = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\s+[^\s=(].*)?")
"""A cell of one line whose first word IPython may read as a magic: `pip install einops`, `cd data`, `ls`."""
NO_MAGICS = frozenset({*keyword.kwlist, *dir(builtins)})


def python_of(source: str) -> ast.Module | SyntaxError | None:
    """Return the cell's Python, without IPython's own lines, or why it cannot be compiled.

    Return None for a cell magic (`%%bash`), and for a cell that may be a magic (`mkdir out`).
    """
    text = _without_prompts(textwrap.dedent(source))
    if text.lstrip().startswith(CELL_MAGIC):
        return None
    lines = LINE_END.split(text)
    for _ in range(len(lines) + 1):
        found = _compile("\n".join(lines))
        if not isinstance(found, SyntaxError):
            return found
        replaced = _replace_line(lines, found)
        if replaced is None:
            return None if _may_be_a_magic(text) else found
        lines = replaced
    return found


def _without_prompts(text: str) -> str:
    return PROMPTS.sub("", text) if PROMPTS.match(text.lstrip("\n")) else text


def _compile(text: str) -> ast.Module | SyntaxError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree: ast.Module = compile(text, "cell", "exec", AS_IN_A_CELL)
            return tree
    except SyntaxError as error:
        return error
    except ValueError as error:
        return SyntaxError(str(error))


def _replace_line(lines: Sequence[str], error: SyntaxError) -> list[str] | None:
    """Return the lines with Python instead of the IPython line of the error; None for an error of Python."""
    at = (error.lineno or 0) - 1
    while at > 0 and lines[at - 1].endswith("\\"):  # a command that continues in the next line
        at -= 1
    python = _python_for(lines[at]) if 0 <= at < len(lines) else None
    if python is None:
        return None
    end = at
    while end < len(lines) - 1 and lines[end].endswith("\\"):
        end += 1
    return [*lines[:at], python, *[""] * (end - at), *lines[end + 1 :]]


def _python_for(line: str) -> str | None:
    if found := ASSIGNMENT.match(line):
        return f"{found['targets']}= None"
    found = COMMAND.match(line) or QUESTION.match(line)
    return f"{found['indent']}pass" if found else None


def _may_be_a_magic(text: str) -> bool:
    found = AUTOMAGIC.fullmatch(text.strip())
    return found is not None and found["name"] not in NO_MAGICS
