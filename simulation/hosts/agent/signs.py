"""Signs of life, with which the chief's agent detects a hanging program."""

from __future__ import annotations

from collections.abc import Hashable

from simulation.hosts.agent.reports import Reports
from simulation.hosts.gang import Gang
from simulation.hosts.pace import Phase
from training.host.agent.life import Peers
from training.host.program.silence import Effort, Silence

WAITING_SHARE = 0.002
"""The CPU share of a hanging gang, caused by gRPC's polling and heartbeats; measured."""


class SignsOfLife:
    """The signs of life of a program and its peers so far."""

    def __init__(self, reports: Reports, peers: Peers, now: float) -> None:
        self._reports, self._peers = reports, peers
        self._silence, self._effort = Silence(), Effort()
        self._used, self._looked = 0.0, now

    def hangs(self, gang: Gang, now: float) -> bool:
        """Return True after too long a time without a sign of life."""
        return self._silence.hangs(now, lambda: self._look(gang, now))

    def _look(self, gang: Gang, now: float) -> Hashable:
        """Return the current signs. A silent program uses its CPU unless it hangs or waits for its peers."""
        works = gang.phase in (Phase.TRAINING, Phase.ENDING) and not gang.work.delegates
        self._used += (now - self._looked) * (1.0 if works else WAITING_SHARE)
        self._looked = now
        self._effort.look(now, self._used)
        shown = (0 if gang.work.silent else gang.step, self._reports.length, gang.lines)
        if self._reports.reports:
            return (*shown, self._effort.looks) if self._reports.is_at_its_end else shown
        return (*shown, self._effort.looks, self._peers.signs(now) if self._peers.are_there else None)
