"""The scenarios of models: versions, aliases, canaries, served hosts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from simulation.faults import PERSON
from simulation.scenario import SHORT, Scenario, job
from simulation.studies import SHORT_STUDY
from simulation.yard import models, serving
from trainyard.protocol import keys

if TYPE_CHECKING:
    from simulation.yard import Yard


def _version(yard: Yard) -> None:
    """Train on one host. The job requests a version, and a user creates another one of the run."""
    users = yard.model_users

    def once_it_is_over() -> None:
        run = next((each.name for each in yard.runs() if each.machine.name.endswith("-train")), None)
        if run and yard.all_over():
            users.begin(models.version("again", run))
            users.busy -= 1
        else:
            yard.after(20, once_it_is_over, "a user checks whether the run has ended")

    def upload() -> None:
        after = {"hosts": "terminate", "image": "never", "model": {"name": models.MODEL, "alias": "default"}}
        document = job("one", {"strategy": "single"}, program=SHORT, after=after)
        yard.people.upload(f"{keys.owned(keys.JOBS, PERSON)}one.json", document)
        yard.after(20, once_it_is_over, "a user checks whether the run has ended")

    users.busy += 1
    users.begin(models.create(), then=upload)


def _winner(yard: Yard) -> None:
    """Search with a study whose best trial becomes a version."""
    after = {"hosts": "terminate", "image": "never", "model": {"name": models.MODEL}}
    document = json.loads(job("study", {"strategy": "single"}, after=after))
    yard.model_users.begin(models.create(), then=lambda: SHORT_STUDY.begin(yard, document))


def _is_version_made(yard: Yard) -> bool:
    """Return True once the study has ended, and the version that it requested."""
    return models.is_over(yard) and any(each.machine.name.endswith("-study") for each in yard.runs())


MODEL_SCENARIOS = (
    Scenario(
        "version",
        "a run whose model becomes a version, twice",
        _version,
        gang=1,
        over=models.is_over,
        since="train Conclude #1",
        versions=frozenset({"v1", "again"}),
        default=1,
    ),
    Scenario(
        "versions",
        "two new versions of a model at once",
        models.two_at_once,
        over=models.is_over,
        versions=frozenset({"v1", "second"}),
    ),
    Scenario(
        "aliases",
        "a default that moves on and back while predictions are made",
        models.move_aliases,
        over=models.is_over,
        since="version Admit #3",
        versions=frozenset({"v1"}),
        default=1,
    ),
    Scenario(
        "canary",
        "a canary that fails, and is rolled back",
        models.try_failing_canary,
        over=models.is_over,
        since="version-admit#4",
        versions=frozenset({"v1"}),
        default=1,
        rolled_back=2,
    ),
    Scenario(
        "promotion",
        "a shadow and a canary that becomes the default, with approval",
        models.promote_canary,
        over=models.is_over,
        since="version-admit#3",
        versions=frozenset({"v1", "v2"}),
        default=2,
    ),
    Scenario(
        "served",
        "a host that serves a version, is gone when it is idle, and is woken",
        serving.serve_and_wake,
        timedelta(hours=4),
        gang=1,
        over=models.is_over,
        since="version-admit#3",
        versions=frozenset({"v2"}),
        default=2,
    ),
    Scenario(
        "misserved",
        "a version that its host does not serve, because an answer differs",
        serving.serve_wrong_version,
        timedelta(hours=4),
        gang=1,
        over=models.is_over,
        since="train Train #1",
        versions=frozenset({"v1"}),
        default=1,
    ),
    Scenario(
        "convert",
        "a SavedModel that a run prepares for its version",
        models.convert,
        timedelta(hours=4),
        gang=1,
        over=models.is_over,
        since="version-admit#2",
        versions=frozenset({"v1"}),
        default=1,
    ),
    Scenario(
        "winner",
        "a study whose best trial becomes a version",
        _winner,
        timedelta(hours=4),
        gang=1,
        pool_minutes=3,
        over=_is_version_made,
        since="study Conclude #1",
        versions=frozenset({"v1"}),
    ),
)
