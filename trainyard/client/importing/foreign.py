"""A file of another launcher: its values, the line of each value, and a record of the values that an importer
has read."""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from typing import Any

import yaml

from trainyard.client.errors import NotImportable
from trainyard.values.quantities import format_count

MOST_BYTES = 1 << 20
MOST_VALUES = 100_000
TEMPLATE = re.compile(r"\{%.*?%\}|(?<!\$)\{\{.*?\}\}", re.DOTALL)
"""Templates of Jinja and Go, but not dstack's `${{ secrets.NAME }}`."""

Keys = tuple[str | int, ...]
BLOCK = ""
"""The last part of a path in `Foreign.lines` that names the first line below `KEY: |`."""


@dataclass(frozen=True, slots=True)
class Note:
    """One item of the foreign file that the job file lacks, or has in another form. `line` counts from 1."""

    line: int | None
    item: str
    reason: str

    def __str__(self) -> str:
        where = f"line {self.line}, " if self.line else ""
        return f"{where}{self.item}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a value: its types, and their name for users."""

    types: tuple[type, ...]
    expected: str
    instead: Any = None
    """The value that stands for a misshapen item of a list."""

    def fitting(self, value: Any) -> Any:
        """Return the value, a number for a text of digits, a text for a number, or `instead`."""
        if isinstance(value, self.types) and not (isinstance(value, bool) and bool not in self.types):
            return str(value) if self is TEXT else value
        if self is NUMBER and isinstance(value, str) and re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
            return int(value) if value.strip().isdigit() else float(value)
        return self.instead


MAPPING, LIST = Shape((dict,), "a mapping"), Shape((list,), "a list")
NUMBER, TEXT = Shape((int, float), "a number"), Shape((str, int, float), "a text")
ITEM = Shape((dict,), "a mapping", {})


@dataclass
class Foreign:
    """The values of a file, as nested mappings and lists. `lines` has the line of each value, counted from 1.

    An importer reads a value with `take`. `unread` then lists every value that no importer has read, so that nothing
    is lost silently.
    """

    values: Any
    lines: Mapping[Keys, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    _taken: set[Keys] = field(default_factory=set)

    def take(self, *path: str | int, default: Any = None) -> Any:
        """Return the value at `path`, or `default` if the file lacks it. Mark the value and everything below it as
        read."""
        found = self.look(*path)
        if found is None:
            return default
        self._taken.add(path)
        return found

    def look(self, *path: str | int) -> Any:
        """Return the value at `path` without marking it as read; None if the file lacks it."""
        found = self.values
        for part in path:
            match found:
                case dict():
                    found = found.get(part)
                case list() if isinstance(part, int) and part < len(found):
                    found = found[part]
                case _:
                    return None
        return found

    def first(self, *names: str) -> Keys | None:
        """Return the path of the first of these keys that the file has, or None."""
        return next(((name,) for name in names if self.look(name) is not None), None)

    def leave_misshapen(self, shapes: Mapping[str, "Shape"]) -> None:
        """Report and remove each value of another shape. `*` in a path is every key, or every item."""
        for pattern, shape in shapes.items():
            for holder, path in [*self._held(pattern.split("."))]:
                value = holder[path[-1]]
                fits = shape.fitting(value)
                if fits is shape.instead and value is not None:
                    self.note(
                        *path, reason=f"expected {shape.expected}, and found {str(value)[:40]!r}; left out"
                    )
                holder[path[-1]] = fits

    def _held(self, pattern: Sequence[str], path: Keys = ()) -> Iterator[tuple[Any, Keys]]:
        """Yield each value at the pattern: the mapping or list that holds it, and its path."""
        first, *rest = pattern
        holder = self.look(*path) if path else self.values
        keys: Iterable[str | int] = ()
        if isinstance(holder, dict):
            keys = holder if first == "*" else {first} & holder.keys()
        elif isinstance(holder, list) and first == "*":
            keys = range(len(holder))
        for each in [*keys]:
            if rest:
                yield from self._held(rest, (*path, each))
            else:
                yield holder, (*path, each)

    def mapping(self, *path: str | int) -> Mapping[str, Any]:
        """Return the mapping at `path` without marking it as read. Return an empty mapping if the file has none
        there."""
        found = self.look(*path)
        return found if isinstance(found, dict) else {}

    def leave(self, *path: str | int, reason: str) -> None:
        """Report the value at `path`, if it exists, as an item without a counterpart."""
        if self.look(*path) is not None:
            self._taken.add(path)
            self.note(*path, reason=reason)

    def note(self, *path: str | int, reason: str) -> None:
        """Report a note about the value at `path`, with its line."""
        self.notes.append(Note(self.line(path), show_path(path), reason))

    def line(self, path: Keys) -> int | None:
        """Return the line of a value, or the line of the innermost value around it that has one."""
        outer = (path[:end] for end in range(len(path), 0, -1))
        return next((self.lines[each] for each in outer if each in self.lines), None)

    def text_lines(self, path: Keys) -> Iterator[int | None]:
        """Yield the line number of each line of a text. A text that is not a block (`KEY: |`) has one line."""
        return count(self.lines[*path, BLOCK]) if (*path, BLOCK) in self.lines else repeat(self.line(path))

    def unread(self) -> Iterator[Keys]:
        """Yield the paths of the outermost values that no importer has read."""
        yield from self._unread((), self.values)

    def _unread(self, path: Keys, value: Any) -> Iterator[Keys]:
        if path in self._taken:
            return
        below = any(taken[: len(path)] == path for taken in self._taken)
        if not below:
            if path and value not in (None, {}, []):
                yield path
            return
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for part, each in items:
            yield from self._unread((*path, part), each)


def show_path(path: Keys) -> str:
    """Return a path in the form that users write: resources.any_of[0].use_spot."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


def content_of(path: Path) -> str:
    """Return the text of the file. Raise OSError, or NotImportable for a file that is binary, too large or a
    template."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise NotImportable(
            f"{path} has more than {MOST_BYTES} bytes, the most of a job's file", "name the job's file"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotImportable(
            f"{path} is not UTF-8 text (byte {error.start + 1})", "name the job's file"
        ) from error
    if path.suffix not in (".py", ".ipynb") and (found := TEMPLATE.search(text)):
        line = text.count("\n", 0, found.start()) + 1
        raise NotImportable(
            f"{path} is a template: line {line} holds {found[0][:40]!r}",
            "render it first, and import the result",
        )
    return text


def read_yaml(text: str, name: str) -> Foreign:
    """Read YAML or JSON in the version of YAML that other launchers use (1.1). Raise NotImportable with the line of a
    fault."""
    try:
        nodes, contents = yaml.compose_all(text, Loader=yaml.SafeLoader), yaml.safe_load_all(text)
        found = [(node, value) for node, value in zip(nodes, contents, strict=True) if value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1})" if mark else ""
        problem = error.problem or error.context or ""
        if tag := re.search(r"constructor for the tag '(.+)'", problem):
            raise NotImportable(
                f"{name} has the tag {tag[1]}, which only the other launcher can read{where}",
                "write the value in its place",
            ) from error
        raise NotImportable(f"{name} is not YAML: {problem}{where}", "correct it") from error
    except RecursionError as error:
        raise NotImportable(f"{name} is nested too deeply", "name the job's file") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotImportable(f"{name} is not YAML: {error}", "correct it") from error
    if not found:
        raise NotImportable(f"{name} is empty", "name the job's file")
    for node, _ in found:
        if _size(node, {}) > MOST_VALUES:
            raise NotImportable(
                f"{name} has more than {MOST_VALUES} values, after its aliases are replaced",
                "name the job's file",
            )
    header = found[0][1] if len(found) == 2 else None
    if isinstance(header, dict) and header.keys() == {"name"}:  # the name of a pipeline with one task
        (_, (node, value)) = found
        value = {**header, **value} if isinstance(value, dict) else value
    elif len(found) == 1:
        node, value = found[0]
    else:
        where = ", ".join(str(node.start_mark.line + 1) for node, _ in found)
        raise NotImportable(
            f"{name} has {format_count(len(found), 'document')} (lines {where}), and a job file describes one job",
            "write each document into its own file, and import each",
        )
    return Foreign(_plain(value), dict(_lines((), node)), [*_repeated((), node)])


def read_json(text: str, name: str) -> Foreign:
    """Read JSON. Raise NotImportable with the line of a fault."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotImportable(f"{name} is not JSON: {error.msg} (line {error.lineno})", "correct it") from error
    try:
        node = yaml.compose(text.replace("\t", " "), Loader=yaml.SafeLoader)
    except yaml.YAMLError:  # JSON that YAML 1.1 cannot read: keep the values without their lines
        return Foreign(values)
    return Foreign(values, dict(_lines((), node)), [*_repeated((), node)]) if node else Foreign(values)


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """Return the number of values of a node after its aliases are replaced. A node that contains itself is infinite."""
    if id(node) not in known:
        known[id(node)] = float("inf")
        match node:
            case yaml.MappingNode():
                known[id(node)] = 1 + sum(_size(value, known) for _, value in node.value)
            case yaml.SequenceNode():
                known[id(node)] = 1 + sum(_size(value, known) for value in node.value)
            case _:
                known[id(node)] = 1
    return known[id(node)]


def _repeated(path: Keys, node: yaml.Node) -> Iterator[Note]:
    """Yield a note for each value that a later value of the same key replaces."""
    match node:
        case yaml.MappingNode():
            last = {key.value: key for key, _ in node.value}
            for key, value in node.value:
                if key is not last[key.value] and key.value != "<<":
                    reason = f"line {last[key.value].start_mark.line + 1} has the same key, and replaces it"
                    yield Note(key.start_mark.line + 1, show_path((*path, key.value)), reason)
                yield from _repeated((*path, key.value), value)
        case yaml.SequenceNode():
            for number, value in enumerate(node.value):
                yield from _repeated((*path, number), value)


def _plain(value: Any) -> Any:
    """Return dates and other special values of YAML as text, and keys as text."""
    match value:
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case str() | bool() | int() | float() | None:
            return value
    return str(value)


def _lines(path: Keys, node: yaml.Node) -> Iterator[tuple[Keys, int]]:
    match node:
        case yaml.ScalarNode(style="|"):
            yield (*path, BLOCK), node.start_mark.line + 2
        case yaml.MappingNode():
            for key, value in node.value:
                yield (*path, key.value), key.start_mark.line + 1
                yield from _lines((*path, key.value), value)
        case yaml.SequenceNode():
            for number, value in enumerate(node.value):
                yield (*path, number), value.start_mark.line + 1
                yield from _lines((*path, number), value)


def literal(node: ast.expr) -> Any:
    """Return the value of a Python expression of literals, including arithmetic of numbers. Raise ValueError."""
    match node:
        case ast.BinOp(op=ast.Mult()):
            left, right = literal(node.left), literal(node.right)
            if isinstance(left, int | float) and isinstance(right, int | float):
                return left * right
        case ast.Dict():
            if None in node.keys:
                raise ValueError(ast.unparse(node))
            pairs = zip(node.keys, node.values, strict=True)
            return {literal(key): literal(value) for key, value in pairs if key is not None}
        case ast.List() | ast.Tuple():
            return [literal(each) for each in node.elts]
        case _:
            return ast.literal_eval(node)
    raise ValueError(ast.unparse(node))
