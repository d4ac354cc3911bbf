"""What makes a Lambda handler of a function with types: parse the event, call, answer in JSON."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from lambdas.core.model.errors import Misconfigured
from lambdas.core.values import wire

Given = TypeVar("Given")


def entry_point(function: Callable[[Given], object]) -> Callable[[Mapping[str, Any], object], dict[str, Any]]:
    """The event is read as the class of the function's one argument. Raises Misconfigured where it does not fit."""
    (argument,) = inspect.signature(function).parameters.values()
    name = function.__module__.removeprefix("lambdas.handlers.")

    @functools.wraps(function)
    def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
        answer: dict[str, Any] = wire.to_json(function(parse(argument.annotation, event, of=name)))
        return answer

    return handler


def parse(noun: type[Given], data: object, *, of: str) -> Given:
    """What another part hands over. Raises Misconfigured where it does not fit: it names `of`, to whom it was given,
    each key that is wrong, what was found there and what is expected."""
    if wrong := wire.faults(noun, data):
        raise Misconfigured(
            f"{of} was given what it does not take ({'; '.join(wrong)}). Whoever calls it is of another version, or "
            "called it by hand: deploy the stacks again."
        )
    return wire.from_json(noun, cast(Mapping[str, Any], data))
