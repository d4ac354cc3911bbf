"""Collect every text that a user can meet, by the place where the user meets it.

`make texts` (`python -m tests.unit.texts`) writes build/texts.md for review. Texts are read from the code: an f-string
shows its values as `<name>`, and a choice of two texts as `{one|other}`.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from html import unescape
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from trainyard.cli.app import app
from trainyard.cli.command import EVERYWHERE
from trainyard.client import errors
from trainyard.core.model.errors import WORDS
from trainyard.exit_codes import ExitCode
from trainyard.protocol.timeline import RANKS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "build" / "texts.md"
SECTIONS = {
    "Output of the command": ("trainyard/cli",),
    "Page": ("trainyard/ui",),
    "Notifications": ("lambdas/core/notifications",),
    "Verdicts of patrol": ("lambdas/core/patrol", "lambdas/steps/patrol", "lambdas/workflows/patrol"),
    "Reasons why a run waits, is refused, stops or ends": ("lambdas",),
    "Faults of job files and recipes": ("trainyard/core", "trainyard/values"),
    "Notes of an import": ("trainyard/client/importing",),
    "Checks, reports and progress of the client": ("trainyard/client", "trainyard"),
    "Messages of hosts and of programs": ("training/host", "trainyard/runtime", "trainyard/notebook"),
}
"""Headings, with the folders whose texts they show. The longest matching folder decides."""
LOGS = re.compile(r"(?i)^_?(log|logger|logging)\.|^warnings\.filter|^re\.|^_?xml|\.(debug|exception)$")
"""Calls whose texts only an operator reads, in a log."""
ERRORS = {
    each.__name__: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.YardError)
}
CODE = re.compile(r"[\\^]|\$\{\w|;\n|^import |\b(trap|exec) |^\[|\w \| \w|= :[a-z]|^attachment|-src ")
"""Strings that are patterns or programs."""
WORD = re.compile(r"[A-Za-z]{2,}")
MOST_CODE = 30
JINJA = re.compile(r"\{%.*?%\}|\{#.*?#\}|<svg.*?</svg>|<script.*?</script>", re.DOTALL)
ATTRIBUTE = re.compile(r'(?:aria-label|placeholder|title|data-confirm)="([^"{]+)"')


def page() -> str:
    """Return the whole catalog."""
    parts = [
        f"# Every text that a user can meet\n\n{(__doc__ or '').partition('review. ')[2].strip()}\n",
        _part("Help", help_lines()),
        _part("States and events", state_lines()),
        _part("Errors of the command", error_lines()),
    ]
    for heading in SECTIONS:
        parts.append(_part(heading, _folder_lines(heading)))
    return "\n".join(parts)


def _part(heading: str, lines: Any) -> str:
    return f"## {heading}\n\n" + "".join(f"- {' '.join(line.split())}\n" for line in lines)


# --- help


def help_lines() -> Iterator[str]:
    """Yield one line for each command; an option with the same help is explained once."""
    seen = {help_["help"] for _, _, help_ in EVERYWHERE.values()}
    yield " · ".join(f"{', '.join(names)}: {help_['help']}" for _, names, help_ in EVERYWHERE.values())
    yield from _help(typer.main.get_command(app), ("trainyard",), seen)


def _help(command: Any, words: tuple[str, ...], seen: set[str]) -> Iterator[str]:
    new = [each for each in command.params if not each.hidden and each.help and each.help not in seen]
    seen |= {each.help for each in new}
    options = " · ".join(f"{each.metavar or each.opts[0]}: {each.help}" for each in new)
    yield f"**{' '.join(words)}**: {command.help} {f'({options})' if options else ''}"
    for name, inner in getattr(command, "commands", {}).items():
        yield from _help(inner, (*words, name), seen)


# --- states


def state_lines() -> Iterator[str]:
    """Yield exit codes, the values of each enumeration, the events of a run, and the errors that it ends with."""
    yield f"Exit codes: {', '.join(f'{code.value} {code.name.lower()}' for code in ExitCode)}"
    enumerations = []
    for path in (each for each in python_files() if each.is_relative_to(ROOT / "trainyard")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and "StrEnum" in {ast.unparse(each) for each in node.bases}:
                values = [each.value for each in node.body if isinstance(each, ast.Assign)]
                enumerations.append(f"{node.name}: {', '.join(ast.literal_eval(each) for each in values)}")
    yield " · ".join(enumerations)
    yield f"Events of a run: {', '.join(RANKS)}"
    yield f"Errors of a run: {', '.join(WORDS)}"


# --- errors of the command


def error_lines() -> Iterator[str]:
    """Yield one line for each class of errors, with its exit code."""
    found = defaultdict(list)
    for path in python_files():
        for call in error_calls(tree_of(path)):
            found[_class(call)].append(error_text(call))
    for name in sorted(found):
        yield f"**{name}** (exits with {ERRORS[name].exit_code.value}): {' · '.join(dict.fromkeys(found[name]))}"


def error_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield each call that creates an error of trainyard.client.errors with its texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _class(node) in ERRORS:
            yield node


def _class(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def error_text(call: ast.Call) -> str:
    """Return an error as the terminal shows it."""
    parts = [shown(each) for each in (*call.args, *(each.value for each in call.keywords))]
    if len(parts) != 3:
        return ": ".join(parts)
    return f"{parts[0]}: {parts[1]}. Next: {parts[2]}"


# --- texts of modules


def _folder_lines(heading: str) -> Iterator[str]:
    for folder, paths in groupby(
        (path for path in files() if section_of(path) == heading), lambda path: path.parent
    ):
        if found := list(dict.fromkeys(text for path in paths for text in texts(path))):
            yield f"**{_name(folder)}**: {' · '.join(found)}"


def section_of(path: Path) -> str:
    """Return the heading under which the texts of a file stand."""
    name = str(path.relative_to(ROOT))
    folders = {folder: heading for heading, all_ in SECTIONS.items() for folder in all_}
    return folders[max((each for each in folders if name.startswith((f"{each}/", f"{each}."))), key=len)]


def files() -> list[Path]:
    """Return the files that hold texts for users."""
    below = {
        folder for all_ in SECTIONS.values() for folder in all_ if not folder.startswith("lambdas/workflows/")
    }
    found = {
        path for folder in below for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".html"}
    }
    return sorted(found)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def python_files() -> Iterator[Path]:
    return (path for path in files() if path.suffix == ".py")


def texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file, without docstrings, logs, and what other parts of the catalog show."""
    if path.suffix == ".html":
        yield from _labels(path.read_text())
        return
    tree = tree_of(path)
    skipped = {id(each) for call in error_calls(tree) for each in (*call.args, *call.keywords)}
    yield from (text for node in _outermost(tree, skipped) if is_text(text := shown(node)))


def _labels(template: str) -> Iterator[str]:
    plain = re.sub(r"\{\{.*?\}\}", "…", JINJA.sub("\n", template))
    yield from ATTRIBUTE.findall(plain)
    for piece in re.sub(r"<[^>]*>", "\n", plain).splitlines():
        text = unescape(" ".join(piece.split()))
        if WORD.search(text):
            yield text


def _outermost(node: ast.AST, skipped: set[int]) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if id(child) in skipped or _is_other(child):
            continue
        if isinstance(child, ast.expr) and _is_string(child):
            yield child
        else:
            yield from _outermost(child, skipped)


def _is_other(node: ast.AST) -> bool:
    """Return True for docstrings, logs, annotations and help."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "help"
    if isinstance(node, ast.Call):
        return bool(LOGS.search(ast.unparse(node.func))) or ast.unparse(node.func) == "command"
    return False


def _is_string(node: ast.expr) -> bool:
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.IfExp():
            return _is_string(node.body) and _is_string(node.orelse)
        case ast.BinOp(op=ast.Add()):
            return _is_string(node.left) or _is_string(node.right)
    return False


def is_text(text: str) -> bool:
    """Return True for words that a user reads, False for keys, patterns and code."""
    plain = re.sub(r"<[^<>]*>", " ", text)
    return " " in text.strip() and len(WORD.findall(plain)) > 1 and not CODE.search(plain)


def shown(node: ast.expr) -> str:
    """Return a text with the values of its f-strings as `<name>`."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(shown(each) for each in node.values)
        case ast.FormattedValue():
            return shown(node.value)
        case ast.IfExp() if _is_string(node.body) or _is_string(node.orelse):
            return f"{{{shown(node.body)}|{shown(node.orelse)}}}"
        case ast.BinOp(op=ast.Add()) if _is_string(node):
            return shown(node.left) + shown(node.right)
        case ast.Call(func=ast.Name(id="command_line")):
            return f"`trainyard {' '.join(shown(each) for each in node.args)}`"
        case ast.Attribute(attr=name):
            return f"<{name}>"
        case ast.Call(func=ast.Attribute(attr="join")) if node.args:
            return f"{shown(node.args[0])[:-1]}, ...>"
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return f"<{name}>"
    has_text = any(isinstance(each, ast.Constant) and " " in str(each.value) for each in ast.walk(node))
    code = ast.unparse(node)
    return f"<{code if has_text else code[:MOST_CODE]}>"


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT).with_suffix("")).removeprefix("trainyard/").removeprefix("lambdas/")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    print(f"{PAGE.relative_to(ROOT)}: {len(PAGE.read_text().splitlines())} lines")
