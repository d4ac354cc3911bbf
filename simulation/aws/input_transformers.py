"""The input of a rule's target: the event, a constant, or the result of an InputTransformer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulation.aws.endpoint.api import ServiceError

Event = Mapping[str, Any]
VARIABLE = re.compile(r"<([^<>]+)>")


def make_input(
    constant: str | None, template: str | None, paths: Mapping[str, str]
) -> Callable[[Event], Any]:
    """Return a function from an event to the target's input. Raises ServiceError for an unsupported transformer."""
    if constant is not None:
        return lambda _: json.loads(constant)
    if template is None:
        return lambda event: event
    return _transformer(template, paths)


def _transformer(template: str, paths: Mapping[str, str]) -> Callable[[Event], Any]:
    """Compile an InputTransformer. A variable in quotes becomes part of the string; other variables become JSON."""
    parts = VARIABLE.split(template)
    steps = {name: _parse_path(path) for name, path in paths.items()}
    names = parts[1::2]
    unknown = sorted(set(names) - set(steps))
    if unknown:
        raise ServiceError("NotSimulated", f"an input template has the variables {unknown}")
    texts = parts[0::2]
    quoted = [
        "".join(texts[: number + 1]).replace('\\"', "").count('"') % 2 == 1 for number in range(len(names))
    ]

    def transform(event: Event) -> Any:
        pieces = [texts[0]]
        for name, in_quotes, text in zip(names, quoted, texts[1:], strict=True):
            pieces += [_format(_value_at(event, steps[name]), in_quotes=in_quotes), text]
        try:
            return json.loads("".join(pieces))
        except ValueError as error:
            raise ServiceError("INVALID_JSON", f"the input is not JSON: {error}") from error

    return transform


def _parse_path(path: str) -> list[str]:
    if not re.fullmatch(r"\$(\.[\w-]+)*", path):
        raise ServiceError("NotSimulated", f"an input path {path!r}")
    return path.split(".")[1:]


def _value_at(event: Any, steps: Sequence[str]) -> Any:
    """Return the value at the path; None if it is missing."""
    for step in steps:
        event = event.get(step) if isinstance(event, Mapping) else None
    return event


def _format(value: Any, *, in_quotes: bool) -> str:
    if value is None:
        return ""
    if not in_quotes:
        return json.dumps(value)
    return json.dumps(value if isinstance(value, str) else json.dumps(value))[1:-1]
