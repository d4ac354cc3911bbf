"""One run: wait for it, follow it, read what it says and what it leaves."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from botocore.exceptions import ClientError

from trainyard.client import people
from trainyard.client.bucket import silent
from trainyard.client.deployment import Deployment
from trainyard.client.errors import (
    NoModel,
    NothingFound,
    RunFailed,
    RunNotStarted,
    RunRefused,
    StillRunning,
    YardError,
)
from trainyard.client.fetching import Fetched, Tell, Tree
from trainyard.client.models import FoundModel, find_models
from trainyard.client.runs import logs, records
from trainyard.client.runs.execution import Execution, State, states_of
from trainyard.client.runs.logs import Chosen, LogLine
from trainyard.client.runs.progress import Progress, further, losses_in, measures_in, progress_in
from trainyard.client.runs.reasons import Reason, reason_for
from trainyard.client.runs.records import Event
from trainyard.client.runs.status import RunStatus
from trainyard.client.unpacking import unpack
from trainyard.command_line import command_line
from trainyard.core.jobfile.references import split_uri
from trainyard.core.model.errors import Stopped
from trainyard.protocol import keys
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.ledger.reading import RunRows
from trainyard.protocol.requests import Stop
from trainyard.values import floats
from trainyard.values.quantities import sized

DOCUMENTS = {
    "metrics": "metrics.json",
    "summary": "summary.json",
    "plan": "plan.json",
    "timeline": "timeline.jsonl",
    "job": "job.json",
}
"""The files of a run's folder that users ask for by a word."""
OUTPUTS = "outputs/"
"""Begins the parts that are files or folders of the outputs."""
MOST_OFFERED = 5
"""Models that an error names."""
LOGS = re.compile(r"(attempts/\d+/)?logs/")
MOST_COMPARED_BYTES = 2**16
"""Of a log that is read to learn if a reason has all of it."""
OF_THE_AGENT = "[trainyard] "
"""Begins the lines of a log that the host's agent has written."""
NOTED_SECONDS = 10.0
"""How long an event takes to the run's row at most; it mostly is one."""


@dataclass(frozen=True)
class Run:
    """An execution of one of the yard's workflows: training, a bake, a snapshot, a launch.

    Nothing is kept here: every property asks AWS anew.
    """

    yard: Deployment = field(compare=False, repr=False)
    arn: str

    @property
    def id(self) -> str:
        """What it is called in the ledger, in tags, and in the bucket."""
        return self.arn.rsplit(":", 1)[-1]

    # --------------------------------------------------------------------------------------------- its execution
    @property
    def execution(self) -> Execution:
        """What DescribeExecution says."""
        return Execution.of(self._states.describe_execution(executionArn=self.arn))

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every event of the execution so far, oldest first."""
        pages = self._states.get_paginator("get_execution_history").paginate(executionArn=self.arn)
        return [event for page in pages for event in page["events"]]

    @property
    def states(self) -> tuple[State, ...]:
        """The states it has entered, oldest first."""
        return tuple(states_of(self.history))

    @property
    def succeeded(self) -> bool:
        """False also while it runs."""
        return self.execution.status == "SUCCEEDED"

    def started(self, seconds: float = 60) -> Self:
        """Return once there is such an execution. Raises RunNotStarted when there is none within so many seconds."""
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
                    "the function submit has not heard of the upload, or has failed",
                    f"aws logs tail /{self.yard.name.lower()}/functions/submit",
                ) from error
            return self

    def wait(self, seconds: float | None = None, every: float = 1.0) -> Self:
        """Return when it is over, however it ended. Raises StillRunning when it is not within so many seconds."""
        ends = time.monotonic() + seconds if seconds is not None else None
        while not self.execution.is_over:
            if ends is not None and time.monotonic() >= ends:
                raise StillRunning(
                    f"{self.id} is still running after {seconds:.0f} s", "it goes on", "wait, or stop it"
                )
            time.sleep(every)
        return self

    def result(self, seconds: float | None = None) -> dict[str, Any]:
        """Its summary, once it is over. Raises RunFailed with the run's own reason unless it succeeded."""
        execution, summary = self.wait(seconds).execution, self.summary
        if execution.status == "SUCCEEDED":
            return summary
        refused = summary.get("outcome") == "refused"
        raise (RunRefused if refused else RunFailed)(
            f"{self.id} {execution.status.lower()}: {self._reason(execution, summary)}",
            "nothing was launched" if refused else "what it has left is kept",
            "; ".join(self.reason().advice) or command_line("show", self.id),
        )

    def stop(self, *, now: bool = False) -> None:
        """Have a training run save a checkpoint and end as `stopped`, which its summary then says; one without hosts
        ends at once. `now`: end any run at once, without a checkpoint; so ends one that the yard has not admitted yet.
        Either may be asked for twice, and changes nothing of a run that is over. Raises NotTaken where the yard's event
        bus does not take it; `now` ends the run all the same."""
        row = self.yard.row(self.id)
        if row and not now:
            people.ask(self.yard, Stop(run=self.id))
            return
        if row and row.kind == "train":
            self._have_it_noted()
        cause = "somebody has stopped it at once, without a checkpoint"
        try:
            self._states.stop_execution(executionArn=self.arn, error=Stopped.__name__, cause=cause)
        except ClientError:
            if not self.execution.is_over:
                raise

    def _have_it_noted(self) -> None:
        """Who stops it, in its row: then it ends as `stopped`. Though nobody hears it, it ends."""
        try:
            people.ask(self.yard, Stop(run=self.id))
        except (YardError, ClientError):
            return
        until = time.monotonic() + NOTED_SECONDS
        while not ((row := self.yard.row(self.id)) and row.stopping) and time.monotonic() < until:
            time.sleep(0.25)

    def status(self) -> RunStatus:
        """Everything that is known of it now."""
        execution, rows, metrics = self.execution, self.rows, self.metrics
        states = {each["InstanceId"]: each["State"]["Name"] for each in self.yard.instances(self.id)}
        hosts = records.hosts_in(rows.hosts.values(), self._roles(rows.attempts.values()), states)
        row, plan = rows.run, rows.plan
        return RunStatus(
            at=datetime.now(UTC),
            execution=execution,
            attempt=row.attempt if row else 0,
            states=self.states,
            hosts=tuple(sorted(hosts, key=lambda host: host.rank)),
            timeline=self.timeline,
            progress=further(progress_in(row.progress if row else None), progress_in(metrics)),
            losses=tuple(losses_in(metrics)),
            measures=measures_in(metrics),
            attempts=tuple(records.attempts_in(rows.attempts.values())),
            pools=tuple(records.pools_in(plan)),
            asked=records.asked_in(rows.intents, plan),
            row=row,
        )

    def follow(self, every: float = 2.0) -> Iterator[RunStatus]:
        """Its status every so many seconds; the last one is of the run when it is over."""
        while True:
            status = self.status()
            yield status
            if status.execution.is_over:
                return
            time.sleep(every)

    def watch(self, every: float = 2.0) -> Iterator[tuple[RunStatus, list[LogLine]]]:
        """Yield its status every so many seconds, with the lines that the chief's program has printed since the last
        look. The last look is at the run when it has ended, with all that is left of its log."""
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
            yield status, [*lines, *chief.under_way()]
            return

    def why(self) -> str:
        """How it stands: status, error, cause, and the timeline below."""
        execution, events = self.execution, self.timeline
        lines = [f"{event.at:%H:%M:%S} {event.source} {event.event} {event.reason}" for event in events]
        return "\n".join([f"{execution.status} {execution.error}: {execution.cause}", *lines])

    def reason(self) -> Reason:
        """Why it is as it is, in lines for a person, and what to type next."""
        found = reason_for(
            self.execution,
            self.yard.row(self.id),
            self.summary,
            saved=bool(self.json("checkpoints/latest.json")),
            now=datetime.now(UTC),
        )
        return found.without_logs() if found.logs and self._is_whole_log(found.lines) else found

    def _is_whole_log(self, said: Collection[str]) -> bool:
        """Return True if these lines have all that the programs of the last attempt have printed."""
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
        """What happened to it, oldest first."""
        return records.timeline_in(self.yard.timeline(self.id))

    @property
    def attempt(self) -> int:
        """The number of its last attempt; 1 before there is one."""
        row = self.yard.row(self.id)
        return row.attempt if row else 1

    @property
    def progress(self) -> Progress | None:
        """How far the program is; None before it has reported a step."""
        row = self.yard.row(self.id)
        return progress_in(row.progress) if row else None

    @property
    def keys(self) -> list[str]:
        """What it has left in its folder."""
        prefix = keys.run(self.id)
        return [key.removeprefix(prefix) for key in self.yard.bucket.keys(prefix)]

    def text(self, name: str) -> str:
        """A file of its folder; empty where there is none."""
        return (self.yard.bucket.read(f"{keys.run(self.id)}{name}") or b"").decode(errors="replace")

    def json(self, name: str) -> Any:
        """The same, parsed; an empty mapping where there is none."""
        return json.loads(self.text(name) or "{}")

    @property
    def summary(self) -> dict[str, Any]:
        """How it ended, at what cost; empty while it runs."""
        return dict(self.json("summary.json"))

    @property
    def metrics(self) -> dict[str, Any]:
        """What the program has reported; empty before its first step."""
        return dict(floats.with_numbers(self.json("metrics.json")))

    @property
    def logged_attempts(self) -> list[int]:
        """Return the numbers of the attempts that have sent a log, in their order."""
        sent = logs.sent_in(self.yard.bucket, self.id)
        return [number for number, hosts in sent.items() if hosts and number != logs.OF_BAKE]

    def log(self, host: str = "chief-0", attempt: int | None = None) -> str:
        """What this host has printed, in the last attempt unless one is named; `builder` is that of a bake. The whole
        log as it lies in the bucket, a time and the host before each line; empty while there is none."""
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
        """What its programs have printed, line by line, all hosts in the order of time: of the last attempt unless one
        is named; if the last one has sent none, of the newest that has. `role` chooses hosts: `worker` all of them,
        `worker:1` one, `builder` a bake's; `tail`: the last lines only. With `follow` also what comes, of later
        attempts too unless one is named, until the run has ended and all is read; looks every so many seconds. Raises
        NothingFound if there is no line, with the attempts and hosts that have sent some."""
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

    def fetch(self, part: str, folder: Path | str, tell: Tell = silent) -> Fetched:
        """Fetch a part of what the run has left into the folder, unless it is there with the same content: `model`,
        `checkpoints`, `tensorboard`, `outputs`, `notebook`, `logs`, `source`, `everything`, or a document (`metrics`,
        `summary`, `plan`, `timeline`, `job`), or a file or a folder of the outputs (`outputs/weights/last.pt`,
        `outputs/saved/`). Files that were fetched into the folder from another run are removed.

        Raises FileUnreadable."""
        if part.startswith(OUTPUTS):
            return self._fetch_output(part, Path(folder), tell)
        if part == "source":
            return self._fetch_source(Path(folder), tell)
        if part == "checkpoints":
            return self._fetch_checkpoint(Path(folder), tell)
        own, prefix, wanted = keys.run(self.id), "", re.compile("")
        match part:
            case "everything":
                pass
            case "logs":
                wanted = LOGS
            case document if document in DOCUMENTS:
                wanted = re.compile(re.escape(DOCUMENTS[document]) + "$")
            case _:
                prefix = f"{part}/"
        below = {"outputs": "", "everything": "outputs/"}.get(part)
        return self.yard.bucket.fetch(
            own + prefix,
            Path(folder),
            tell,
            owner=self.id,
            wanted=lambda name: bool(wanted.match(name)),
            tree=self._tree(below) if below is not None else None,
        )

    def _fetch_output(self, path: str, folder: Path, tell: Tell) -> Fetched:
        """Fetch one file of the outputs, or one folder, whose path ends with a slash."""
        above, _, file = f"{keys.run(self.id)}{path}".rpartition("/")
        return self.yard.bucket.fetch(
            f"{above}/", folder, tell, owner=self.id, wanted=lambda name: not file or name == file
        )

    @property
    def models_in_outputs(self) -> list[FoundModel]:
        """The models that the program has left in its working folder."""
        prefix = keys.outputs(self.id)
        found = self.yard.bucket.keys(prefix)
        return find_models({key.removeprefix(prefix): size for key, size in found.items()})

    def _fetch_checkpoint(self, folder: Path, tell: Tell) -> Fetched:
        """Fetch the files of the newest checkpoint under the names that the program gave them."""
        key = str(self.json("checkpoints/latest.json").get("key") or "").rstrip("/")
        manifest = self.yard.bucket.json(f"{key}.json") if key else None
        if not manifest:
            return Fetched()
        names: dict[str, list[str]] = {}
        for name, (*_, below) in manifest["files"].items():
            names.setdefault(below, []).append(name)
        tree = Tree()
        links = {
            name: target for name, (target, _) in manifest["links"].items() if name not in manifest["files"]
        }
        tree.add({**manifest, "links": links}, "")
        prefix = key.rpartition("/")[0] + "/"
        return self.yard.bucket.fetch(prefix, folder, tell, owner=self.id, names=names, tree=tree)

    def fetch_events(self, folder: Path, tell: Tell = silent) -> int:
        """Fetch TensorBoard's events, also those that the program wrote into its working folder; return how many files
        there are."""
        kept = self.yard.bucket.fetch(
            keys.outputs(self.id),
            folder / "outputs",
            tell,
            owner=self.id,
            wanted=lambda name: ".tfevents." in name,
        )
        return self.fetch("tensorboard", folder, tell).files + kept.files

    def _tree(self, below: str) -> Tree:
        """Return the links, empty folders and times of what the hosts have kept as outputs."""
        tree, lists = Tree(), keys.outputs_of(self.id)
        for host in self.yard.bucket.folders(lists):
            said = self.yard.bucket.read(f"{lists}{host}/files.json")
            with suppress(ValueError):  # a program may have written another
                tree.add(json.loads(said or b"{}"), below if host == "chief-0" else f"{below}@{host}/")
        return tree

    def _fetch_source(self, folder: Path, tell: Tell) -> Fetched:
        """Fetch the program's archive from the bucket that has it, and unpack it."""
        uri = (self.json("job.json").get("program") or {}).get("source")
        if not uri:
            return Fetched()
        name, key = split_uri(uri)
        above, slash, file = key.rpartition("/")
        bucket = replace(self.yard.bucket, name=name)
        with tempfile.TemporaryDirectory(prefix="trainyard-source-") as made:
            archive = Path(made, file)
            if not bucket.fetch(
                above + slash, Path(made), tell, owner=self.id, wanted=lambda each: each == file
            ).files:
                return Fetched()
            return unpack(archive, folder, uri=uri, owner=self.id)

    def model(self, folder: Path | str, tell: Tell = silent) -> Path:
        """Fetch the model that the run has exported, or else the only one among its outputs, into the folder. Raises
        NoModel if there is none, or if there are several to choose from."""
        self.fetch_model(folder, tell)
        return Path(folder)

    def fetch_model(self, folder: Path | str, tell: Tell = silent) -> tuple[str, Fetched]:
        """Fetch the model as `model` does. Return the part that it was: `model`, or a path of the outputs."""
        if (fetched := self.fetch("model", folder, tell)).files:
            return "model", fetched
        found = self.models_in_outputs
        if len(found) == 1:
            part = f"{OUTPUTS}{found[0].path}"
            return part, self.fetch(part, folder, tell)
        if not found:
            raise NoModel(
                f"{self.id} has no model",
                "its program has left none in ${model}, and no file among its outputs is called like one (yet)",
                command_line("show", self.id),
            )
        listed = ", ".join(f"{each.path} ({sized(each.size)})" for each in found[-MOST_OFFERED:])
        more = f", and {len(found) - MOST_OFFERED} more" if len(found) > MOST_OFFERED else ""
        raise NoModel(
            f"{self.id} has no model in ${{model}}",
            f"its outputs have {len(found)} files or folders that may be one: {listed}{more}",
            command_line("get", self.id, f"{OUTPUTS}{found[-1].path}"),
        )

    # ----------------------------------------------------------------------------------------------------- parts
    @property
    def _states(self) -> Any:
        return self.yard.session.client("stepfunctions")

    def _roles(self, attempts: Iterable[AttemptRow]) -> dict[str, str]:
        """Role of each host by instance, as cluster.json of the latest attempt that has it says."""
        return {
            host["instance"]: f"{host['role']} {host['index']}"
            for row in attempts
            if row.started
            for host in self.json(f"attempts/{row.attempt}/cluster.json").get("hosts", [])
        }

    @staticmethod
    def _reason(execution: Execution, summary: dict[str, Any]) -> str:
        reason = summary.get("reason") or execution.said
        return str(reason or "the execution gives no cause")
