"""Policy: when patrol calls a host idle, and what it does then. Of the yard, of a job, of one host.

The same words everywhere: the yard's context `policy` and a job's section `policy` hold some of KEYS, a host's tags
are `trainyard:policy-<key>`. What a host says goes before what its job says, and that before the yard.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from lambdas.core.model.validation import Faults, Section

TAG = "trainyard:policy-"
LONGEST_WINDOW = 1440
LONGEST_KEPT = 3650


class IdleSpot(StrEnum):
    """What becomes of an idle spot host, which EC2 cannot stop."""

    ARCHIVE = "archive"
    TERMINATE = "terminate"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A host is idle when no GPU of it was at `idle_percent` or above in all of the last `window_minutes`.

    `grace_minutes`: a host that started later than that is left alone. `archive_days`: a host that has been stopped
    for so long becomes an image. `unknown_warn_minutes`: without metrics for so long, somebody is told;
    `unknown_stop_minutes`: after so long a host that can be stopped is (None: never)."""

    window_minutes: float = 30.0
    idle_percent: float = 5.0
    grace_minutes: float = 15.0
    archive_days: float = 7.0
    idle_spot: IdleSpot = IdleSpot.TERMINATE
    unknown_warn_minutes: float = 30.0
    unknown_stop_minutes: float | None = None

    @property
    def grace(self) -> timedelta:
        return timedelta(minutes=self.grace_minutes)

    @property
    def archive_after(self) -> timedelta:
        return timedelta(days=self.archive_days)


KEYS = tuple(field.name for field in fields(Policy))


@dataclass(frozen=True)
class WrongPolicy:
    """Every fault of a policy, in words for people."""

    faults: tuple[str, ...]


def check(section: Section) -> dict[str, Any]:
    """The keys that the mapping gives, checked; its faults are added to the section's."""
    default = Policy()
    found: dict[str, Any] = {
        "window_minutes": section.number(
            "window_minutes", default.window_minutes, least=1, most=LONGEST_WINDOW, unit="minutes"
        ),
        "idle_percent": section.number("idle_percent", default.idle_percent, most=100, unit="percent"),
        "grace_minutes": section.number("grace_minutes", default.grace_minutes, most=1440, unit="minutes"),
        "archive_days": section.number("archive_days", default.archive_days, most=LONGEST_KEPT, unit="days"),
        "idle_spot": IdleSpot(section.choice("idle_spot", default.idle_spot, IdleSpot)),
        "unknown_warn_minutes": section.number(
            "unknown_warn_minutes", default.unknown_warn_minutes, most=10_080, unit="minutes"
        ),
        "unknown_stop_minutes": section.number("unknown_stop_minutes", 0.0, most=10_080, unit="minutes"),
    }
    return {key: value for key, value in found.items() if section.given(key)}


def of_mapping(given: object, *, path: str) -> Policy | WrongPolicy:
    """The yard's own policy, from its context."""
    faults = Faults()
    section = Section(given, path, KEYS, faults)
    values = check(section)
    if faults.found:
        return WrongPolicy(tuple(f"{where}: {problem}" for where, problem in faults.found))
    return replace(Policy(), **values)


def tags(values: Mapping[str, Any]) -> dict[str, str]:
    """How a job's policy travels with its hosts."""
    return {f"{TAG}{key}": _text(value) for key, value in values.items() if value is not None}


def of_host(yard: Policy, tagged: Mapping[str, str]) -> tuple[Policy, tuple[str, ...]]:
    """The policy that counts for a host with these tags; and what of them cannot be read, which then counts for
    nothing: patrol says so, and judges by the yard's."""
    given = {key.removeprefix(TAG): _value(text) for key, text in tagged.items() if key.startswith(TAG)}
    if not given:
        return yard, ()
    faults = Faults()
    values = check(Section(given, "", KEYS, faults))
    wrong = {where.partition(".")[0].partition("[")[0] for where, _ in faults.found}
    sound = {key: value for key, value in values.items() if key not in wrong}
    problems = tuple(f"the tag {TAG}{where}: {problem}" for where, problem in faults.found)
    return replace(yard, **sound), problems


def to_json(policy: Policy) -> dict[str, Any]:
    """What the stacks give the function."""
    return {key: value for key, value in asdict(policy).items() if value is not None}


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(text: str) -> object:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?(e-[0-9]{1,3})?", text) else text
