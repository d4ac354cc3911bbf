"""Recipes are checked on the user's computer before an upload, like job files."""

from pathlib import Path

import pytest

from tests.unit.client.facts import yard_of
from trainyard.client import Session
from trainyard.client.errors import JobRefused


def test_a_recipe_with_faults_is_refused_with_all_of_them_before_anything_is_sent(tmp_path: Path) -> None:
    """The session has no region, so any request would fail."""
    recipe = tmp_path / "bad.yaml"
    recipe.write_text("name: Bad\ntensorflow: '2.21'\nroot_gib: 1\n")
    with pytest.raises(JobRefused) as refused:
        yard_of(Session.of(region=None)).bake(recipe)
    assert len(refused.value.faults) == 3
    assert refused.value.what.startswith(f"{recipe} has 3 faults")
