"""One run: wait for it, follow it, and read its records and files."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from botocore.exceptions import ClientError

from trainyard.client import people
from trainyard.client.errors import (
    MetricNotFound,
    NothingFound,
    RunFailed,
    RunNotStarted,
    RunRefused,
    StillRunning,
    YardError,
)
from trainyard.client.runs import logs, metric_points, records
from trainyard.client.runs.execution import Execution, State, states_of
from trainyard.client.runs.files import RunFiles
from trainyard.client.runs.logs import Chosen, LogLine
from trainyard.client.runs.metric_points import Loss, MetricPoints, samples_in
from trainyard.client.runs.progress import Progress, further, objective_in, progress_in
from trainyard.client.runs.reasons import Reason, reason_for
from trainyard.client.runs.records import Event
from trainyard.client.runs.status import RunStatus
from trainyard.command_line import command_line
from trainyard.core.model.errors import Stopped
from trainyard.protocol import keys
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.ledger.reading import RunRows
from trainyard.protocol.ledger.study import STUDY
from trainyard.protocol.requests import Stop
from trainyard.values import floats

MOST_COMPARED_BYTES = 2**16
"""The largest log that is compared with the reason."""
OF_THE_AGENT = "[trainyard] "
"""The prefix of log lines that the host's agent wrote."""
START_SECONDS = 90.0
"""The longest wait for an execution. Lambda calls a failed function again after one minute."""
NOTED_SECONDS = 10.0
"""The longest wait for an event to reach the run's row; usually it takes 1 s."""


@dataclass(frozen=True)
class Run(RunFiles):
    """An execution of one of the yard's workflows: a training, a bake, a snapshot or a dev host.

    Every property asks AWS again; nothing is cached.
    """

    # --------------------------------------------------------------------------------------------- its execution
    @property
    def execution(self) -> Execution:
        """Return the answer of DescribeExecution."""
        return Execution.of(self._states.describe_execution(executionArn=self.arn))

    @property
    def history(self) -> list[dict[str, Any]]:
        """Return every event of the execution, the oldest first."""
        pages = self._states.get_paginator("get_execution_history").paginate(executionArn=self.arn)
        return [event for page in pages for event in page["events"]]

    @property
    def states(self) -> tuple[State, ...]:
        """Return the entered states, the oldest first."""
        return tuple(states_of(self.history))

    @property
    def succeeded(self) -> bool:
        """Return True if the run has succeeded, False also while it runs."""
        return self.execution.succeeded

    def wait_for_start(self, seconds: float = START_SECONDS, *, function: str = "submit") -> Self:
        """Wait until the execution exists and return the run. Raise RunNotStarted after `seconds`. `function` starts
        the execution."""
        ends, client = time.monotonic() + seconds, self._states
        while True:
            try:
                client.describe_execution(executionArn=self.arn)
            except client.exceptions.ExecutionDoesNotExist as error:
                if time.monotonic() < ends:
                    time.sleep(0.5)
                    continue
                raise RunNotStarted(
                    f"{self.id} has not begun within {seconds:.0f} s",
                    f"the function {function} did not receive the request, or failed; Lambda calls it again one minute "
                    "after a failure and two minutes after another one, so it may still begin",
                    f"{command_line('doctor')} lists given-up requests and how to repeat them; the reason is in: aws "
                    f"logs tail /{self.yard.name.lower()}/functions/{function}",
                ) from error
            return self

    def wait(self, seconds: float | None = None, every: float = 1.0) -> Self:
        """Wait until the run has ended and return it. Raise StillRunning after `seconds`."""
        ends = time.monotonic() + seconds if seconds is not None else None
        while not self.execution.is_over:
            if ends is not None and time.monotonic() >= ends:
                raise StillRunning(
                    f"{self.id} is still running after {seconds:.0f} s",
                    "the run continues",
                    "wait, or stop it",
                )
            time.sleep(every)
        return self

    def result(self, seconds: float | None = None) -> dict[str, Any]:
        """Wait until the run has ended and return its summary. Raise RunFailed with the run's reason unless it
        succeeded."""
        execution, summary = self.wait(seconds).execution, self.summary
        if execution.succeeded:
            return summary
        refused = summary.get("outcome") == "refused"
        raise (RunRefused if refused else RunFailed)(
            f"{self.id} {summary.get('outcome') or execution.status.lower()}: {self._reason(execution, summary)}",
            "nothing was launched" if refused else "what it has left is kept",
            "; ".join(self.reason().advice) or command_line("show", self.id),
        )

    def stop(self, *, now: bool = False) -> None:
        """Stop a run. A training run saves a checkpoint and ends as `stopped`; without hosts, it ends at once.

        `now` ends any run at once without a checkpoint, also before its admission. Repeating the call is safe, and an
        ended run does not change. Raise NotTaken if the yard's event bus refuses the request; with `now` the run ends
        anyway.
        """
        row = self.yard.row(self.id)
        if row and not now:
            people.send_request(self.yard, Stop(run=self.id))
            return
        if row and row.kind in ("train", STUDY):
            self._record_stop()
        cause = "a user has stopped it at once, without a checkpoint"
        try:
            self._states.stop_execution(executionArn=self.arn, error=Stopped.__name__, cause=cause)
        except ClientError:
            if not self.execution.is_over:
                raise

    def _record_stop(self) -> None:
        """Record who stops the run, so that it ends as `stopped`. The run ends even if the yard does not answer."""
        try:
            people.send_request(self.yard, Stop(run=self.id))
        except (YardError, ClientError):
            return
        until = time.monotonic() + NOTED_SECONDS
        while not ((row := self.yard.row(self.id)) and row.stopping) and time.monotonic() < until:
            time.sleep(0.25)

    def status(self) -> RunStatus:
        """Return the present state of the run."""
        execution, rows, metrics = self.execution, self.rows, self.latest_metrics
        states = {each["InstanceId"]: each["State"]["Name"] for each in self.yard.instances(self.id)}
        hosts = records.hosts_in(rows.hosts.values(), self._roles(rows.attempts.values()), states)
        row, plan = rows.run, rows.plan
        progress = further(progress_in(row.progress if row else None), progress_in(metrics))
        objective = objective_in(row.job or {}, row.objective, metrics) if row else None
        return RunStatus(
            at=datetime.now(UTC),
            execution=execution,
            attempt=row.attempt if row else 0,
            states=self.states,
            hosts=tuple(sorted(hosts, key=lambda host: host.rank)),
            timeline=self.timeline,
            progress=progress and replace(progress, objective=objective),
            samples=samples_in(metrics),
            attempts=tuple(records.attempts_in(rows.attempts.values())),
            pools=tuple(records.pools_in(plan)),
            launch_requests=records.list_answered_requests(rows.launch_requests, plan),
            row=row,
        )

    def follow(self, every: float = 2.0) -> Iterator[RunStatus]:
        """Yield the status every `every` seconds until the run has ended."""
        while True:
            status = self.status()
            yield status
            if status.execution.is_over:
                return
            time.sleep(every)

    def watch(self, every: float = 2.0) -> Iterator[tuple[RunStatus, list[LogLine]]]:
        """Yield the status every `every` seconds, with the new lines of the chief's program. The last status has the
        rest of the log."""
        chief = logs.RunLogs(self.yard.bucket, self.id, 1, ("chief",), later=True)
        while True:
            status = self.status()
            lines = list(chief.new())
            if not status.execution.is_over:
                yield status, lines
                time.sleep(every)
                continue
            while more := list(chief.new()):
                lines += more
            yield status, [*lines, *chief.incomplete_lines()]
            return

    def why(self) -> str:
        """Return status, error and cause, with the timeline below."""
        execution, events = self.execution, self.timeline
        lines = [f"{event.at:%H:%M:%S} {event.source} {event.event} {event.reason}" for event in events]
        return "\n".join([f"{execution.status} {execution.error}: {execution.cause}", *lines])

    def reason(self) -> Reason:
        """Return the reason for the run's state, in lines for users, with the next step."""
        found = reason_for(
            self.execution,
            self.yard.row(self.id),
            self.summary,
            saved=bool(self.json("checkpoints/latest.json")),
            now=datetime.now(UTC),
        )
        return found.without_logs() if found.logs and self._is_whole_log(found.lines) else found

    def _is_whole_log(self, said: Collection[str]) -> bool:
        """Return True if these lines contain all output of the last attempt's programs."""
        folder = keys.logs(self.id, self.attempt)
        if sum(self.yard.bucket.keys(folder).values()) > MOST_COMPARED_BYTES:
            return False
        lines = (line.partition(" | ")[2] for line in logs.text_of(self.yard.bucket, folder).splitlines())
        return all(line in said for line in lines if not line.startswith(OF_THE_AGENT))

    # ------------------------------------------------------------------------------------------------ its records
    @property
    def rows(self) -> RunRows:
        """Return the run's rows in the ledger, without its timeline."""
        return self.yard.rows(self.id)

    @property
    def timeline(self) -> tuple[Event, ...]:
        """Return the events of the run, oldest first."""
        return records.timeline_in(self.yard.timeline(self.id))

    @property
    def attempt(self) -> int:
        """Return the number of the last attempt; 1 before the first."""
        row = self.yard.row(self.id)
        return row.attempt if row else 1

    @property
    def progress(self) -> Progress | None:
        """Return the progress of the program, or None before it has reported a step."""
        row = self.yard.row(self.id)
        return progress_in(row.progress) if row else None

    @property
    def summary(self) -> dict[str, Any]:
        """Return the summary with outcome and cost; empty while the run continues."""
        return dict(self.json("summary.json"))

    @property
    def latest_metrics(self) -> dict[str, Any]:
        """Return metrics.json, which has the latest value of each metric; empty before the program's first step."""
        return dict(floats.with_numbers(self.json("metrics.json")))

    def points(self, *names: str) -> dict[str, MetricPoints]:
        """Return all points of the metrics with these names, or of all, each in the order of its steps.

        Raises MetricNotFound for a name that the program has not reported.
        """
        found, stored = samples_in(self.latest_metrics), metric_points.read(self.yard.bucket, self.id, names)
        for name, points in stored.items():
            points.add_later(
                found.get(name, MetricPoints())
            )  # points are sent every half minute, samples earlier
        found |= stored
        for name in names:
            if name not in found:
                raise MetricNotFound.of(name, [*found], self.id)
        return {name: found[name] for name in names} if names else found

    def curves(self, *names: str) -> dict[str, tuple[Loss, ...]]:
        """Return `points` as steps and values in order. Raises MetricNotFound."""
        return {name: points.curve for name, points in self.points(*names).items()}

    def metrics(self, *names: str) -> dict[str, list[Any]]:
        """Return `points` as the columns `metric`, `step`, `value`, `at` (seconds since 1970) and `epoch`, which pandas
        takes: `pandas.DataFrame(run.metrics()).pivot(index="step", columns="metric", values="value")`.

        Values may be NaN or infinite. An epoch that the program has not reported is None. Raises MetricNotFound.
        """
        columns: dict[str, list[Any]] = {"metric": [], "step": [], "value": [], "at": [], "epoch": []}
        for name, points in self.points(*names).items():
            columns["metric"] += [name] * len(points.steps)
            columns["step"] += points.steps
            columns["value"] += points.values
            columns["at"] += points.times
            columns["epoch"] += points.epochs
        return columns

    @property
    def logged_attempts(self) -> list[int]:
        """Return the numbers of the attempts with a log, in order."""
        sent = logs.sent_in(self.yard.bucket, self.id)
        return [number for number, hosts in sent.items() if hosts and number != logs.OF_BAKE]

    def log(self, host: str = "chief-0", attempt: int | None = None) -> str:
        """Return the log of a host in the last attempt or in a given one, with a time and the host before each line. A
        bake has the host `builder`. The log is empty if the host has none."""
        of_bake = host == "builder"
        folder = keys.bake_logs(self.id) if of_bake else keys.logs(self.id, attempt or self.attempt)
        return logs.text_of(self.yard.bucket, f"{folder}{host}/")

    def logs(
        self,
        *,
        follow: bool = False,
        role: str | None = None,
        attempt: int | None = None,
        tail: int | None = None,
        every: float = 2.0,
    ) -> Iterator[LogLine]:
        """Yield the lines of the programs of all hosts in the order of time, from the last attempt, or the newest one
        with a log, or a given one.

        `role` selects hosts: `worker` all workers, `worker:1` one, `builder` a bake's. `tail` limits the output to the
        last lines. With `follow`, new lines follow every `every` seconds, also of later attempts unless one is given,
        until the run has ended. Raise NothingFound without lines, with the attempts and hosts that have some.
        """
        chosen = Chosen(role, attempt)
        sent = logs.sent_in(self.yard.bucket, self.id)
        if chosen.is_mistyped or not (follow and not self.execution.is_over):
            self._check_logged(chosen, sent)
        first = attempt or max((number for number, hosts in sent.items() if hosts), default=self.attempt)
        is_bake = logs.BUILDER in sent.get(logs.OF_BAKE, ())
        hosts = (logs.BUILDER,) if is_bake else chosen.hosts
        run_logs = logs.RunLogs(self.yard.bucket, self.id, first, hosts, follow and not attempt)
        over = lambda: self.execution.is_over  # noqa: E731 - read at each look
        return self._some(run_logs.follow(over, every, tail) if follow else run_logs.read(tail), chosen)

    def find_lines(
        self, text: str, *, role: str | None = None, attempt: int | None = None
    ) -> Iterator[LogLine]:
        """Yield the lines of all attempts, or of one, that contain the text in any case. `role` selects hosts as in
        `logs`. Raise NothingFound if there is none."""
        chosen, sent = Chosen(role, attempt), logs.sent_in(self.yard.bucket, self.id)
        if attempt or chosen.is_mistyped or not any(sent.values()):
            self._check_logged(chosen, sent)
        hosts = (logs.BUILDER,) if sent.get(logs.OF_BAKE) else chosen.hosts
        numbers = [attempt] if attempt else [max(number, 1) for number in sent]
        wanted, found = text.casefold(), None
        for number in numbers:
            for line in logs.RunLogs(self.yard.bucket, self.id, number, hosts).read():
                if wanted in line.text.casefold():
                    yield (found := line)
        if found is None:
            raise NothingFound(
                f"no line of {self.id} contains {text!r}",
                "its programs have printed it in no attempt so far",
                command_line("logs", self.id),
            )

    def _some(self, lines: Iterator[LogLine], chosen: Chosen) -> Iterator[LogLine]:
        """Yield the lines. Raise NothingFound if there is none."""
        line = None
        for line in lines:
            yield line
        if line is None:
            self._check_logged(chosen, logs.sent_in(self.yard.bucket, self.id))
            raise NothingFound(
                f"{self.id} has printed nothing", "its log is empty", command_line("show", self.id)
            )

    def _check_logged(self, chosen: Chosen, sent: Mapping[int, Collection[str]]) -> None:
        if missing := chosen.missing(sent):
            what, means = missing
            raise NothingFound(f"{self.id}: {what}", means, command_line("show" if sent else "why", self.id))

    # ----------------------------------------------------------------------------------------------------- parts
    @property
    def _states(self) -> Any:
        return self.yard.session.client("stepfunctions")

    def _roles(self, attempts: Iterable[AttemptRow]) -> dict[str, str]:
        """Return the role of each host by instance, from the cluster.json of the latest attempt."""
        return {
            host["instance"]: f"{host['role']} {host['index']}"
            for row in attempts
            if row.started
            for host in self.json(f"attempts/{row.attempt}/cluster.json").get("hosts", [])
        }

    @staticmethod
    def _reason(execution: Execution, summary: dict[str, Any]) -> str:
        reason = summary.get("reason") or execution.error_text
        return str(reason or "the execution gives no cause")
