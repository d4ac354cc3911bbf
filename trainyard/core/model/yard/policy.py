"""Policy: when patrol calls a host idle, and what it does then. Of the yard, of a job, of one host.

The same words everywhere: the yard's context `policy` and a job's section `policy` hold some of its keys, a host's tags
are `Tag.POLICY<key>`. What a host says goes before what its job says, and that before the yard.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from trainyard.protocol.tags import Tag
from trainyard.values.fields import Choice, Number, key
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Part
from trainyard.values.validation import InputFaults

CPU_WINDOW = 15


class IdleSpot(StrEnum):
    """What becomes of an idle spot host, which EC2 cannot stop."""

    ARCHIVE = "archive"
    TERMINATE = "terminate"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """When a host counts as idle, and what patrol does then."""

    window_minutes: float = key(
        30.0,
        Number(least=1, most=1440, unit="minutes"),
        "A host is idle if none of its GPUs was at `idle_percent` or above in the last `window_minutes`, and its "
        "processors were below `idle_cpu_percent` (EC2's metric arrives too late for a window below 15 minutes).",
    )
    idle_percent: float = key(
        5.0, Number(most=100, unit="percent"), "A GPU at or above this utilization counts as used."
    )
    idle_cpu_percent: float = key(
        50.0,
        Number(most=100_000, unit="percent"),
        "Processors at or above this utilization of one vCPU over five minutes count as used.",
    )
    grace_minutes: float = key(
        15.0,
        Number(most=1440, unit="minutes"),
        "Patrol does not act on a host that has started more recently than this.",
    )
    archive_days: float = key(
        7.0,
        Number(most=3650, unit="days"),
        "Patrol makes an image of a host that has been stopped for this long.",
    )
    idle_spot: IdleSpot = key(
        IdleSpot.ARCHIVE, Choice(IdleSpot), "What to do with an idle spot host, which EC2 cannot stop."
    )
    unknown_warn_minutes: float = key(
        30.0,
        Number(most=10_080, unit="minutes"),
        "Patrol sends a notification if a host has had no metrics for this long.",
    )
    unknown_stop_minutes: float | None = key(
        None,
        Number(most=10_080, unit="minutes"),
        "Patrol stops a host that has had no metrics for this long, if EC2 can stop it.",
        usual="never",
    )

    @property
    def sees_processors(self) -> bool:
        """Whether a window has five minutes of which EC2 has told by its end."""
        return self.window_minutes >= CPU_WINDOW

    @property
    def grace(self) -> timedelta:
        return timedelta(minutes=self.grace_minutes)

    @property
    def archive_after(self) -> timedelta:
        return timedelta(days=self.archive_days)


def tag_keys() -> tuple[str, ...]:
    """All tags that say what of its policy a host has different."""
    return tuple(f"{Tag.POLICY}{name}" for name in asdict(Policy()))


def of_mapping(given: object, *, path: str) -> Policy | InputFaults:
    """The yard's own policy, from its context."""
    values, section = Part(Policy).read_document(given, path)
    return InputFaults(path, tuple(section.faults)) if section.faults else replace(Policy(), **values)


def tags(values: Mapping[str, Any]) -> dict[str, str]:
    """How a job's policy travels with its hosts."""
    return {f"{Tag.POLICY}{key}": _text(value) for key, value in values.items() if value is not None}


def of_host(yard: Policy, tagged: Mapping[str, str]) -> tuple[Policy, tuple[str, ...]]:
    """The policy that counts for a host with these tags; and what of them cannot be read, which then counts for
    nothing: patrol says so, and judges by the yard's."""
    given = {
        key.removeprefix(Tag.POLICY): _value(text)
        for key, text in tagged.items()
        if key.startswith(Tag.POLICY)
    }
    if not given:
        return yard, ()
    values, section = Part(Policy).read_document(given)
    wrong = {fault.path for fault in section.faults}
    sound = {key: value for key, value in values.items() if key not in wrong}
    return replace(yard, **sound), tuple(
        f"the tag {Tag.POLICY}{fault.path}: {fault.problem}" for fault in section.faults
    )


def judged_by(policy: Policy) -> str:
    """What the host's agent must know to tell when it would be idle: the value of the tag Tag.JUDGED_BY."""
    told = ("window_minutes", "grace_minutes", "idle_percent", "idle_cpu_percent")
    return " ".join(f"{key}={getattr(policy, key):g}" for key in told)


def to_json(policy: Policy) -> dict[str, Any]:
    """What the stacks give the function."""
    return {key: value for key, value in asdict(policy).items() if value is not None}


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(text: str) -> object:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?(e-[0-9]{1,3})?", text) else text
