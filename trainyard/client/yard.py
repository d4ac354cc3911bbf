"""A deployed yard, and what a person does with it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from trainyard.client import listing, plan, submission
from trainyard.client.deployment import Deployment
from trainyard.client.errors import RunNotStarted
from trainyard.client.identity import jobs_folder
from trainyard.client.listing import ListedRun
from trainyard.client.plan import JobPlan
from trainyard.client.run import Run
from trainyard.client.submission import Upload


class Yard(Deployment):
    """`Yard.find()` answers the one that the environment points at."""

    def submit(self, job: Path | str) -> Run:
        """Upload the job file with its data and programs; answers the run that this started."""
        return self.run_for(self.upload(job))

    def upload(self, job: Path | str) -> Upload:
        """The first half of submit. The job file goes where the yard knows the caller by it."""
        return submission.upload(self.bucket, Path(job), jobs_folder(self.session))

    def plan(self, job: Path | str, seconds: float = 180) -> JobPlan:
        """What a run of the job would try now, in order, and what not; launches nothing, and leaves no run. Its data
        and programs are uploaded, which the yard looks into. Raises NotPlanned, with every reason; RunNotStarted or
        StillRunning where there is no answer within so many seconds."""
        file = Path(job)
        uploaded = submission.upload(self.bucket, file, jobs_folder(self.session), plan=True)
        return plan.read(file.name, self.run_for(uploaded, seconds).wait(seconds).execution.output)

    def bake(self, recipe: Path | str) -> Run:
        """Upload the recipe, which bakes an image, or finds that the current one is what a bake would make: the
        summary's `image` is the current one afterwards, its `kind` then says `unchanged`."""
        file = Path(recipe)
        key = f"images/{file.name}"
        return self.run_for(Upload(key, self.bucket.put(key, submission.content_of(file))))

    def start(self, workflow: str, payload: dict[str, Any], name: str | None = None) -> Run:
        """Start an execution of `train`, `bake`, `snapshot`, `launch` or `retire` with this input."""
        named = {"name": name} if name else {}
        started = self.session.client("stepfunctions").start_execution(
            stateMachineArn=self.workflows[workflow], input=json.dumps(payload), **named
        )
        return Run(self, str(started["executionArn"]))

    def run(self, run: str, workflow: str = "train") -> Run:
        """The run of this id; whether there is one is not asked."""
        return Run(self, f"{self.workflows[workflow].replace(':stateMachine:', ':execution:')}:{run}")

    def list(
        self, *, since: datetime | None = None, kind: str | None = None, limit: int = 50
    ) -> tuple[ListedRun, ...]:
        """The newest runs, of all kinds or of `train`, `bake`, `snapshot`, `launch`, that began since then, or since
        last month did: by one call a month that is come to, and more only where a month's rows fill a page (1 MB)."""
        now = datetime.now(UTC)
        since = since or listing.last_month(now)
        table = self.session.resource("dynamodb").Table(self.table)
        return tuple(islice(listing.newest(table, since=since, now=now, kind=kind, page=limit), limit))

    def runs(self, workflow: str = "train") -> Sequence[Run]:
        """All runs that Step Functions still knows, newest first."""
        pages = self.session.client("stepfunctions").get_paginator("list_executions")
        listed = pages.paginate(stateMachineArn=self.workflows[workflow])
        return [Run(self, str(each["executionArn"])) for page in listed for each in page["executions"]]

    def runs_of(self, key: str, version: str | None = None) -> Sequence[Run]:
        """Those that this object (in this version) started, newest first: runs for a job file, bakes for a recipe."""
        client, found = self.session.client("stepfunctions"), []
        for run in self.runs("bake" if key.startswith("images/") else "train"):
            given = json.loads(client.describe_execution(executionArn=run.arn)["input"])
            # anybody may start an execution with anything
            if isinstance(given, dict) and key in (given.get("job_key"), given.get("recipe_key")):
                found += [run] if version in (None, given.get("version_id")) else []
        return found

    def run_for(self, uploaded: Upload, seconds: float = 60) -> Run:
        """The run that this upload started. Raises RunNotStarted when there is none within so many seconds."""
        ends = time.monotonic() + seconds
        while not (found := self.runs_of(uploaded.key, uploaded.version)):
            if time.monotonic() > ends:
                raise RunNotStarted(
                    f"s3://{self.bucket.name}/{uploaded.key} has started no run within {seconds:.0f} s",
                    "the function submit has not heard of it, or has failed",
                    f"aws logs tail /{self.name.lower()}/functions/submit",
                )
            time.sleep(0.5)
        return found[0]
