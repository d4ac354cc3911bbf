"""What each function is told by its environment: a class per handler, read at its first call, not at import."""

import os
import types
import typing
from typing import Any, TypeVar, dataclass_transform

from trainyard.command_line import DEFAULT_YARD
from trainyard.core.model.errors import Misconfigured

Values = TypeVar("Values", bound="Settings")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Settings:
    """To type checkers a frozen dataclass, and so is each class below it: a cold start pays for every dataclass that is
    made, so none is. A field comes from the environment variable of its name in capitals."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """The type of every field, by its name."""
        return typing.get_type_hints(cls)


class YardSettings(Settings):
    """What every function knows."""

    yard: str
    table_name: str
    bucket_name: str


class ImageSettings(YardSettings):
    """Where the yard's current and its previous image are named."""

    image_parameter: str
    previous_image_parameter: str


class SubmitSettings(YardSettings):
    train_state_machine_arn: str
    bake_state_machine_arn: str


class PrepareSettings(YardSettings):
    bake_state_machine_arn: str
    recipe_key: str


class AdmitSettings(YardSettings):
    monthly_dollars: float = 0.0
    """The yard's budget; 0: none."""


class LimitSettings(AdmitSettings):
    """The yard's limits of one run and of hosts at once; 0: none. `aws_region`: for its prices."""

    aws_region: str
    most_dollars_per_run: float = 0.0
    most_hosts: int = 0


class TrainAdmitSettings(LimitSettings):
    """The yard's limits of runs; 0: none, but for `most_pool_hosts`, of which there are none then. `when_full`: `wait`
    or `refuse`."""

    most_runs: int = 0
    most_pool_hosts: int = 0
    when_full: str = "wait"
    data_buckets: tuple[str, ...] = ()
    """Other buckets that runs may read, as the setting of the yard names them."""


class ReleaseSettings(YardSettings):
    most_pool_hosts: int = 0
    """How many hosts of runs may wait for others at once; 0: none."""


class PlanSettings(YardSettings):
    image_parameter: str
    subnet_ids: tuple[str, ...]
    aws_region: str
    volume_initialization_rate: int
    """MiB/s, the most that is asked for a disk."""


class LaunchSettings(YardSettings):
    launch_templates: tuple[str, ...]
    """One for each rate that a disk may be fetched at, in MiB/s, 0 for none: `300=lt-0123:1`."""
    kms_key: str = ""
    """The ARN of the key that disks are encrypted with, as the templates have it; none: the account's own."""


class TrainSettings(YardSettings):
    start_document: str


class SignalSettings(YardSettings):
    stop_document: str
    host_role_id: str
    run_role: str
    """The ARN of the role that credentials of a run are of."""
    dev_role: str
    """The same of a dev host."""
    launch_state_machine_arn: str
    snapshot_state_machine_arn: str


class QuiesceSettings(YardSettings):
    generalize_document: str
    pause_document: str


class ResumeSettings(YardSettings):
    resume_document: str


class LaunchAdmitSettings(LimitSettings):
    subnet_ids: tuple[str, ...]
    most_hold_hours: float = 0.0
    """How long a host that a user asks for may run or be held; 0: as long as a launch may ask for."""


class ConcludeSettings(YardSettings):
    topic_arn: str


class BakeAdmitSettings(AdmitSettings, ImageSettings):
    aws_region: str
    base_image_parameter: str
    recipe_key: str
    software_hash: str


class BakeDocumentSettings(YardSettings):
    install_document: str
    test_document: str
    generalize_document: str
    software_uri: str


class RetireSettings(ImageSettings):
    aws_region: str
    keep_images: int
    keep_days: int
    state_machine_arns: tuple[str, ...]
    """Whose executions are runs."""


class PatrolSettings(AdmitSettings):
    aws_region: str
    topic_arn: str
    snapshot_state_machine_arn: str
    state_machine_arns: tuple[str, ...]
    """All whose executions keep hosts, that of snapshots too."""
    policy: str
    """The yard's, as JSON."""
    most_hosts: int = 0
    most_hold_hours: float = 0.0
    """The yard's limits, which hosts that are started again are held to; 0: none."""


def name_of_yard() -> str:
    """Return the name of the yard that this function belongs to."""
    return os.environ.get("YARD", DEFAULT_YARD)


_READ: dict[type[Any], Any] = {}
"""By hand and not by functools.cache, which hides from mypy which class `read` answers with."""


def read(kind: type[Values]) -> Values:
    """The settings of this process; Misconfigured names every variable that is missing or malformed."""
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
    return hint(text)
