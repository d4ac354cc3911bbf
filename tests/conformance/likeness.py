"""Comparison of an answer with the recorded one. Placeholders of the recordings stand for any value."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

PLACEHOLDER = re.compile(r"<[^<>\s]+>|\blambda_function(_\d)?_name\b")
ANY_VALUE = frozenset(
    {
        "timestamp",
        "date",
        "datetime",
        "snf_role_arn",
        "sfn_role_arn",
        "generated-uuid",
        "start-time",
        "entered-time",
    }
)
"""Placeholders of the recordings for values that differ each time."""
LISTED = re.compile(r"(enum value set: )\[([^\]]*)\]")
"""The values of an enumeration, which AWS lists in any order."""
ACCOUNTS = re.compile(r"\b\d{12}\b|\b(?:us|eu|ap)-[a-z]+-\d\b")


def differences(recorded: Any, ours: Any, cosmetic: Collection[str] = (), path: str = "") -> Iterator[str]:
    """Yield each difference as `path: ours, AWS recorded`, without those at paths that end in a cosmetic name."""
    if path.rpartition(".")[2] in cosmetic:
        return
    if isinstance(ours, str) and (not isinstance(recorded, str) or recorded.startswith(("{", "["))):
        recorded, ours = _decoded(recorded) if isinstance(recorded, str) else recorded, _decoded(ours)
    match recorded, ours:
        case dict(), dict():
            for key in sorted({*recorded, *ours}, key=str):
                here = f"{path}.{key}" if path else str(key)
                if key in recorded and key in ours:
                    yield from differences(recorded[key], ours[key], cosmetic, here)
                elif key not in cosmetic:
                    extra = key in ours
                    yield f"{here}: {'extra ' + short(ours[key]) if extra else 'missing ' + short(recorded[key])}"
        case list(), list() if len(recorded) == len(ours):
            for number, (one, other) in enumerate(zip(recorded, ours, strict=True)):
                yield from differences(one, other, cosmetic, f"{path}[{number}]")
        case str(), _ if recorded in ANY_VALUE or _is_like(recorded, ours):
            pass
        case _ if type(recorded) is not type(ours) or recorded != ours:
            if not _same_number(recorded, ours):
                yield f"{path}: {short(ours)}, AWS {short(recorded)}"


def same_words(recorded: str, ours: str) -> bool:
    """Return True if the texts differ only in names and IDs."""
    return _is_like(recorded, ours)


def short(value: Any) -> str:
    """Write a value on one short line."""
    text = json.dumps(value, default=str)
    return text if len(text) < 160 else text[:157] + "..."


def _same_number(one: Any, other: Any) -> bool:
    return {type(one), type(other)} <= {int, float} and one == other


def _is_like(recorded: str, ours: Any) -> bool:
    if not isinstance(ours, str):
        return bool(PLACEHOLDER.fullmatch(recorded))
    recorded, ours = (LISTED.sub(_in_order, ACCOUNTS.sub("#", each)) for each in (recorded, ours))
    parts = PLACEHOLDER.sub("\0", recorded).split("\0")
    return re.fullmatch(".+?".join(re.escape(part) for part in parts), ours, re.DOTALL) is not None


def _in_order(found: re.Match[str]) -> str:
    return f"{found[1]}[{', '.join(sorted(found[2].split(', ')))}]"


def _decoded(text: str) -> Any:
    """Decode JSON in a text, because recordings contain decoded inputs and outputs."""
    try:
        return json.loads(text)
    except ValueError:
        return text
