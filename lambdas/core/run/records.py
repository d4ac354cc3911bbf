"""All rows of one run in the ledger (trainyard/protocol/ledger)."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from lambdas.core.capacity.plan import Refusal, list_refusals
from trainyard.core.model import gang
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Gang, Role
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.attempt import Ending, TokenRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.launch_request import LaunchRequestRow
from trainyard.protocol.ledger.reading import RunRows
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.plan import Candidate, Market, Plan
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

LONGEST_LAUNCH_REQUEST = timedelta(minutes=1)
"""The longest a launch request to EC2 takes when it is not throttled. Patrol never concludes a run earlier."""
WAITING = ("train", "await_hosts")
"""The tokens that the end of an attempt can answer."""
TOKENS_BY_KIND: Mapping[str, tuple[str, ...]] = {"train": WAITING, "bake": ("install", "test", "generalize")}
"""The tokens that the end of a run's host answers, by the kind of the run. EC2 makes an image without the host, so the
end of the image answers that token."""


@dataclass(frozen=True)
class Records(RunRows):
    """All rows of a run that Admit has written, except its timeline."""

    run: RunRow

    @cached_property
    def plan(self) -> Plan | None:
        """Return the plan, read on demand: its row is the largest, and most signals do not need it."""
        return None if self.planned is None else serialization.from_json(Plan, self.planned)

    @cached_property
    def job(self) -> Job | None:
        """Return the run's job; None if it could not be read when the run was admitted."""
        return None if self.run.job is None else serialization.from_json(Job, self.run.job)

    @property
    def torn(self) -> str | None:
        """Return the missing rows of the current attempt; None if it is complete. Rows disappear only by an
        intervention, and no signal can be interpreted without them. The host of a snapshot belongs to another run."""
        if self.run.kind == "snapshot":
            return None
        number = self.run.attempt
        row = self.attempts.get(number)
        if row is None:
            launched = any(
                each.attempt == number and each.answer == "launched" and each.more is None
                for each in self.launch_requests
            )
            waited = any((number, wait) in self.tokens for wait in WAITING)
            return f"attempt {number}" if launched or waited else None
        return ", ".join(sorted(set(row.hosts) - set(self.hosts))) or None

    def waiting(self, attempt: int, waits: Iterable[str] = WAITING) -> TokenRow | None:
        """Return the token that waits for the end of this attempt; None if no token does."""
        rows = (self.tokens.get((attempt, wait)) for wait in waits)
        return next((row for row in rows if row is not None and row.answered is None), None)

    def first_market(self, attempt: int) -> Market | None:
        """Return the market to try before the plan's order: on demand for a single host that follows an interrupted
        one, which had no checkpoint."""
        earlier = (row.ending for number, row in self.attempts.items() if number < attempt)
        alone = self.run.kind != "train"
        return Market.ON_DEMAND if alone and Ending.INTERRUPTED in earlier else None

    def failed_candidates(self, attempt: int) -> tuple[int, ...]:
        """Return the candidates whose single host failed in an earlier attempt. Hosts of a gang fail with their
        program, or are in quarantine."""
        if self.run.kind == "train":
            return ()
        return tuple(
            row.where for row in self.launch_requests if row.attempt < attempt and row.answer == "launched"
        )

    def members(self, attempt: int) -> tuple[HostRow, ...]:
        """Return the hosts of the attempt, both gangs, sorted by id."""
        row = self.attempts.get(attempt)
        return tuple(self.hosts[host] for host in sorted(row.hosts) if host in self.hosts) if row else ()

    def assigned(self, attempt: int) -> tuple[tuple[Role, HostRow], ...]:
        """Return the hosts of the attempt with their roles, the chief first."""
        return tuple(
            (assignment.role, self.hosts[assignment.instance]) for assignment in self.assignments(attempt)
        )

    def assignments(self, attempt: int) -> tuple[Assignment, ...]:
        """Return the hosts of the attempt with their roles and numbers, the chief first."""
        assert self.job is not None, "only a job's hosts have roles"
        return tuple(gang.assignments(self.job, self.members(attempt)))

    def chief(self, attempt: int) -> HostRow | None:
        """Return the chief, which reports for the attempt and saves; None before the attempt is launched."""
        return next((host for role, host in self.assigned(attempt) if role is Role.CHIEF), None)

    def incomplete_gang(self, attempt: int) -> tuple[HostRow, ...]:
        """Return the hosts of an incomplete launch of this attempt that still run."""
        if attempt in self.attempts or self.unanswered(attempt):
            return ()
        return tuple(host for host in self.hosts.values() if host.attempt == attempt and host.lives)

    def ready(self, attempt: int) -> frozenset[str]:
        """Return the members that wait for this attempt's start: they signalled ready for it, or for an earlier one
        that never reached Train."""
        return frozenset(
            host.instance
            for host in self.members(attempt)
            if host.ready and all((n, "train") not in self.tokens for n in range(host.ready, attempt))
        )

    def remaining(self, attempt: int) -> tuple[HostRow, ...]:
        """Return the hosts of earlier attempts that stay."""
        return tuple(host for host in self.hosts.values() if host.attempt < attempt and host.stays)

    def unreachable(self, attempt: int) -> tuple[HostRow, ...]:
        """Return the hosts of earlier attempts that were retained and then interrupted or lost, and still run. This
        attempt cannot use them."""
        if attempt in self.attempts or self.unanswered(attempt):
            return ()
        before = (host for host in self.hosts.values() if host.attempt < attempt)
        return tuple(host for host in before if host.ending_reason and host.is_unended)

    def joining(self) -> tuple[HostRow, ...]:
        """Return the hosts that were added to join the next attempt and still run, failed ones included. Only elastic
        jobs have any."""
        row, job = self.attempts.get(self.run.attempt), self.job
        if row is None or job is None or not job.cluster.is_elastic:
            return ()
        others = (host for host in self.hosts.values() if host.instance not in row.hosts)
        return tuple(host for host in others if host.is_unended)

    def initial_hosts(self, attempt: int) -> tuple[HostRow, ...]:
        """Return the remaining hosts with which the attempt begins. If enough of them were ready, the attempt does not
        wait for the others, which join later."""
        remaining, job = self.remaining(attempt), self.job
        ready = tuple(host for host in remaining if host.ready)
        enough = (
            job is not None
            and job.cluster.is_elastic
            and all(
                sum(host.gang is which for host in ready) >= gang.size(job.at_least, which) for which in Gang
            )
        )
        return ready if enough else remaining

    def growth(self) -> LaunchRequestRow | None:
        """Return the request for more hosts without a recorded answer."""
        return next(
            (row for row in self.launch_requests if row.more is not None and row.answer is None), None
        )

    def refusals(self, attempt: int) -> tuple[Refusal, ...]:
        """Return the refusals of this attempt's search, oldest first."""
        asks = sorted(self._first_requests(attempt), key=lambda row: (row.round, row.at))
        return tuple(refusal for row in asks for refusal in list_refusals(row))

    def unanswered(self, attempt: int) -> LaunchRequestRow | None:
        """Return the launch request of this attempt without a recorded answer: the function died before it could write
        one."""
        return next((row for row in self._first_requests(attempt) if row.answer is None), None)

    def count_launch_requests(self, attempt: int) -> int:
        """Return how many requests for the attempt's first hosts were made, to EC2 or to the warm pool."""
        return len(self._first_requests(attempt))

    def _first_requests(self, attempt: int) -> list[LaunchRequestRow]:
        return [row for row in self.launch_requests if row.attempt == attempt and row.more is None]

    def has_open_request(self, now: datetime) -> bool:
        """Return True if Launch may still wait for EC2's answer. Patrol counts an older request as dead."""
        return any(
            row.answer is None and now - row.at < LONGEST_LAUNCH_REQUEST for row in self.launch_requests
        )

    def searching_since(self, attempt: int, now: datetime) -> datetime:
        """Return when this attempt's search for capacity began."""
        return min((row.at for row in self.launch_requests if row.attempt == attempt), default=now)

    def held_candidate(self, attempt: int) -> int | None:
        """Return the index of the candidate of the remaining hosts; None if no host remains."""
        remaining = self.remaining(attempt)
        candidates = self.plan.candidates if remaining and self.plan else ()
        return next(
            (
                n
                for n, candidate in enumerate(candidates)
                if all(_is_of(host, candidate) for host in remaining)
            ),
            None,
        )

    def requested_candidates(self) -> list[dict[str, Any]]:
        """Return each requested candidate with its answer, in order. plan.json has them under `launch_requests`."""
        candidates = self.plan.candidates if self.plan else ()
        return [
            {
                "attempt": row.attempt,
                "pool": candidates[candidate].pool,
                "at": serialization.timestamp(row.at),
                "answer": row.answer or "unknown",
                "code": code,
                "reason": reason,
            }
            for row in sorted(self.launch_requests, key=lambda row: row.at)
            for candidate, code, reason in row.answers()
        ]


def from_rows(run: str, rows: Iterable[Mapping[str, Any]]) -> Records | None:
    """Return the records that these rows hold; None if the run's own row is missing."""
    found = reading.read_all(run, rows)
    if found.run is None:
        return None
    return Records(**vars(found))


def _is_of(host: HostRow, candidate: Candidate) -> bool:
    types = [choice.type for choice in candidate.choices(host.gang)]
    return (host.zone, host.market) == (candidate.zone, candidate.market) and host.type in types
