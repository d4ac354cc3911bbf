"""What makes a Lambda handler of a function with types: parse the event, call, answer in JSON."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lambdas.core.model import wire

Given = TypeVar("Given")


def entry_point(function: Callable[[Given], object]) -> Callable[[Mapping[str, Any], object], dict[str, Any]]:
    """The event is read as the class of the function's one argument. Raises Misconfigured where it does not fit."""
    (argument,) = inspect.signature(function).parameters.values()
    name = function.__module__.removeprefix("lambdas.handlers.")

    @functools.wraps(function)
    def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
        answer: dict[str, Any] = wire.to_json(function(wire.parse(argument.annotation, event, of=name)))
        return answer

    return handler
