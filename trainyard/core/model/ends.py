"""How a run that ended is named wherever people read it."""

BUT = "the program finished, but "
"""How the reason of a run begins that succeeded although something speaks against it."""
SUCCEEDED = "succeeded"
WORDS = {SUCCEEDED: "Finished", "failed": "Failed", "refused": "Refused", "stopped": "Stopped"}
"""The words in which users read outcomes. Rows and the `outcome` of `-o json` keep the outcome itself."""


def doubt(outcome: str | None, reason: str | None) -> str | None:
    """Return what speaks against a run that succeeded; None if nothing does."""
    if outcome != SUCCEEDED or not (reason or "").startswith(BUT):
        return None
    return str(reason).removeprefix(BUT)


def named(outcome: str, reason: str | None) -> str:
    """Return the word for the outcome, or `Finished, but ...` if something speaks against the success."""
    word = WORDS.get(outcome, outcome)
    return f"{word}, but ..." if doubt(outcome, reason) else word
