"""A launch request for the missing hosts of an attempt."""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Literal

from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import event_row, launch_request_counted, launch_request_row
from lambdas.aws.dynamodb.write import Write
from lambdas.core.capacity import initialization
from lambdas.core.capacity.placement import Try
from lambdas.core.capacity.plan import Part, describe_candidates, parts
from lambdas.core.run import LaunchRequestUpdate
from lambdas.core.run.records import Records
from lambdas.environment import YardSettings
from lambdas.steps.observability import note
from trainyard.core.model import tokens
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.plan import Candidate, Plan
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count


class LaunchSettings(YardSettings):
    topic_arn: str
    launch_templates: tuple[str, ...]
    """The launch templates by the rate for fetching a disk in MiB/s, 0 for none: `300=lt-0123:1`."""
    kms_key: str = ""
    """The ARN of the key for disks, as in the launch templates; empty for the default key of the account."""
    most_runs: int = 0
    most_hosts: int = 0
    """The yard's limits of training runs and of hosts at once, for a run that waits for a slot again; 0: no limit."""


@dataclass(frozen=True)
class LaunchRequest:
    """A request for the hosts that one attempt lacks, or for `more` hosts while an attempt trains."""

    yard: LaunchSettings
    ledger: Ledger
    records: Records
    attempt: int
    step: Try
    """The candidates of the plan that the request names. EC2 chooses one of them."""
    chosen: int | None = None
    """The index of the candidate that EC2 chose, once it is known."""
    more: int = 0
    requested_at: datetime | None = None
    """The time of the request for `more` hosts."""
    warm: Mapping[str, str] = field(default_factory=dict)
    """The hosts of the warm pool that are claimed in place of a request to EC2, each with the run that kept it."""

    @property
    def run(self) -> str:
        return self.records.run.run

    @property
    def job(self) -> Job:
        assert self.records.job is not None, "an admitted run has a job"
        return self.records.job

    @property
    def plan(self) -> Plan:
        assert self.records.plan is not None, "Plan comes before Launch"
        return self.records.plan

    @property
    def indexes(self) -> tuple[int, ...]:
        """Return the indexes of the candidates that the request still names."""
        return (self.step.candidate, *self.step.batch) if self.chosen is None else (self.chosen,)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(self.plan.candidates[index] for index in self.indexes)

    @property
    def candidate(self) -> Candidate:
        """Return the candidate that EC2 chose, or the first candidate of the request."""
        return self.candidates[0]

    @property
    def pool(self) -> str:
        return describe_candidates(self.candidates)

    def into(self, candidate: Candidate) -> "LaunchRequest":
        """Return the request after EC2 chose this candidate."""
        return replace(self, chosen=self.plan.candidates.index(candidate)) if self.step.batch else self

    @property
    def root_gib(self) -> int | None:
        """Return the size of a root disk in the recipe of a bake, or in the job; None: the size of the image."""
        return (self.records.run.recipe or {}).get("root_gib") or self.job.hardware.disk_gib

    @property
    def disk_gib(self) -> int:
        """Return the size of a host's disk."""
        return int((self.records.run.recipe or {}).get("root_gib") or self.plan.disk_gib)

    @property
    def remaining(self) -> tuple[HostRow, ...]:
        return self.records.initial_hosts(self.attempt)

    @property
    def missing(self) -> tuple[Part, ...]:
        remaining = [(host.instance, host.gang, host.type) for host in self.remaining]
        return parts(self.job, self.candidates, remaining)

    @property
    def no_request_reason(self) -> str:
        """Return the reason for a launch without a request to EC2."""
        have = len(self.remaining)
        return (
            f"no request: {format_count(have, 'host')} are enough"
            if have < self.job.gang
            else "no request: no host is missing"
        )

    @property
    def sizes(self) -> str:
        """Return how many workers the job may have, if its cluster is elastic."""
        cluster = self.job.cluster
        least, most = cluster.least_workers, cluster.most_workers
        return f" (cluster.workers: {least} to {most})" if cluster.is_elastic else ""

    def volume_charge(self, rate: int) -> float:
        """Return what the fast initialization of one disk costs, in dollars."""
        return initialization.dollars(self.plan.image_gib, rate, self.plan.gib_month)

    def client_token(self, which: Gang, rate: int) -> str:
        """Return the client token. EC2 answers a repeated request with the same hosts."""
        return tokens.client_token(
            self.run,
            yard=self.yard.yard,
            attempt=self.attempt,
            candidate=self.step.candidate,
            round=self.step.round,
            gang=which,
            rate=rate,
        )

    def row(self, values: LaunchRequestUpdate, *, unless: Literal["token"] | None = None) -> Write:
        return launch_request_row(
            self.run, self.attempt, self.step.candidate, self.step.round, values, unless=unless
        )

    def new_rows(self, values: LaunchRequestUpdate) -> tuple[Write, Write]:
        """Return the request's row, and that it is the next of its attempt: of two calls at the same time, one asks."""
        counted = launch_request_counted(
            self.run, self.attempt, self.records.count_launch_requests(self.attempt)
        )
        return self.row(values, unless="token"), counted

    def event(self, event: str, reason: str, now: datetime, **detail: str | list[str]) -> Write:
        return event_row(
            self.run, note(event, reason, at=now, attempt=self.attempt, pool=self.pool, **detail)
        )
