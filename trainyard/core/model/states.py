"""The words for the states of a run that users read. Rows, events and `-o json` contain the states' own names.

docs/contracts/states.md has the table.
"""

from collections.abc import Iterable
from datetime import datetime

WORDS = {
    "Starting": "Starting",
    "Admit": "Starting",
    "Plan": "Starting",
    "Dry run": "Starting",
    "Wait for a slot": "Waiting for a slot",
    "AwaitRuns": "Waiting for other runs",
    "Wait for a bake": "Waiting for a bake",
    "Wait for capacity": "Waiting for capacity",
    "Launch": "Waiting for capacity",
    "AwaitHosts": "Starting",
    "Await": "Starting",
    "Train": "Training",
    "Search": "Searching",
    "Install": "Installing",
    "Test": "Testing",
    "Recover": "Recovering",
    "Pause": "Recovering",
    "Retire": "Recovering",
    "Stop": "Stopping",
    "Convert": "Converting",
    "Golden": "Testing",
    "Generalize": "Imaging",
    "Capture": "Imaging",
    "Publish": "Publishing",
    "Retire images": "Publishing",
    "Copy": "Saving",
    "Keep": "Saving",
    "Explain": "Saving",
    "Fate": "Saving",
    "Undo": "Saving",
    "Release": "Saving",
    "Conclude": "Saving",
    "SUCCEEDED": "Finished",
    "FAILED": "Failed",
    "TIMED_OUT": "Failed",
    "ABORTED": "Stopped",
}
"""The words by the name of a state of any workflow, or by the status of an ended execution."""
OF_A_SNAPSHOT = {"Pause": "Pausing"}
"""A snapshot pauses its host; other workflows pause before the next attempt."""
ORDER = (
    *(
        "Admit",
        "AwaitRuns",
        "Plan",
        "Launch",
        "AwaitHosts",
        "Await",
        "Train",
        "Search",
        "Pause",
        "Stop",
        "Install",
        "Test",
    ),
    *("Generalize", "Capture", "Publish", "Fate", "Release", "Conclude"),
)
"""The states that functions write into a run's row, in the order of one attempt in any workflow."""
OVERDUE = " overdue"
"""The ending of the states that handle a wait without an answer."""
CHOICES = ("Is ", "Did ", "Has ", "Was ", "Are ", "How ")
"""The beginnings of states that only choose the next state."""
ENDS = ("Succeeded", "Failed", "Retired", "Planned only", "Changed", "Ready", "Refused", "Not ready")
"""The states that end a workflow at once."""


def is_shown(state: str) -> bool:
    """Return True for a state that takes time."""
    return not state.startswith(CHOICES) and state not in ENDS


def word_for(state: str, kind: str = "train") -> str:
    """Return the word for a state. A state of a newer yard keeps its own name."""
    known = WORDS | OF_A_SNAPSHOT if kind == "snapshot" else WORDS
    return known.get(state.removesuffix(OVERDUE), state)


def shown_words(entered: Iterable[tuple[datetime, str]], kind: str = "train") -> list[tuple[datetime, str]]:
    """Return the words of the entered states, with the time at which each word begins."""
    words: list[tuple[datetime, str]] = []
    for at, name in entered:
        if is_shown(name) and (not words or words[-1][1] != word_for(name, kind)):
            words.append((at, word_for(name, kind)))
    return words
