"""JSONata in Step Functions: a string `{% ... %}` is an expression."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from jsonata.jsonata import Jsonata
from jsonata.utils import Utils

from localcloud.base import jsonata_functions
from localcloud.base import states_language as language
from simulation.aws.endpoint.api import ServiceError

Bindings = Mapping[str, Any]
Template = Callable[[Bindings], Any]
"""A compiled value of a definition. Given the variables and `states`, it returns the plain value."""

NOT_SIMULATED = re.compile(r"\$(now|millis|random|shuffle|uuid|eval|toMillis|replace)\b")
"""Functions that depend on the clock or on chance, or that differ from AWS in the library."""


def compile_value(value: Any, location: str) -> Template:
    """Compile a value of the field at `location`. Raises ServiceError for an invalid or unsupported expression."""
    if isinstance(value, str):
        return _expression(value, location) if is_expression(value) else _constant(value)
    if not _has_expression(value):
        return _constant(value)
    if isinstance(value, dict):
        fields = {key: compile_value(each, f"{location}/{key}") for key, each in value.items()}
        return lambda bindings: {key: template(bindings) for key, template in fields.items()}
    items = [compile_value(each, f"{location}[{number}]") for number, each in enumerate(value)]
    return lambda bindings: [template(bindings) for template in items]


def source_of(value: Any) -> str:
    """Return the text of an expression without its delimiters."""
    return value[2:-2].strip() if is_expression(value) else ""


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("{%") and value.endswith("%}")


def bound(variables: Mapping[str, Any], states: Mapping[str, Any]) -> Bindings:
    """Return the variables for expressions. JSON's null is not JSONata's undefined."""
    shown = {name: Utils.NULL_VALUE if value is None else value for name, value in variables.items()}
    return {**shown, "states": states}


def _constant(value: Any) -> Template:
    return lambda _: value


def _has_expression(value: Any) -> bool:
    match value:
        case dict():
            return any(_has_expression(each) for each in value.values())
        case list():
            return any(_has_expression(each) for each in value)
        case _:
            return is_expression(value)


@functools.cache
def _expression(text: str, location: str) -> Template:
    source = source_of(text)
    unknown = NOT_SIMULATED.search(source)
    if unknown:
        raise ServiceError("NotSimulated", f"the expression {source!r} uses {unknown[0]}")
    try:
        parsed = Jsonata(source)
    except Exception as error:  # the library raises any exception
        raise ServiceError(
            "InvalidDefinition", f"Invalid State Machine Definition: '{error} in {text}'"
        ) from error
    jsonata_functions.register(parsed)
    parsed.set_validate_input(False)
    parsed.set_output_convert_nulls(False)

    def evaluate(bindings: Bindings) -> Any:
        Jsonata.CURRENT.jsonata = parsed  # required by the library's higher-order functions
        try:
            value = parsed.evaluate(None, bindings)
        except Exception as error:  # the library raises any exception
            raise language.threw(source, location, getattr(error, "error", None), str(error)) from error
        if value is None:
            raise language.undefined_error(source, location)
        try:
            return _plain(value)
        except TypeError as error:
            raise language.unsupported_error(source, location) from error

    return evaluate


def _plain(value: Any) -> Any:
    """Return the value with JSON's types only. The library has its own list and null."""
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case Utils.NULL_VALUE:
            return None
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"a {type(value).__name__} is not JSON")
