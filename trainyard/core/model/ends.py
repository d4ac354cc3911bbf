"""The names of the outcomes of runs, as users read them."""

BUT = "the program finished, but "
"""The beginning of the reason of a run that succeeded with a doubt."""
SUCCEEDED = "succeeded"
WORDS = {SUCCEEDED: "Finished", "failed": "Failed", "refused": "Refused", "stopped": "Stopped"}
"""The words for outcomes in texts for users. Rows and the `outcome` of `-o json` keep the outcome itself."""


def word_for(outcome: str) -> str:
    """Return the word for an outcome. Any other text, such as the word for a state, stays."""
    return WORDS.get(outcome, outcome)


def doubt(outcome: str | None, reason: str | None) -> str | None:
    """Return the doubt about a run that succeeded, or None without a doubt."""
    if outcome != SUCCEEDED or not (reason or "").startswith(BUT):
        return None
    return str(reason).removeprefix(BUT)


def outcome_in_words(outcome: str, reason: str | None) -> str:
    """Return the word for the outcome, or `Finished, but ...` if there is a doubt about a success."""
    word = WORDS.get(outcome, outcome)
    return f"{word}, but ..." if doubt(outcome, reason) else word
