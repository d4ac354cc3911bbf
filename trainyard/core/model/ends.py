"""How a run that ended is named wherever people read it."""

BUT = "the program finished, but "
"""How the reason of a run begins that succeeded although something speaks against it."""
SUCCEEDED = "succeeded"


def doubt(outcome: str | None, reason: str | None) -> str | None:
    """Return what speaks against a run that succeeded; None if nothing does."""
    if outcome != SUCCEEDED or not (reason or "").startswith(BUT):
        return None
    return str(reason).removeprefix(BUT)


def named(outcome: str, reason: str | None) -> str:
    """Return the outcome in the words of every list: `succeeded, but ...` if something speaks against it."""
    return f"{outcome}, but ..." if doubt(outcome, reason) else outcome
