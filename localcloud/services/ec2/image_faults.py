"""Images that are made to go wrong: the next so many end failed, all take longer, or leave their snapshot behind."""

from __future__ import annotations

from localcloud.base.injected import Upcoming

CODES = ("internal-error", "missing-permissions", "client-error", "skipped")
"""What DeregisterImage says of a snapshot that it did not delete."""
MADE, DEREGISTERED = "made", "deregistered"

_faults: Upcoming[str] = Upcoming()
_slow: list[float] = []


def fail(reason: str, times: int) -> None:
    """The next `times` images end `failed` for this reason; 0 takes it back."""
    _faults.say(MADE, reason, times)


def stick(code: str, times: int) -> None:
    """The next `times` deregistered images leave their snapshot, which is answered with `code`; 0 takes it back."""
    _faults.say(DEREGISTERED, code, times)


def slow(seconds: float) -> None:
    """From now on an image takes so many seconds longer; 0 takes it back."""
    _slow[:] = [seconds] if seconds else []


def failure() -> str | None:
    """Why the image that is being made will end failed, counted; None when it will not."""
    return _faults.happen(MADE)


def left_behind() -> str | None:
    """What DeregisterImage must answer instead of deleting the snapshot, counted; None when it deletes it."""
    return _faults.happen(DEREGISTERED)


def extra_seconds() -> float:
    """How much longer an image takes than the facts say."""
    return sum(_slow)


def clear() -> None:
    """Images are made and go as they should."""
    _faults.clear()
    _slow.clear()


def standing() -> list[str]:
    """Which of these faults last, in words."""
    faults = _faults.standing()
    said = [f"every image takes {extra_seconds():g} s longer"] if _slow else []
    if MADE in faults:
        said.append(f"the next {faults[MADE][1]} images fail: {faults[MADE][0]}")
    if DEREGISTERED in faults:
        said.append(f"the next {faults[DEREGISTERED][1]} snapshots stay: {faults[DEREGISTERED][0]}")
    return said
