"""Policy: when patrol considers a host idle, and its action then. The yard, a job and one host can each have one.

The keys are the same everywhere: in the yard's context `policy`, in a job's section `policy`, and in a host's tags
(`Tag.POLICY<key>`). A host's value overrides its job's, which overrides the yard's.
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
    """The action on an idle spot host, which EC2 cannot stop."""

    ARCHIVE = "archive"
    TERMINATE = "terminate"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The conditions for an idle host, and patrol's actions."""

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
        IdleSpot.ARCHIVE, Choice(IdleSpot), "The treatment of an idle spot host, which EC2 cannot stop."
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
        """Return True if a window contains five minutes whose metrics EC2 has published by the end of the window."""
        return self.window_minutes >= CPU_WINDOW

    @property
    def grace(self) -> timedelta:
        return timedelta(minutes=self.grace_minutes)

    @property
    def archive_after(self) -> timedelta:
        return timedelta(days=self.archive_days)


def tag_keys() -> tuple[str, ...]:
    """Return the tags of all keys of a host's policy."""
    return tuple(f"{Tag.POLICY}{name}" for name in asdict(Policy()))


def read_policy(given: object, *, path: str) -> Policy | InputFaults:
    """Read the yard's policy from its context."""
    values, section = Part(Policy).read_document(given, path)
    return InputFaults(path, tuple(section.faults)) if section.faults else replace(Policy(), **values)


def tags(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a job's policy for its hosts."""
    return {f"{Tag.POLICY}{key}": _text(value) for key, value in values.items() if value is not None}


def host_policy(yard: Policy, tagged: Mapping[str, str]) -> tuple[Policy, tuple[str, ...]]:
    """Return the policy for a host with these tags, and the faults of its tags. The yard's values replace faulty ones,
    and patrol reports the faults."""
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
    """Return the value of Tag.JUDGED_BY, with which the host's agent predicts when patrol would consider it idle."""
    told = ("window_minutes", "grace_minutes", "idle_percent", "idle_cpu_percent")
    return " ".join(f"{key}={getattr(policy, key):g}" for key in told)


def to_json(policy: Policy) -> dict[str, Any]:
    """Return the policy for the function's environment."""
    return {key: value for key, value in asdict(policy).items() if value is not None}


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(text: str) -> object:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?(e-[0-9]{1,3})?", text) else text
