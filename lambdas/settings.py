"""What each function is told by its environment: a frozen class per handler, read at its first call, not at import."""

import os
import types
import typing
from functools import cache
from typing import Any, NamedTuple, TypeVar

from lambdas.core.model.errors import Misconfigured

Values = TypeVar("Values", bound=tuple[Any, ...])


class YardSettings(NamedTuple):
    """What every function knows. A field comes from the environment variable of its name in capitals.

    Named tuples, because a cold start pays for every class here and these are made ten times faster."""

    yard: str
    table_name: str
    bucket_name: str


class SubmitSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    train_state_machine_arn: str
    bake_state_machine_arn: str


class AdmitSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    monthly_dollars: float = 0.0
    """The yard's budget; 0: none."""


class PlanSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    image_parameter: str
    subnet_ids: tuple[str, ...]
    aws_region: str


class LaunchSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    launch_template_id: str
    launch_template_version: str


class TrainSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    start_document: str


class SignalSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    stop_document: str


class SnapshotRestSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    generalize_document: str
    pause_document: str


class SnapshotWakeSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    resume_document: str


class HostAdmitSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    subnet_ids: tuple[str, ...]
    monthly_dollars: float = 0.0
    """As Admit's."""


class ConcludeSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    topic_arn: str


class BakeAdmitSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    image_parameter: str
    previous_image_parameter: str
    base_image_parameter: str
    recipe_key: str
    software_hash: str
    monthly_dollars: float = 0.0
    """As Admit's."""


class BakeDocumentSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    install_document: str
    test_document: str
    generalize_document: str
    software_uri: str


class BakePublishSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    image_parameter: str
    previous_image_parameter: str


class BakeConcludeSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    image_parameter: str
    previous_image_parameter: str


class RetireSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    image_parameter: str
    previous_image_parameter: str
    keep_images: int
    keep_days: int
    state_machine_arns: tuple[str, ...]
    """Whose executions are runs."""


class PatrolSettings(NamedTuple):
    yard: str
    table_name: str
    bucket_name: str
    topic_arn: str
    snapshot_state_machine_arn: str
    state_machine_arns: tuple[str, ...]
    """All whose executions keep hosts, that of snapshots too."""
    policy: str
    """The yard's, as JSON."""
    monthly_dollars: float = 0.0
    """The yard's budget; 0: none."""


@cache
def read(kind: type[Values]) -> Values:
    """The settings of this process; Misconfigured names every variable that is missing or malformed."""
    hints = typing.get_type_hints(kind)
    found: dict[str, Any] = {}
    faults = []
    fields: tuple[str, ...] = getattr(kind, "_fields")  # noqa: B009 - a type variable knows only tuple
    defaults: dict[str, Any] = getattr(kind, "_field_defaults")  # noqa: B009
    for field in fields:
        name = field.upper()
        text = os.environ.get(name, "").strip()
        if not text:
            if field not in defaults:
                faults.append(f"{name} is not set")
            continue
        try:
            found[field] = _value(hints[field], text)
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
