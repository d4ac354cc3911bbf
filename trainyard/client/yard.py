"""A deployed yard with the actions of its users."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from trainyard.client import schedules
from trainyard.client.bucket import ignore_progress
from trainyard.client.deployment import Deployment
from trainyard.client.errors import RunFinished, RunGoesOn, RunNotFound, ScheduleNotChanged
from trainyard.client.fetching import OnProgress
from trainyard.client.identity import caller_name
from trainyard.client.jobs import source, submission
from trainyard.client.jobs.source import Destination, LocalJob
from trainyard.client.jobs.submission import Upload
from trainyard.client.registry import Model
from trainyard.client.run import Run
from trainyard.client.runs import html, listing, plan
from trainyard.client.runs.listing import BegunRun, ListedRun, Listing
from trainyard.client.runs.plan import JobPlan
from trainyard.client.schedules import Schedule
from trainyard.client.study import Study
from trainyard.command_line import command_line
from trainyard.core.jobfile.recipe import parse as parse_recipe
from trainyard.core.jobfile.written import as_file
from trainyard.protocol import keys
from trainyard.protocol.ledger.study import STUDY
from trainyard.values.validation import Fault, InputFaults

A_PAGE = 1_000
"""The rows of one query if only some of them are wanted."""


class Yard(Deployment):
    """A deployed yard. `Yard.find()` returns the one that the environment selects."""

    @cached_property
    def destination(self) -> Destination:
        """The caller's folders in the yard's bucket. The policy for users allows no others."""
        return Destination(self.bucket.name, caller_name(self.session))

    def submit(
        self,
        job: Path | str,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as the command has it
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        resume: str | None = None,
        after: Sequence[str] = (),
        when: str | None = None,
        force: bool = False,
    ) -> Run:
        """Submit a job with its local files and return its run. The run of a job with a study is a Study.

        `set` changes keys by their dotted names (`{"args.lr": 0.5}` is short for `program.args.lr`). `resume` continues
        a run from its last checkpoint or, without one, with its outputs. `after` names runs that must end before the
        run starts: with success, or in any way if `when` is `end`. Raise FileUnreadable; JobRefused with every
        fault; RunGoesOn if that run has not ended; KnownToFail, unless `force` is given, for a program that fails on
        every run.
        """
        local = source.read(job, changes=changes(set, name, labels, resume, after, when), to=self.destination)
        if not force:
            local.check_known_failures()
        if goes_on_from := local.job.checkpoints.resume:
            self.check_ended(goes_on_from)
        if local.job.schedule:
            raise source.refuse(local.file, (Fault("schedule", "makes no run; call Yard.schedule instead"),))
        return self.run(self.upload(local).run, local.workflow).wait_for_start()

    def schedule(
        self,
        job: Path | str,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as the command has it
        name: str | None = None,
    ) -> Schedule:
        """Submit a job with a schedule, which starts no run now, and return the schedule. It replaces an earlier
        schedule of the same name. Raise FileUnreadable; JobRefused with every fault; ScheduleNotChanged if the yard
        refuses it."""
        local = source.read(job, changes=changes(set, name), to=self.destination)
        if local.job.schedule is None:
            raise source.refuse(
                local.file, (Fault("schedule", "is missing; call Yard.submit to start a run"),)
            )
        return self.await_schedule(local, self.upload(local))

    def await_schedule(self, local: LocalJob, uploaded: Upload) -> Schedule:
        """Wait for the schedule of an uploaded job. Raise ScheduleNotChanged."""
        if made := schedules.wait_for(self, local.job.name, uploaded.version, lambda: self.row(uploaded.run)):
            return made
        row = self.row(uploaded.run)
        raise ScheduleNotChanged(
            f"the yard has not made the schedule {local.job.name}",
            (row.reason if row else None) or "it has not answered in time, and may still make it",
            command_line("schedules", "ls"),
        )

    def schedules(self) -> Sequence[Schedule]:
        """Return the schedules of the yard, by name."""
        return schedules.list_all(self)

    def rerun(
        self,
        run: str,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as the command has it
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        resume: bool = False,
        force: bool = False,
    ) -> Run:
        """Start a new run of a run's job with changes, from step 0 or, with `resume`, from the run's last checkpoint or
        its outputs.

        Raise RunNotFound for an unknown run; JobRefused; with `resume` RunGoesOn, and RunFinished unless the program's
        arguments are changed or `force` is given.
        """
        local = self.job_of(run, set=set, name=name, labels=labels, resume=resume, force=force)
        return self.run(self.upload(local).run, local.workflow).wait_for_start()

    def job_of(
        self,
        run: str,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as the command has it
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        resume: bool = False,
        force: bool = False,
    ) -> LocalJob:
        """Return the job of a run as it would be submitted again. Raise the errors of `again`."""
        admitted = self.bucket.json(keys.job(run))
        if admitted is None:
            raise RunNotFound(
                f"there is no job of {run}", "it was refused, or does not exist", command_line("ls")
            )
        asked, written = changes(set, name, labels, run if resume else None), as_file(admitted)
        if not resume:
            (written.get("checkpoints") or {}).pop("resume", None)
        written.pop("start_after", None)
        program = copy.deepcopy(written["program"])
        document = source.apply_changes(Path(f"{admitted['name']}.json"), written, asked)
        if resume:
            self.check_ended(run)
            if not force and written["program"] == program:
                self.check_unfinished(run)
        return source.check_document(Path(f"{admitted['name']}.json"), document, self.destination)

    def check_ended(self, run: str) -> None:
        """Raise RunGoesOn if the run has not ended. The yard refuses an unknown run itself, and waits for the last
        checkpoint of a run that is being stopped."""
        row = self.row(run)
        if row and not row.stopping and not Run(self, row.execution_arn).execution.is_over:
            raise RunGoesOn(
                f"{run} is still running",
                "a second run on its checkpoints would damage them; nothing was started",
                f"{command_line('show', run)}; to end it first: {command_line('stop', run)}",
            )

    def check_unfinished(self, run: str) -> None:
        """Raise RunFinished if the run has trained to its end."""
        found = self.run(run)
        if not found.succeeded:
            return
        steps = found.summary.get("steps") or {}
        at = f" at step {steps['done']}" if steps.get("done") is not None else ""
        planned = f" of {steps['planned']}" if at and steps.get("planned") else ""
        raise RunFinished(
            f"{run} has finished{at}{planned}",
            "a run that resumes it would cost money and find nothing left to train; nothing was started",
            f"{command_line('rerun', run)} starts at step 0; --set args.NAME=VALUE (such as args.epochs) with resume "
            "trains further, and --force resumes it as it is",
        )

    def upload(self, local: LocalJob, on_progress: OnProgress = ignore_progress) -> Upload:
        """Upload the local files and then the job, which starts the run."""
        return self.begin(local, self.send(local, on_progress))

    def send(self, local: LocalJob, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Upload the local files, which starts nothing, and return the keys of new ones."""
        return submission.send(self.bucket, local, on_progress)

    def begin(self, local: LocalJob, sent: tuple[str, ...] = ()) -> Upload:
        """Upload the job to the caller's folder, which starts the run. The job's local files must already be in the
        bucket."""
        return submission.submit(self.bucket, local, keys.owned(keys.JOBS, self.destination.user), sent)

    def plan(
        self,
        job: Path | str,
        seconds: float = 180,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as the command has it
    ) -> JobPlan:
        """Return the plan of a job without launching hosts. Data and programs are uploaded, because the yard inspects
        them. Raise FileUnreadable or JobRefused; NotPlanned with every reason; RunNotStarted or StillRunning without an
        answer in time."""
        local = source.read(job, changes=changes(set), to=self.destination)
        sent = self.send(local)
        uploaded = submission.submit(
            self.bucket, local, keys.owned(keys.JOBS, self.destination.user), sent, plan=True
        )
        planned = self.run(uploaded.run).wait_for_start(seconds).wait(seconds)
        return plan.read(local.file.name, planned.execution.output)

    def bake(self, recipe: Path | str) -> Run:
        """Upload a recipe and return its bake. Raise FileUnreadable, or JobRefused with every fault before the upload.

        The `kind` in the bake's summary is `unchanged` if the current image was up to date. `image` is the current
        image after the bake.
        """
        file = Path(recipe)
        text = source.content_of(file)
        found = parse_recipe(text, source=file.name)
        if isinstance(found, InputFaults):
            raise source.refuse(file, found.faults)
        uploaded = submission.begin(self.bucket, f"{keys.IMAGES}{file.name}", text)
        return self.run(uploaded.run, "bake").wait_for_start()

    @property
    def baking(self) -> Run | None:
        """Return the running bake of the yard's own recipe, which a deployment starts, or None."""
        states = self.session.client("stepfunctions")
        found = states.list_executions(stateMachineArn=self.workflows["bake"], statusFilter="RUNNING")
        for each in found["executions"]:
            asked = json.loads(states.describe_execution(executionArn=each["executionArn"])["input"])
            other = asked.get("recipe") or asked.get("rollback")
            if not other and asked.get("recipe_key", self.recipe) == self.recipe:
                return Run(self, str(each["executionArn"]))
        return None

    def start(self, workflow: str, payload: dict[str, Any], name: str | None = None) -> Run:
        """Start an execution of `train`, `bake`, `snapshot`, `dev-host` or `retire` with this input."""
        named = {"name": name} if name else {}
        started = self.session.client("stepfunctions").start_execution(
            stateMachineArn=self.workflows[workflow], input=json.dumps(payload), **named
        )
        return Run(self, str(started["executionArn"]))

    def run(self, run: str, workflow: str = "train") -> Run:
        """Return the run with this id, without checking that it exists. The run of a study is a Study."""
        arn = f"{self.workflows[workflow].replace(':stateMachine:', ':execution:')}:{run}"
        return Study(self, arn) if workflow == STUDY else Run(self, arn)

    def study(self, study: str) -> Study:
        """Return the study with this id. Raise RunNotFound for another run, or without a row in the ledger."""
        row = self.row(study)
        if row is None or row.kind != STUDY:
            what = f"{study} is a {row.kind} run" if row else f"the yard has no study {study}"
            raise RunNotFound(what, "it has no trials", command_line("study", "ls"))
        return Study(self, row.execution_arn)

    def model(self, name: str) -> Model:
        """Return the model with this name, without checking that it exists."""
        return Model(self, name)

    def list(
        self,
        *,
        since: datetime | None = None,
        kind: str | Sequence[str] | None = None,
        limit: int = 50,
        wanted: Callable[[ListedRun], bool] | None = None,
    ) -> Listing:
        """Return at most `limit` of the newest runs, of all kinds or of some (`train`, `study`, `bake`, `snapshot`,
        `dev-host`). Trials of studies are of the kind `train`.

        `since` is the earliest start of a run, by default the beginning of the previous month. `wanted` filters the
        runs. Each month takes one query, and more if its rows fill a page (1 MB). Months before the last run of the
        result are not queried.
        """
        now = datetime.now(UTC)
        since = since or listing.last_month(now)
        table = self.session.resource("dynamodb").Table(self.table)
        page = max(limit, A_PAGE) if wanted else limit
        kinds = (kind,) if isinstance(kind, str) else kind
        found = listing.newest(table, since=since, now=now, kinds=kinds, page=page)
        return Listing(islice(filter(wanted, found), limit))

    def not_admitted(self, listed: Collection[str]) -> Iterator[BegunRun]:
        """Yield the training runs that have begun and that the ledger does not list yet, the newest first. `listed` are
        the ids of listed runs. Executions that only plan a job are not runs."""
        states = self.session.client("stepfunctions")
        pages = states.get_paginator("list_executions").paginate(
            stateMachineArn=self.workflows["train"], statusFilter="RUNNING"
        )
        for run in listing.begun_in((each for page in pages for each in page["executions"]), listed):
            asked = json.loads(states.describe_execution(executionArn=run.arn)["input"])
            if ".plan." not in str(asked.get("job_key", "")):
                yield run

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks."""
        rows = (("yard", self.name), ("account", self.account), ("region", self.session.region))
        return html.facts((*rows, ("version", self.version), ("bucket", self.bucket.name)))

    def runs(self, workflow: str = "train") -> Sequence[Run]:
        """Return all runs that Step Functions lists, the newest first."""
        pages = self.session.client("stepfunctions").get_paginator("list_executions")
        listed = pages.paginate(stateMachineArn=self.workflows[workflow])
        return [Run(self, str(each["executionArn"])) for page in listed for each in page["executions"]]


def changes(
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as the command has it
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    resume: str | None = None,
    after: Sequence[str] = (),
    when: str | None = None,
) -> dict[str, Any]:
    """Return the options of `submit` as keys of the job file with their values."""
    made: dict[str, Any] = {**(set or {})}
    made |= {f"labels.{key}": value for key, value in (labels or {}).items()}
    made |= {"name": name} if name else {}
    made |= {"start_after.runs": [*after]} if after else {}
    made |= {"start_after.when": when} if when else {}
    return made | ({"checkpoints.resume": resume} if resume else {})
