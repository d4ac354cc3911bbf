"""A yard keeps its settings until a deployment sets them again."""

import json
from pathlib import Path

import pytest

from scripts.settings import choose, settings_of_clone
from stacks.settings import YardSettings
from trainyard.core.model.yard.settings import READERS

ROOT = Path(__file__).parents[2]
DEPLOYED = {"monthly_dollars": "500", "notify": "a@example.com"}


def test_what_is_not_named_stays_and_is_said() -> None:
    choice = choose({"most_runs": "5"}, {}, DEPLOYED)
    assert choice.words == {**DEPLOYED, "most_runs": "5"}
    (line,) = choice.lines
    assert "monthly_dollars=500 notify=a@example.com: settings of the deployed yard; --reset KEY" in line
    assert choice.arguments[:2] == ["-c", "monthly_dollars=500"]


def test_what_is_named_by_the_command_or_by_cdk_json_counts_and_is_said() -> None:
    choice = choose({"notify": "b@example.com"}, {"monthly_dollars": "300"}, DEPLOYED)
    assert choice.words == {"notify": "b@example.com"}
    assert choice.lines == (
        "changed    notify=b@example.com by -c; it was a@example.com",
        "changed    monthly_dollars=300 by cdk.json; it was 500",
    )


def test_the_same_value_written_differently_is_no_change() -> None:
    assert choose({"monthly_dollars": "500.00"}, {}, {"monthly_dollars": "500"}).lines == ()


def test_a_setting_is_reset_to_the_default() -> None:
    choice = choose({}, {}, DEPLOYED, ["notify"])
    assert choice.words == {"monthly_dollars": "500"}
    assert "reset      notify; it was a@example.com" in choice.lines
    with pytest.raises(ValueError, match="did you mean notify"):
        choose({}, {}, DEPLOYED, ["notifi"])


def test_a_setting_that_this_version_does_not_have_is_forgotten_and_said() -> None:
    choice = choose({}, {}, {"an_old_one": "1"})
    assert (choice.words, choice.lines) == ({}, ("forgotten  an_old_one: this version has no such settings",))


def test_the_clone_as_it_is_names_nothing() -> None:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    assert settings_of_clone(context) == {}
    assert settings_of_clone({**context, "monthly_dollars": 300, "private": True}) == {
        "monthly_dollars": "300",
        "private": "true",
    }
    with pytest.raises(ValueError, match="did you mean most_runs"):
        settings_of_clone({**context, "most_run": 1})


@pytest.mark.parametrize("key", sorted(READERS))
def test_each_setting_is_one_of_the_class(key: str) -> None:
    assert hasattr(YardSettings(), {"yard": "prefix"}.get(key, key))


def test_what_a_yard_remembers_is_read_back_as_it_was() -> None:
    context = {"policy": {"window_minutes": 7}, "disposable": True, "keep_images": "03", "yard": "Other"}
    first = YardSettings.from_context(context)
    assert "yard" not in first.remembered
    again = YardSettings.from_context({**first.remembered, "yard": "Other"})
    assert again == first
    assert again.remembered == first.remembered
