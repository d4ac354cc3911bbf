"""Signs of life of a program, by which the chief's agent sees that it hangs."""

from __future__ import annotations

from collections.abc import Hashable

from simulation.hosts.agent.reports import Reports
from simulation.hosts.gang import Gang
from simulation.hosts.pace import Phase
from training.host.agent.life import Peers
from training.host.program.silence import Effort, Silence

WAITING_SHARE = 0.002
"""Of a processor, by gRPC's polling and heartbeats: seen of gangs that hung."""


class SignsOfLife:
    """What the program and its peers have shown up to now."""

    def __init__(self, reports: Reports, peers: Peers, now: float) -> None:
        self._reports, self._peers = reports, peers
        self._silence, self._effort = Silence(), Effort()
        self._used, self._looked = 0.0, now

    def hangs(self, gang: Gang, now: float) -> bool:
        """Return True once there was no sign of life for too long."""
        return self._silence.hangs(now, lambda: self._look(gang, now))

    def _look(self, gang: Gang, now: float) -> Hashable:
        """A program that is silent uses its processor, unless it stands still or waits for its peers."""
        works = gang.phase in (Phase.TRAINING, Phase.ENDING) and not gang.work.delegates
        self._used += (now - self._looked) * (1.0 if works else WAITING_SHARE)
        self._looked = now
        self._effort.look(now, self._used)
        shown = (0 if gang.work.silent else gang.step, self._reports.length)
        if self._reports.reports:
            return (*shown, self._effort.looks) if self._reports.is_at_its_end else shown
        return (*shown, self._effort.looks, self._peers.signs(now) if self._peers.are_there else None)
