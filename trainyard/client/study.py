"""A study: its trials, its best trial, and the requests of its user."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainyard.client import people
from trainyard.client.errors import (
    Denied,
    NothingFound,
    RequestNotAccepted,
    RunGoesOn,
    RunNotFound,
    StudyRefused,
)
from trainyard.client.identity import caller_name
from trainyard.client.run import NOTED_SECONDS, Run
from trainyard.client.trials import Trials
from trainyard.command_line import command_line
from trainyard.core.jobfile import study_requests
from trainyard.core.model.job import Job
from trainyard.core.model.study import Study as Section
from trainyard.protocol import sources, trial
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.study import TrialRow, TrialState, Value
from trainyard.protocol.requests import AddPoint, More
from trainyard.values import serialization

BEGIN_SECONDS = 60.0
"""The longest wait for the execution of a continued study; usually it takes 2 s."""


@dataclass(frozen=True)
class StudyTrial:
    """A trial of a study, as it was when it was read."""

    study: Study = field(repr=False)
    row: TrialRow

    @property
    def number(self) -> int:
        return self.row.number

    @property
    def values(self) -> Mapping[str, Value]:
        """Return the values of the parameters, by their paths."""
        return self.row.values

    @property
    def value(self) -> float | None:
        """Return the metric of a complete trial, or the metric at the rung at which the trial was stopped."""
        return self.row.value

    @property
    def state(self) -> TrialState:
        return self.row.state

    @property
    def point(self) -> str | None:
        """Return the id of the added point that the trial has, as `Study.add` returned it, or its place in
        `study.first`, such as `first-1`."""
        return self.row.point

    @property
    def run(self) -> Run:
        """Return the run of the trial, with its model, metrics and logs."""
        arn = self.study.yard.workflows["train"].replace(":stateMachine:", ":execution:")
        return Run(self.study.yard, f"{arn}:{self.row.run_of(self.study.id)}")


@dataclass(frozen=True)
class Study(Run):
    """The run of a study. It has the functions of every run, such as `wait`, `stop` and `result`."""

    @property
    def trials(self) -> tuple[StudyTrial, ...]:
        """Return all trials, in the order of their numbers."""
        return tuple(StudyTrial(self, row) for row in self._rows().trials)

    @property
    def metric(self) -> str:
        """Return the name of the metric that the study maximizes or minimizes."""
        return self.section.objective.metric

    def best(self) -> StudyTrial:
        """Return the complete trial with the best value. Raise NothingFound before the first complete trial."""
        best = self._rows().best
        if best is None:
            raise NothingFound(
                f"{self.id} has no complete trial",
                "no trial has left the metric",
                command_line("show", self.id),
            )
        return StudyTrial(self, best)

    @property
    def retrained(self) -> StudyTrial | None:
        """Return the complete trial that trained the best values once more (`then.retrain`), or None."""
        rows = self._rows()
        return next((StudyTrial(self, row) for row in rows.trials if row.number == rows.row.retrained), None)

    def ended(self, every: float = 2.0) -> Iterator[StudyTrial]:
        """Yield each trial once it has ended, in the order of their ends, until the study is over."""
        seen = set[int]()
        while True:
            is_over = self.execution.is_over
            for row in self._rows().ended:
                if row.number not in seen:
                    seen.add(row.number)
                    yield StudyTrial(self, row)
            if is_over:
                return
            time.sleep(every)

    def add(self, values: Mapping[str, Any]) -> str:
        """Add a point, which the next free trial takes, and return the id of the point. The sampler draws the
        parameters that the point leaves out.

        Raise StudyRefused for a point that the study cannot have, with every fault, or for a study that is over; Denied
        for a study of another user.
        """
        run, rows = self._own_row(), self._rows()
        faults = study_requests.find_point_faults(self.section, values)
        if faults:
            raise StudyRefused("; ".join(faults), "no point was added", "correct the point, and add it again")
        further = command_line("study", "more", self.id, "--trials", "1", "--dollars", "1")
        if run.ended or run.stopping:
            raise StudyRefused(
                f"{self.id} is over, or a user has stopped it",
                "no point was added",
                f"{further} continues it",
            )
        if refused := study_requests.refuse_point(rows.row, len(rows.waiting)):
            raise StudyRefused(
                f"{self.id}: {refused}",
                "no point was added",
                f"wait for its end; then {further} continues it",
            )
        point = secrets.token_hex(8)
        self._send(AddPoint(run=self.id, point=point, values=dict(values)), run)
        until = time.monotonic() + NOTED_SECONDS
        while point not in {each.id for each in self._rows().points}:
            if time.monotonic() >= until:
                raise RequestNotAccepted(
                    f"{self.id} did not take the point within {NOTED_SECONDS:.0f} s",
                    "it may have ended meanwhile, or takes the point later",
                    command_line("show", self.id),
                )
            time.sleep(0.25)
        return point

    def more(self, trials: int, dollars: float, hours: float | None = None) -> Study:
        """Continue the study after its end with further trials for further dollars, and return it. Numbers continue,
        and earlier values count. `hours` is the longest duration, by default `study.limits.hours` of the job file.

        Raise RunGoesOn for a study that runs; StudyRefused with every fault; Denied for a study of another user.
        """
        run, rows = self._own_row(), self._rows()
        if run.ended is None:
            raise RunGoesOn(
                f"{self.id} is still running",
                "only a study that has ended can be continued; nothing was changed",
                f"wait, or stop it: {command_line('stop', self.id)}",
            )
        last = max((row.number for row in rows.trials), default=0)
        faults = study_requests.find_continuation_faults(
            rows.row, last, trials=trials, dollars=dollars, hours=hours
        )
        if faults:
            raise StudyRefused("; ".join(faults), "the study does not continue", "ask for other limits")
        part = rows.row.part + 1
        name = trial.part_name(self.id, part)
        arn = f"{self.arn.rpartition(':')[0]}:{name}"
        self._send(More(run=self.id, part=part, trials=trials, dollars=dollars, hours=hours), run)
        return self._wait_until_continued(replace(self, arn=arn))

    def _wait_until_continued(self, continued: Study) -> Study:
        """Wait until the execution has opened the run again."""
        until = time.monotonic() + BEGIN_SECONDS
        while self._own_row().execution_arn != continued.arn:
            if error := self._refusal_of(continued):
                raise StudyRefused(
                    f"the yard refused to continue {self.id}: {error}",
                    "nothing was changed",
                    "correct the request, and ask again",
                )
            if time.monotonic() >= until:
                raise RequestNotAccepted(
                    f"{self.id} does not run after {BEGIN_SECONDS:.0f} s",
                    "the function signal did not receive the request, or refused it",
                    f"aws logs tail /{self.yard.name.lower()}/functions/signal",
                )
            time.sleep(0.5)
        return continued

    def _refusal_of(self, continued: Study) -> str | None:
        try:
            execution = continued.execution
        except self._states.exceptions.ExecutionDoesNotExist:
            return None
        return (execution.error_text or "it ended") if execution.is_over else None

    def _send(self, request: More | AddPoint, run: RunRow) -> None:
        """Send the request as the owner of the study, or as an operator."""
        caller = caller_name(self.yard.session)
        if caller == run.submitter:
            people.send_request(self.yard, request)
            return
        try:
            people.send_request(self.yard, request, sources.operator_source(caller))
        except Denied as denied:
            raise Denied(
                f"{self.id} belongs to {run.submitter}, and you are {caller}",
                "only its owner and operators of the yard may change a study; nothing was changed",
                f"ask {run.submitter}, or an operator; your own study: {command_line('submit', 'JOB')}",
            ) from denied

    def _own_row(self) -> RunRow:
        """Return the row of the run. A study that has just begun has it after its admission."""
        until = time.monotonic() + BEGIN_SECONDS
        while (row := self.yard.row(self.id)) is None:
            if time.monotonic() >= until or self.execution.is_over:
                raise RunNotFound(
                    f"the yard has no study {self.id}",
                    "it was refused, or does not exist",
                    command_line("study", "ls"),
                )
            time.sleep(0.5)
        return row

    def _rows(self) -> Trials:
        row = self._own_row()
        found = self.yard.trials(self.id)
        if found is None:
            raise RunNotFound(
                f"{self.id} has no trials",
                f"it was refused: {row.reason}" if row.reason else "it is not a study",
                command_line("why", self.id),
            )
        return found

    @property
    def section(self) -> Section:
        """Return the section `study` of the job file."""
        row = self._own_row()
        section = serialization.from_json(Job, row.job).study if row.job else None
        if section is None:
            raise RunNotFound(
                f"{self.id} is not a study", "its job has no section study", command_line("study", "ls")
            )
        return section
