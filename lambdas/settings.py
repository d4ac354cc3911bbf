"""What each function is told by its environment: a frozen class per handler, read at its first call, not at import."""

import os
import types
import typing
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar

from lambdas.core.errors import Misconfigured

Values = TypeVar("Values", bound="YardSettings")


@dataclass(frozen=True, slots=True, kw_only=True)
class YardSettings:
    """What every function knows. A field NAME comes from the environment variable of that name in capitals."""

    yard: str
    table_name: str
    bucket_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitSettings(YardSettings):
    state_machine_arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings(YardSettings):
    image_parameter: str
    subnet_ids: tuple[str, ...]
    aws_region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings(YardSettings):
    launch_template_id: str
    launch_template_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings(YardSettings):
    start_document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSettings(YardSettings):
    stop_document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings(YardSettings):
    seal_document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeSettings(YardSettings):
    topic_arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeLaunchSettings(YardSettings):
    base_image_parameter: str
    launch_template_id: str
    recipe: str
    subnet_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeInstallSettings(YardSettings):
    install_document: str
    software_uri: str
    recipe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeCaptureSettings(YardSettings):
    recipe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BakePublishSettings(YardSettings):
    image_parameter: str
    keep_images: int


@cache
def read(kind: type[Values]) -> Values:
    """The settings of this process; Misconfigured names every variable that is missing or malformed."""
    hints = typing.get_type_hints(kind)
    found: dict[str, Any] = {}
    faults = []
    for field in fields(kind):
        name = field.name.upper()
        text = os.environ.get(name, "").strip()
        if not text:
            if isinstance(field.default, tuple):
                continue
            faults.append(f"{name} is not set")
            continue
        try:
            found[field.name] = _value(hints[field.name], text)
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
    return hint(text)
