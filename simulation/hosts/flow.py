"""The sequence of a host's actions, as a generator that yields how long to wait."""

from collections.abc import Callable, Generator
from dataclasses import dataclass

from simulation.world.world import Planned, World


@dataclass(frozen=True)
class Sleep:
    """Sleep until the flow is woken, at most `seconds`. A plain number of seconds cannot be interrupted."""

    seconds: float | None = None


Steps = Generator["float | Sleep", None, None]


class Gone(Exception):  # noqa: N818 - no error: the machine is
    """The machine of this flow is gone, so the flow ends."""


class Flow:
    """A generator of actions, driven by the events of the world.

    A wake-up during an action is not lost: the next sleep ends at once. A step that is due while `is_frozen`
    continues after `thaw`.
    """

    def __init__(self, world: World, steps: Steps, is_frozen: Callable[[], bool], what: str) -> None:
        self.ended = False
        self._world = world
        self._steps = steps
        self._is_frozen = is_frozen
        self._what = what
        self._planned: Planned | None = None
        self._sleeps = False
        self._woken = False
        self._running = False
        self._due = False
        self._plan(0.0)

    def wake(self) -> None:
        if self.ended:
            return
        if not self._sleeps:
            self._woken = True
        elif not self._due:
            self._plan(0.0)

    def thaw(self) -> None:
        if self._due and not self.ended:
            self._due = False
            self._plan(0.0)

    def end(self) -> None:
        self.ended = True
        if self._planned:
            self._planned.cancel()
        if not self._running:
            self._steps.close()

    def _plan(self, seconds: float) -> None:
        if self._planned:
            self._planned.cancel()
        self._sleeps = False
        self._planned = self._world.after(seconds, self._continue, what=self._what)

    def _continue(self) -> None:
        self._planned, self._sleeps = None, False
        if self.ended:
            return
        if self._is_frozen():
            self._due = True
            return
        self._running = True
        try:
            wait = next(self._steps)
        except (StopIteration, Gone):
            self.ended = True
            return
        finally:
            self._running = False
        self._wait(wait)

    def _wait(self, wait: float | Sleep) -> None:
        if self.ended:  # the step itself has ended the flow
            self._steps.close()
        elif isinstance(wait, Sleep):
            self._sleep(wait)
        else:
            self._plan(wait)

    def _sleep(self, wait: Sleep) -> None:
        if self._woken:
            self._woken = False
            self._plan(0.0)
            return
        if wait.seconds is not None:
            self._plan(max(0.0, wait.seconds))
        self._sleeps = True
