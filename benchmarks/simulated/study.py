"""A simulated study with many faults: the requests of its own per trial, its limits, and what is left at its end.

The requests of the workflow and of the hosts of a trial do not count. Also the processor time of a turn with many
trials, without the simulated AWS.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lambdas.aws.dynamodb.serialization import pack_row, unpack
from lambdas.aws.dynamodb.studies import trial_of, trial_rows
from lambdas.core.study import turn
from lambdas.core.study.results import Result
from lambdas.core.study.sampling import Sampling
from lambdas.core.study.situation import Situation
from simulation import assembly
from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.cases import process
from simulation.scenario import Scenario
from simulation.scenarios import NAMED
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard
from trainyard.core.model.study import Parameter, Sampler, Study, StudyLimits
from trainyard.protocol.ledger.study import DrawnBy, StudyRow, TrialRow, TrialState
from trainyard.protocol.trial import study_of

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
TRIALS, PARAMETERS = 1000, 20
OWN = "study-"
"""The prefix of the functions of a study."""


@dataclass(frozen=True)
class Turns:
    """The processor time of one turn, in seconds: reading the rows, and the decision with one new trial."""

    reading: float
    deciding: float

    @property
    def total(self) -> float:
        return self.reading + self.deciding


@dataclass(frozen=True)
class Searched:
    """The results of a simulated study. `requests` are its own by operation."""

    trials: int
    reported: int
    states: Mapping[str, int]
    faults: int
    requests: Mapping[str, int]
    turns: int
    spent: float
    most_dollars: float
    living_hosts: int
    broken: tuple[str, ...]
    hours: float
    cpu_seconds: float

    @property
    def requests_per_trial(self) -> float:
        return round(sum(self.requests.values()) / max(1, self.trials), 2)


class Requests:
    """Counts the requests of the functions of studies, before the throttle of the yard."""

    def __init__(self, yard: Yard) -> None:
        self.by_operation: Counter[str] = Counter()
        self.turns = 0
        self._before = yard.gateway.throttle
        self._seen = ""
        yard.gateway.throttle = self.ask

    def ask(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> ServiceError | None:
        if caller.instance is None and caller.name.startswith(OWN):
            self.by_operation[operation] += 1
            self.turns += caller.name != self._seen
            self._seen = caller.name
        return self._before(caller, operation, request)


def measure_study(template: YardTemplate, scenario: Scenario, *, seed: int = 1) -> Searched:
    """Simulate a study."""
    counted: list[Requests] = []
    rows: dict[str, Any] = {}

    def begin(yard: Yard) -> None:
        counted.append(Requests(yard))
        scenario.begin(yard)

    def look(yard: Yard) -> None:
        name = next(each.name for each in yard.runs() if study_of(each.name) is None)
        rows["study"] = yard.rows(f"study#{name}")
        rows["living"] = sum(each.live for each in yard.ec2.ever.values())

    began = time.process_time()
    result = simulate(template, replace(scenario, begin=begin), seed=seed, at_end=look)
    own = next(row for row in rows["study"] if row["sk"] == "study")
    trials = [trial_of(row) for row in rows["study"] if row["sk"].startswith("trial#")]
    [requests] = counted
    return Searched(
        trials=len(trials),
        reported=int(own["reported"]),
        states=dict(Counter(str(each.state) for each in trials)),
        faults=len(result.injected),
        requests=dict(requests.by_operation.most_common()),
        turns=requests.turns,
        spent=float(own["spent"]),
        most_dollars=float(own["dollars"]),
        living_hosts=rows["living"],
        broken=tuple(f"{each.invariant}: {each.what}" for each in result.broken),
        hours=round(result.virtual_seconds / 3600, 2),
        cpu_seconds=round(time.process_time() - began, 1),
    )


def measure_turn(trials: int = TRIALS, parameters: int = PARAMETERS) -> Turns:
    """Measure a turn that reports one trial of a study with this many trials, and draws the next one."""
    study = Study(
        maximize="score",
        parameters={f"args.p{number}": Parameter(range=(0.0, 1.0)) for number in range(parameters)},
        sampler=Sampler.TPE,
        trials=trials,
        limits=StudyLimits(dollars=10_000.0),
    )
    known = [_trial(number, study, trials) for number in range(1, trials)]
    packed = [
        pack_row({"pk": write.pk, "sk": write.sk, **write.values})
        for write in trial_rows("digits-0a1b2c3d", known)
    ]
    began = time.process_time()
    rows = [trial_of(unpack(each)) for each in packed]
    read = time.process_time()
    given = Situation(
        study=study,
        most_dollars=1.0,
        row=StudyRow(version=1, trials=trials, dollars=10_000.0, until=NOW + timedelta(days=1)),
        trials=rows,
        points=(),
        results={rows[-1].number: Result(state=TrialState.COMPLETE, reason="done", dollars=0.1, value=0.5)},
        is_metric_seen=True,
        reserve=0.0,
        stopped_by=None,
        now=NOW,
    )
    decided = turn.decide(given, lambda section, each: Sampling(section, each).draw)
    ended = time.process_time()
    assert len(decided.to_start) == 1, "the turn asks for one trial"
    return Turns(round(read - began, 3), round(ended - read, 3))


def _trial(number: int, study: Study, trials: int) -> TrialRow:
    """Return a complete trial, or a running one as the last."""
    values = {path: (number * (index + 7) % 997) / 997 for index, path in enumerate(study.parameters)}
    is_last = number == trials - 1
    return TrialRow(
        number=number,
        values=values,
        drawn_by=DrawnBy.SAMPLER,
        state=TrialState.STARTED if is_last else TrialState.COMPLETE,
        cap=0.5,
        asked=NOW,
        reported=None if is_last else NOW,
        value=None if is_last else sum(values.values()),
        step=100,
        dollars=0.1,
    )


@dataclass(frozen=True)
class Measured:
    """The results of both measurements."""

    searched: Searched
    turns: Turns


def measure() -> Measured:
    """Simulate the long study without the logs of its functions, and measure a turn."""
    with process.world_environment(assembly.find_assembly()) as template, _without_logs():
        searched = measure_study(template, NAMED["long-study"])
    return Measured(searched, measure_turn())


@contextmanager
def _without_logs() -> Iterator[None]:
    """Print no line of a logger, because a study of 1,000 trials logs hundreds of thousands."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
