"""Summaries of the last version are read; a summary without a required key is an error with advice for the user."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainyard.cli import failures
from trainyard.client.errors import RowUnreadable
from trainyard.protocol import summary
from trainyard.protocol.summary import BakeSummary, RunSummary, SnapshotSummary

DOCUMENTS = Path(__file__).parent / "last_version/documents.jsonl"
KINDS = {"bake": BakeSummary, "snapshot": SnapshotSummary}
"""The class of the summaries in a world; RunSummary in all others."""
FOUND = [
    (each["key"], json.loads(each["text"]))
    for each in map(json.loads, DOCUMENTS.read_text().splitlines())
    if each["key"].endswith("/summary.json")
]


def test_there_are_summaries_of_every_class() -> None:
    assert {key.partition("/")[0] for key, _ in FOUND} > KINDS.keys()


@pytest.mark.parametrize(("key", "written"), FOUND, ids=[key for key, _ in FOUND])
def test_a_summary_of_the_last_version_is_read(key: str, written: dict[str, Any]) -> None:
    kind: type[Any] = KINDS.get(key.partition("/")[0], RunSummary)
    read = summary.read(kind, written)
    assert (read["outcome"], read["seconds"]) == (written["outcome"], written["seconds"])


def test_a_bad_summary_is_an_error_with_advice_for_the_user() -> None:
    with pytest.raises(summary.UnreadableSummaryError) as bad:
        summary.read(RunSummary, FOUND[0][1] | {"outcome": 7})
    told = failures._yard_error(bad.value)
    assert isinstance(told, RowUnreadable)
    assert "outcome: found 7" in told.what
