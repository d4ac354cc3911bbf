"""Runs without TensorBoard events."""

import pytest

from tests.unit.ui import canned
from trainyard.cli.commands.tb import find_without_events
from trainyard.client.errors import NothingFound


def test_a_run_without_events_is_named_and_one_that_is_over_is_an_error() -> None:
    cloud = canned.cloud()
    over, running = (cloud.yard().run(run) for run in (canned.FAILED, canned.TRAINING))
    with pytest.raises(NothingFound) as nothing:
        find_without_events([over], {over.id: 0})
    assert f"no TensorBoard events were found for {over.id}" in nothing.value.what
    assert find_without_events([running], {running.id: 0}) == [running], "events may come yet"
    assert find_without_events([over, running], {over.id: 2, running.id: 0}) == [running]
    assert find_without_events([over], {over.id: 1}) == []
