"""The chief's watch over its peers, in a thread: training calls may block on a lost peer."""

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from trainyard.protocol.processes import RESTART
from trainyard.runtime.processes.exiting import leave
from trainyard.runtime.processes.forming import answers

LOOK_SECONDS = 1.0
LOOKS_UNTIL_GONE = 2
SAVE_SECONDS = 60.0
FIRST_TURN_SECONDS = 180.0
STALLED_SECONDS = 60.0
SLOW_TURNS = 20
"""A worker may take STALLED_SECONDS for a turn, or the average time of this many turns."""


class Watch:
    """Watches peers, given by address and name.

    Without a `vital` peer nothing can be saved, so this process exits at once with RESTART. Without a helper it can
    still save: `gone` names the helper, and the process must exit within SAVE_SECONDS, or it is ended. It is also
    ended if no new step comes for too long.
    """

    def __init__(self, *, vital: Mapping[str, str], helpers: Mapping[str, str]) -> None:
        self.gone = ""
        self._patience = FIRST_TURN_SECONDS
        self._step = 0
        self._vital = vital
        self._helpers = helpers
        self._misses: dict[str, int] = {}
        self._moved_at = time.monotonic()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._moved_at = time.monotonic()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def saw(self, step: int, *, patience: float) -> None:
        """Record the current step. The next one may take `patience` seconds."""
        self._patience = patience
        if step > self._step:
            self._step, self._moved_at = step, time.monotonic()

    def _watch(self) -> None:
        gone_at = None
        while not self._over.wait(LOOK_SECONDS):
            vital, helpers = self._absent(self._vital), self._absent(self._helpers)
            now = time.monotonic()
            if helpers and gone_at is None:
                self.gone, gone_at = ", ".join(helpers), now
            if vital or (gone_at is not None and now - gone_at > SAVE_SECONDS):
                named = ", ".join(vital) or self.gone
                leave(RESTART, f"a peer is gone (no answer from {named}); stopping for a restart")
            if now - self._moved_at > self._patience + SAVE_SECONDS:
                leave(
                    RESTART,
                    f"no step for {now - self._moved_at:.0f} seconds, although all ports are open: "
                    "a parameter server or the workers hang; stopping for a restart",
                )

    def _absent(self, addresses: Mapping[str, str]) -> list[str]:
        """Return the names of the peers that did not answer in the last LOOKS_UNTIL_GONE checks."""
        for address in addresses:
            self._misses[address] = 0 if answers(address) else self._misses.get(address, 0) + 1
        return [who for address, who in addresses.items() if self._misses[address] >= LOOKS_UNTIL_GONE]


class WorkerProgress:
    """The speed of the workers, and which ones hang, from repeated counts of their turns."""

    def __init__(self, turns: Sequence[int], now: float) -> None:
        self._began = now
        self._before = tuple(turns)
        self._turns = list(turns)
        self._moved_at = [now] * len(turns)

    def see(self, turns: Sequence[int], now: float) -> None:
        for worker, done in enumerate(turns):
            if done > self._turns[worker]:
                self._turns[worker], self._moved_at[worker] = done, now

    def turns_per_second(self, now: float) -> float:
        return (sum(self._turns) - sum(self._before)) / max(now - self._began, LOOK_SECONDS)

    def patience(self, now: float) -> float:
        """Return the seconds that a worker may take for a turn before it counts as hanging."""
        if any(done == before for done, before in zip(self._turns, self._before, strict=True)):
            return FIRST_TURN_SECONDS
        return max(STALLED_SECONDS, SLOW_TURNS * len(self._turns) / self.turns_per_second(now))

    def hanging(self, now: float) -> list[int]:
        patience = self.patience(now)
        return [worker for worker, moved_at in enumerate(self._moved_at) if now - moved_at > patience]
