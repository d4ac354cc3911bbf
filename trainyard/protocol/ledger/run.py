"""The row of a run itself: `pk = run#<run>`, `sk = run`."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Any

from trainyard.protocol.imaging import Imaging
from trainyard.protocol.ledger.study import STUDY, Search
from trainyard.protocol.objective import Point
from trainyard.protocol.plan import Market
from trainyard.protocol.serving import Serves
from trainyard.protocol.trial import Pruned, Trial
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.serialization import Measure


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    STOPPED = "stopped"


class WaitsFor(StrEnum):
    """The reason why a run has no hosts yet."""

    CAPACITY = "capacity"
    """Capacity in EC2."""
    SLOT = "slot"
    """A slot in the yard."""
    RUN = "run"
    """The end of the run that it resumes."""
    RUNS = "runs"
    """The end of the runs in its job's `start_after`."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A run that waits, and for how long."""

    what: WaitsFor
    since: datetime
    next_request: datetime = field(metadata={"formerly": "asks"})
    """When it requests capacity or a slot next."""
    seconds: int
    """The seconds between two requests after that."""
    until: datetime
    """When it gives up at the latest."""
    reason: str
    refused: Mapping[str, int] = field(default_factory=dict)
    """How many capacity pools refused last, by the kind of the refusal."""
    position: int | None = None
    """The number of the run among the runs that wait for a slot: the first of them starts next."""
    queued: int | None = None
    """How many runs wait for a slot, with this one."""

    @property
    def awaited(self) -> str:
        """Return what the run waits for, in the words of users."""
        return {
            WaitsFor.SLOT: "a slot",
            WaitsFor.RUN: "the run that it resumes",
            WaitsFor.RUNS: "other runs",
        }.get(self.what, self.what.value)

    def next_request_after(self, now: datetime) -> datetime:
        """Return the time of the next request, as seen now."""
        late = max(0, ceil((now - self.next_request).total_seconds() / self.seconds))
        return min(
            self.next_request + timedelta(seconds=late * self.seconds), max(self.until, self.next_request)
        )


@dataclass(frozen=True)
class Moved:
    """How the image parameters of a family move."""

    image: str
    """The image that becomes current."""
    before: str
    """The image that was current and becomes previous."""


@dataclass(frozen=True, kw_only=True)
class LastLaunch:
    """The hosts of the last launch of a run."""

    pool: str
    """The capacity pool, in words."""
    market: Market
    gang: int
    """The number of hosts."""
    price: float
    """Dollars an hour of all hosts."""


@dataclass(frozen=True, kw_only=True)
class Preemption:
    """The last time that a run left its hosts for a run of a higher priority (the setting `preempt`)."""

    run: str
    """The run that needed its slot."""
    priority: int
    """The priority of that run."""
    attempt: int
    """The attempt that was ordered to leave first."""
    at: datetime
    """When it was ordered to leave."""
    queued: datetime | None = None
    """When the run began to wait for a slot again, without hosts."""
    given: datetime | None = None
    """When it got a slot again; None until then."""


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A run of any workflow."""

    run: str
    kind: str
    """`train`, `study`, `bake`, `snapshot` or `dev-host`."""
    state: str
    """The state of the workflow, for example `Launch`."""
    attempt: int
    """The number of the last attempt."""
    created: datetime
    execution_arn: str
    month: str = ""
    """The month of `created` (`2026-11`), the key of the index that lists runs."""
    name: str | None = None
    """The name of the job, the recipe or the image family."""
    job: Mapping[str, Any] | None = None
    """The job as it was admitted; None if it could not be read. Bakes and dev hosts have one, too, with one host."""
    job_key: str | None = None
    """The key of the job file in the bucket."""
    submitter: str | None = None
    """The user of a training run or of a dev host, as verified by IAM (core/model/submitter.py)."""
    requester: str | None = None
    """The account that S3 named for the upload."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of the job."""
    args: Mapping[str, str] = field(default_factory=dict)
    """The first arguments of the program as texts, for lists; empty if the job has them as a list."""
    trial: Trial | None = None
    """The place of the run in its study; None for a run that belongs to no study."""
    serves: Serves | None = None
    """The version that the run serves; None for a run that serves none."""
    warnings: tuple[str, ...] = ()
    """Probable failures of the program, and failures beside the run, a sentence each."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """Observations about hosts, each a sentence without a period, by subject: `hardware INSTANCE` (a fault), `slow
    INSTANCE` (slower than the others) and `gpu INSTANCE` (a GPU with a low clock or a slow link)."""
    limited: str | None = None
    """The limit of the program, with advice: a sentence without a period."""
    search: Search | None = None
    """The state of a study; None for other runs."""
    waiting: Waiting | None = None
    """The wait of a run that has no hosts; None for a run that does not wait."""
    last_launch: LastLaunch | None = None
    """The hosts of the last launch; None before the first one."""
    dollars: float | None = None
    """The cost of the run, once it has ended."""
    saved_dollars: float | None = None
    """The additional cost of the run if it had been on demand, once it has ended."""
    pool_dollars: float | None = None
    """The cost of its hosts in the warm pool, which `dollars` includes."""
    begun: datetime | None = None
    """When the hours of the run begin, if that is later than `created`: when the runs that it waited for had ended, and
    later by each wait after a preemption. None for all other runs."""
    deadline: datetime | None = None
    """When its hours are used up."""
    progress: Mapping[str, Any] | None = None
    """The last report of the program: `step`, `steps`, `epoch`, `loss`, `accuracy`, `steps_per_second`, `nan_since`,
    with `at` and `attempt`. A loss or accuracy that is not finite is a text: `NaN`, `Infinity`, `-Infinity`."""
    scalars: Mapping[str, Measure] | None = None
    """The latest values of the program's other metrics, of the same report as `progress`."""
    objective: Point | None = None
    """The latest value of the metric in the job's `objective`, of the same report as `progress`."""
    image_id: str | None = None
    """The AMI that its hosts start from."""
    hold_hours: float | None = None
    """How long a dev host is held."""
    image: str | None = None
    """The image that the run has made."""
    recipe: Mapping[str, Any] | None = None
    """recipe.json of a bake."""
    recipe_sha256: str | None = None
    """Hash of the recipe file of a bake."""
    published: Moved | None = None
    """How a bake moves the image parameters, written before it does."""
    imaging: Imaging | None = None
    """The host that becomes an image, of a snapshot or at the end of a run with `after.image`."""
    dev: str | None = None
    """The name of the dev host that this run launches."""
    outcome: Outcome | None = None
    """How the run ended."""
    error: str | None = None
    """The error of a run that failed."""
    reason: str | None = None
    """Why the run ended."""
    cut_short: datetime | None = None
    """When a function found that the execution had ended before Conclude. Launch requests no host after this time."""
    stopping: datetime | None = None
    """When a user asked for the run to be stopped."""
    stopped_by: str | None = None
    """The user who asked for the stop."""
    preempted: Preemption | None = None
    """The last preemption of the run; None for a run that never left for another."""
    pruned: Pruned | None = None
    """Why its study stopped a trial at a rung."""
    grows: datetime | None = None
    """When an elastic run that has fewer hosts than it may have can ask for more; None if it has all hosts."""
    ended: datetime | None = None
    notifying: datetime | None = None
    """When a function began to send the notification of the end."""
    notified: datetime | None = None
    """When that notification was sent."""

    @property
    def hours_since(self) -> datetime:
        """Return when the hours of the run begin."""
        return self.begun or self.created

    @property
    def leaves_for(self) -> Preemption | None:
        """Return the preemption that is under way: the run has not got a slot again. None for other runs."""
        return self.preempted if self.preempted and self.preempted.given is None else None

    @property
    def price(self) -> float | None:
        """Return the dollars an hour of all hosts of the last launch."""
        return self.last_launch.price if self.last_launch else None

    @property
    def lacks_notification(self) -> bool:
        """Return True if the run has ended and its notification is not sent yet. A trial has none."""
        notifies = self.kind in ("train", STUDY) and self.trial is None
        return notifies and self.ended is not None and self.notified is None

    def is_of(self, execution: str | None, started: datetime | None = None) -> bool:
        """Return True if the run belongs to this execution. None matches any.

        Executions of two workflows may have one name and so one run, and Step Functions allows a name again after 90
        days. Only `started` tells those two apart."""
        same = execution is None or self.execution_arn == execution
        return same and (
            started is None or serialization.timestamp(self.created) == serialization.timestamp(started)
        )
