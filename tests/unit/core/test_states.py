"""The words of users for states."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trainyard.core.model import states
from trainyard.values.quantities import format_count

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
WORKFLOWS = sorted((Path(__file__).parents[3] / "lambdas/workflows").glob("*.asl.json"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name.partition(".")[0])
def test_every_state_in_which_time_passes_has_a_word(workflow: Path) -> None:
    names = json.loads(workflow.read_text())["States"]
    assert [name for name in names if states.is_shown(name) and states.word_for(name) == name] == []


def test_a_word_begins_once_however_many_states_it_stands_for() -> None:
    entered = [(NOON, "Admit"), (NOON, "Is it admitted"), (NOON + timedelta(seconds=1), "Plan")]
    assert states.shown_words([*entered, (NOON + timedelta(seconds=2), "Train")]) == [
        (NOON, "Starting"),
        (NOON + timedelta(seconds=2), "Training"),
    ]


@pytest.mark.parametrize(("count", "text"), [(0, "0 hosts"), (1, "1 host"), (1200, "1,200 hosts")])
def test_a_count_has_its_noun_in_the_right_number(count: int, text: str) -> None:
    assert format_count(count, "host") == text
