"""What a host said, before anybody acts on it: anyone who may put events on the bus can say anything."""

from collections.abc import Mapping
from typing import Any

from lambdas.core.model import wire

ABOUT_ONE_HOST = ("ready", "started", "finished", "stopped", "failed", "checkpointed", "hold")
COUNTS = ("step", "steps", "exit_code")
MOST_SHOWN = 80


def unreadable(word: str, detail: object) -> str | None:
    """Why this is no signal of docs/contracts.md; None for one that can be acted on.

    What is written down wrongly would spoil the ledger for every later reader, so it is not written at all."""
    if not isinstance(detail, Mapping):
        return f"its detail is {_shown(detail)}, no mapping"
    texts = ("run", "instance") if word in ABOUT_ONE_HOST else ("run",)
    wrong = [name for name in texts if not (isinstance(detail.get(name), str) and detail[name])]
    wrong += [name for name in ("attempt",) if not _is_count(detail.get(name)) or detail[name] < 1]
    wrong += [name for name in COUNTS if detail.get(name) is not None and not _is_count(detail[name])]
    wrong += [name for name in ("at",) if detail.get(name) is not None and not _is_instant(detail[name])]
    wrong += [name for name in ("until",) if word == "hold" and not _is_until(detail)]
    if not wrong:
        return None
    return "; ".join(f"{name} is {_shown(detail.get(name))}" for name in wrong)


def _shown(value: object) -> str:
    return repr(value)[:MOST_SHOWN]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_until(detail: Mapping[str, Any]) -> bool:
    """Said in any case: none at all ends a hold, which nothing that was forgotten may do."""
    return "until" in detail and (detail["until"] is None or _is_instant(detail["until"]))


def _is_instant(value: Any) -> bool:
    try:
        wire.instant(value)
    except (TypeError, ValueError):
        return False
    return True
