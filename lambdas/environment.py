"""Read the settings of a function from its environment, at its first call. Each function declares its own class."""

import os
import types
import typing
from typing import Any, TypeVar, dataclass_transform

from trainyard.command_line import DEFAULT_YARD
from trainyard.core.model.errors import Misconfigured

Values = TypeVar("Values", bound="Settings")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Settings:
    """The settings of a function. The environment variable of a field has the field's name in capitals.

    Type checkers see a frozen dataclass. None is made, because each would cost time in a cold start."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Return the type of each field by its name."""
        return typing.get_type_hints(cls)


class YardSettings(Settings):
    """The settings of every function."""

    yard: str
    table_name: str
    bucket_name: str


class ImageSettings(YardSettings):
    """The parameters that name the current and the previous image of the yard."""

    image_parameter: str
    previous_image_parameter: str


class AdmitSettings(YardSettings):
    monthly_dollars: float = 0.0
    """The yard's budget; 0: none."""


class LimitSettings(AdmitSettings):
    """The yard's limits of one run and of hosts at once; 0: no limit."""

    aws_region: str
    most_dollars_per_run: float = 0.0
    most_hosts: int = 0


def name_of_yard() -> str:
    """Return the name of the yard that this function belongs to."""
    return os.environ.get("YARD", DEFAULT_YARD)


_READ: dict[type[Any], Any] = {}
"""A dict, because functools.cache hides from mypy which class `read` returns."""


def read(kind: type[Values]) -> Values:
    """Return the settings of this process. Misconfigured names each variable that is missing or malformed."""
    if kind not in _READ:
        _READ[kind] = _read(kind)
    found: Values = _READ[kind]
    return found


def _read(kind: type[Values]) -> Values:
    found: dict[str, Any] = {}
    faults = []
    for field, hint in kind.fields().items():
        name = field.upper()
        text = os.environ.get(name, "").strip()
        if not text:
            if not hasattr(kind, field):
                faults.append(f"{name} is not set")
            continue
        try:
            found[field] = _value(hint, text)
        except ValueError as error:
            faults.append(f"{name}={text!r}: {error}")
    if faults:
        raise Misconfigured(
            f"The function's environment is wrong ({'; '.join(faults)}). The stacks set it: deploy them again."
        )
    return kind(**found)


def _value(hint: Any, text: str) -> Any:
    if isinstance(hint, types.GenericAlias):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text == "True" if hint is bool else hint(text)
