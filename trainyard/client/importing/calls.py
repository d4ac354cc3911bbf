"""Calls in a Python file, as far as they are literal. The file is never run."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.client.errors import NotImportable
from trainyard.client.importing.foreign import Keys, literal

UNKNOWN = "?"
"""The prefix of an expression whose value is only known when the file runs."""


def parse(text: str, name: str) -> ast.Module:
    """Return the syntax tree of a Python file. Raise NotImportable for another file."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise NotImportable(
            f"{name} is not Python: {error.msg} (line {error.lineno})", "correct it"
        ) from error


def call_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that the file assigns an expression to, with the expression."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def value_of(node: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    """Return the value of an expression, the keywords of a call, or `?EXPRESSION` if only a run of the file has the
    value."""
    match node:
        case ast.Name(id=name) if name in constants:
            others = {other: each for other, each in constants.items() if other != name}
            value = value_of(constants[name], others)
            return UNKNOWN + name if isinstance(value, str) and value.startswith(UNKNOWN) else value
        case ast.Dict():
            keys = [value_of(key, constants) if key else UNKNOWN for key in node.keys]
            return {str(key): value_of(each, constants) for key, each in zip(keys, node.values, strict=True)}
        case ast.List() | ast.Tuple():
            return [value_of(each, constants) for each in node.elts]
        case ast.Call() if node.keywords and call_name(node)[:1].isupper():
            return {each.arg: value_of(each.value, constants) for each in node.keywords if each.arg}
        case ast.Call() if call_name(node) in ("TrainingInput", "s3_input") and node.args:
            return {"s3_data": value_of(node.args[0], constants)}
        case ast.JoinedStr():
            parts = [
                value_of(each.value, constants) if isinstance(each, ast.FormattedValue) else each
                for each in node.values
            ]
            plain = [str(each.value) if isinstance(each, ast.Constant) else str(each) for each in parts]
            if not any(each.startswith(UNKNOWN) for each in plain):
                return "".join(plain)
    try:
        return literal(node)
    except (ValueError, TypeError):
        return UNKNOWN + ast.unparse(node)


def lines_of(path: Keys, node: ast.expr) -> Iterator[tuple[Keys, int]]:
    """Yield the paths and lines of a value and of everything in it."""
    yield path, node.lineno
    match node:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant):
                    yield from lines_of((*path, str(key.value)), value)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for number, item in enumerate(items):
                yield from lines_of((*path, number), item)


def arguments_of(call: ast.Call, constants: Mapping[str, ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the keywords of a call, and the items of NAME for `**NAME` if the file assigns NAME a mapping."""
    for each in call.keywords:
        value = each.value
        if each.arg is None and isinstance(value, ast.Name):
            value = constants.get(value.id, value)
        if each.arg is not None:
            yield each.arg, value
        elif isinstance(value, ast.Dict):
            for key, item in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), item
        else:
            yield f"**{ast.unparse(each.value)}", each.value


def leaves_of(value: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves_of(each, (*path, key))
    else:
        yield path, value
