"""One world: virtual time, random numbers from a seed, processes that take turns in one thread, and a trace.

The seed determines the order of everything. Events of one instant happen in the order of their planning.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

Value = TypeVar("Value")

BEGINNING = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Entry:
    """One line of the trace."""

    at: datetime
    who: str
    what: str
    details: dict[str, Any]


@dataclass
class Planned:
    """An event that will happen unless it is cancelled."""

    what: str
    do: Callable[[], object] | None
    standing: bool = False
    """True for schedules, which never end. They do not count as pending work."""

    def cancel(self) -> None:
        self.do = None


class Future(Generic[Value]):
    """A value that is set once. Processes that wait for it continue then; only the first answer counts."""

    def __init__(self) -> None:
        self.done = False
        self._value: Value | None = None
        self._error: BaseException | None = None
        self._then: list[Callable[[], object]] = []

    def set(self, value: Value) -> bool:
        """Set the value. Return True if this was the first answer."""
        return self._finish(value, None)

    def settle(self, value: Value) -> None:
        """Set the value unless it is set."""
        self._finish(value, None)

    def fail(self, error: BaseException) -> bool:
        return self._finish(None, error)

    def then(self, do: Callable[[], object]) -> None:
        if self.done:
            do()
        else:
            self._then.append(do)

    def result(self) -> Value:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set or failed at this point

    def _finish(self, value: Value | None, error: BaseException | None) -> bool:
        if self.done:
            return False
        self.done, self._value, self._error = True, value, error
        waiting, self._then = self._then, []
        for do in waiting:
            do()
        return True


class Process:
    """A function that can sleep and wait. `kill` ends it where it stands."""

    def __init__(self, world: World, name: str, function: Callable[[], Any]) -> None:
        self.name = name
        self.ended: Future[Any] = Future()
        self.killed = False
        self._world = world
        self._function = function
        self._greenlet = greenlet(self._run, parent=world.loop)
        self._greenlet.process = self

    def resume(self) -> None:
        if not self.ended.done and not self.killed:
            self._greenlet.switch()

    def kill(self) -> None:
        """End the process as a kill does: its `finally` blocks cannot send requests anymore."""
        if self.ended.done or self.killed:
            return
        self.killed = True
        if getcurrent() is self._world.loop:
            self._end()
        else:  # a greenlet that ends returns to the loop, not to its killer
            self._world.after(0, self._end, what=f"{self.name} is killed")

    def _end(self) -> None:
        if self._greenlet:
            self._greenlet.throw(GreenletExit)
        self.ended.set(None)

    def _run(self) -> None:
        try:
            value = self._function()
        except GreenletExit:
            self.ended.set(None)
        except Exception as error:  # noqa: BLE001 - the waiting process gets it
            self.ended.fail(error)
        else:
            self.ended.set(value)


class World:
    def __init__(self, seed: int, *, beginning: datetime = BEGINNING) -> None:
        self.seed = seed
        self.now = beginning
        self.trace: list[Entry] = []
        self.on_step: list[Callable[[], None]] = []
        """Called after every event, for the invariants."""
        self.on_time: list[Callable[[datetime], None]] = []
        """Called with the new time whenever it advances."""
        self._planned: list[tuple[datetime, int, Planned]] = []
        self._numbers = itertools.count()
        self._ids: dict[str, Iterator[int]] = {}
        self._chances: dict[str, random.Random] = {}
        self.loop = getcurrent()

    def chance(self, of: str) -> random.Random:
        """Return the random numbers of one name. They depend only on the seed and the name."""
        if of not in self._chances:
            digest = hashlib.sha256(f"{self.seed}/{of}".encode()).digest()
            self._chances[of] = random.Random(int.from_bytes(digest[:8]))
        return self._chances[of]

    def new_id(self, prefix: str, digits: int = 17) -> str:
        """Return a new id, e.g. `i-00000000000000001` for `i-`, numbered in order."""
        number = next(self._ids.setdefault(prefix, itertools.count(1)))
        return f"{prefix}{number:0{digits}x}"

    def note(self, who: str, what: str, **details: Any) -> None:
        self.trace.append(Entry(self.now, who, what, details))

    def at(
        self, when: datetime, do: Callable[[], object], *, what: str = "", standing: bool = False
    ) -> Planned:
        planned = Planned(what, do, standing)
        heapq.heappush(self._planned, (max(when, self.now), next(self._numbers), planned))
        return planned

    def after(
        self, seconds: float, do: Callable[[], object], *, what: str = "", standing: bool = False
    ) -> Planned:
        return self.at(self.now + timedelta(seconds=seconds), do, what=what, standing=standing)

    def spawn(self, name: str, function: Callable[[], Any]) -> Process:
        """Start a process after the current event."""
        process = Process(self, name, function)
        self.after(0, process.resume, what=f"{name} begins")
        return process

    def current(self) -> Process | None:
        process: Process | None = getattr(getcurrent(), "process", None)
        return process

    def sleep(self, seconds: float) -> None:
        """Suspend the current process. Others run meanwhile."""
        process = self._here()
        self.after(seconds, process.resume, what=f"{process.name} wakes")
        self.loop.switch()

    def wait(self, future: Future[Value]) -> Value:
        """Suspend the current process until the future is set. Raises the error of a failed future."""
        if not future.done:
            process = self._here()
            future.then(lambda: self.after(0, process.resume))
            self.loop.switch()
        return future.result()

    def busy(self) -> bool:
        """Return True if anything other than schedules is planned."""
        return any(planned.do and not planned.standing for _, _, planned in self._planned)

    def run(self, until: datetime, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Run all events up to that time, or until `stop` returns True after an event."""
        while self._planned and self._planned[0][0] <= until and not stop():
            when, _, planned = heapq.heappop(self._planned)
            if planned.do is None:
                continue
            self._go_to(when)
            planned.do()
            for callback in self.on_step:
                callback()
        if not stop():
            self._go_to(until)

    def _go_to(self, when: datetime) -> None:
        if when != self.now:
            self.now = when
            for callback in self.on_time:
                callback(when)

    def _here(self) -> Process:
        process = self.current()
        if process is None:
            raise RuntimeError("only a process can wait")
        return process
