"""Invariants of served hosts: who answers, when a host is gone, and that a user always learns what happens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from simulation.aws.ec2 import Instance
from simulation.hosts.serving import WRONG
from simulation.invariants.model import Invariant
from simulation.yard.models import MODEL
from simulation.yard.serving import HOW, is_host
from trainyard.protocol.ledger.models import VersionState
from trainyard.protocol.serving import JOB_NAME
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.invariants.models import Models
    from simulation.yard import Yard

IDLE = timedelta(minutes=HOW.idle_minutes)
GONE = timedelta(minutes=2)
"""The time from the end of the idle time until the host is terminated: the results, Release, and a pass of patrol."""
NOTICED = timedelta(minutes=25)
"""This time after a fault: a host that hangs is found after 15 minutes, and the next attempt ends soon."""
STARTED = timedelta(minutes=26)
"""The longest time from the launch of a host until it is ready."""
DIFFERS = "differs from TensorFlow's answers"
LEAST_SAID = 20
"""The fewest characters of a sentence that says what to do."""


def is_served(run: str) -> bool:
    return run.startswith(f"{JOB_NAME}-{MODEL}-")


@dataclass
class Hosts:
    """Watches the served hosts of a yard."""

    yard: Yard
    breaks: Callable[[Invariant, str], None]
    excess: list[tuple[str, timedelta]] = field(default_factory=list)
    """By how much each host has outlived its idle time."""

    def look(self, instance: Instance) -> None:
        """Check that a version has one run at a time."""
        if not (instance.live and is_host(instance.tags)):
            return
        rows = self.yard.model_users.rows
        retired = (
            {each.number for each in rows.versions if each.state is VersionState.RETIRED} if rows else set()
        )
        runs = defaultdict[str, set[str]](set)
        for each in self.yard.ec2.instances.values():
            if each.live and is_host(each.tags) and (run := each.tags.get(Tag.RUN)):
                runs[run.rpartition("-")[0]].add(run)
        for version, found in runs.items():
            if int(version.rpartition("-")[2]) in retired and any(self._is_open(run) for run in found):
                self.breaks(
                    Invariant.VERSIONS, f"{' and '.join(sorted(found))} serve {version}, which is retired"
                )
            if len(found) > 1 and sum(self._is_open(run) for run in found) > 1:
                self.breaks(Invariant.ONE_CLAIMANT, f"{' and '.join(sorted(found))} serve {version} at once")

    def _is_open(self, run: str) -> bool:
        return "ended" not in (self.yard.run_row(run) or {"ended": None})

    def conclude(self, models: Models, *, is_survived: bool) -> None:
        """Check all requests and hosts at the end."""
        users = self.yard.host_users
        for asked in users.asked:
            if not asked.is_over:
                self.breaks(Invariant.NEVER_STUCK, f"a user of {asked.at} still waits for a host")
            elif asked.answer is None and not any(len(said) >= LEAST_SAID for said in asked.said):
                self.breaks(Invariant.ONE_END, f"a user of {asked.at} has learned nothing: {asked.said}")
            if (answer := asked.answer) and VersionState.READY not in models.states_at(
                answer.version, answer.at
            ):
                self.breaks(
                    Invariant.VERSIONS, f"{answer.instance} answered with a version that was not ready"
                )
        if is_survived and users.in_vain:
            self.breaks(
                Invariant.SURVIVES,
                f"predictions were given up, although only infrastructure failed: {users.asked[-1].said}",
            )
        self._check_wrong(is_survived=is_survived)
        for each in self.yard.ec2.ever.values():
            if is_served(each.tags.get(Tag.RUN, "")):
                self._check_idle(each)

    def _check_wrong(self, *, is_survived: bool) -> None:
        """Check that a version with wrong answers is refused by its first host, with the host's reason."""
        rows, users = self.yard.model_users.rows, self.yard.host_users
        wrong = next((each for each in rows.versions if each.label == WRONG), None) if rows else None
        if wrong is None:
            return
        if wrong.state is VersionState.READY and is_survived:
            self.breaks(Invariant.VERSIONS, f"version {wrong.shown} has wrong answers, and is ready")
        for asked in users.asked:
            if is_survived and not any(DIFFERS in said for said in asked.said):
                self.breaks(
                    Invariant.ONE_END, f"a user has not learned why no host serves {WRONG}: {asked.said}"
                )
        runs = [each.name for each in self.yard.runs() if is_served(each.name)]
        if is_survived and len(runs) != 1:
            self.breaks(Invariant.SURVIVES, f"{len(runs)} runs have tried to serve {WRONG}")

    def _check_idle(self, host: Instance) -> None:
        """Check that a host does not outlive its idle time."""
        used, end = self.yard.host_users.used.get(host.id), host.ended or self.yard.world.now
        allowed = IDLE + (NOTICED if self.yard.plan.all_faults else GONE)
        lived = end - (used or host.created + STARTED)
        self.excess.append((host.id, lived - IDLE))
        if lived > allowed:
            self.breaks(
                Invariant.NO_ORPHAN, f"{host.id} lived for {lived} after its last answer, instead of {IDLE}"
            )
