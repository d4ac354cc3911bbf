"""Bakes as a user meets them: an image, or one clear reason and nothing left."""

from tests.e2e.runs import Runs


def test_nothing_to_do(runs: Runs) -> None:
    run = runs.finish(runs.yard.start(runs.yard.bake, {}))
    assert run.succeeded, run.why()
    assert run.summary["kind"] == "unchanged"
