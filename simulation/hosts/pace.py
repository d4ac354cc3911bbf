"""The position of a training. It follows from the start time; only steps with an effect are planned as events."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from simulation.hosts.work import Work


class Phase(Enum):
    FORMING = "forming"
    TRAINING = "training"
    STALLED = "stalled"
    HUNG = "hung"
    ENDING = "ending"
    OVER = "over"


class Pace:
    """The steps of one attempt, which continues from `step` at `now` and may stop in between."""

    def __init__(self, work: Work, step: int, now: datetime) -> None:
        self.work = work
        self.base, self.base_at = step, now
        """The step that training continued from, and when."""
        self.saved, self.saved_at = step, now

    def continue_from(self, step: int, now: datetime) -> None:
        self.base, self.base_at = step, now

    def step(self, now: datetime) -> int:
        """Return the last completed step while training."""
        return min(self.base + self._done_since_base(now), max(self.work.steps, self.base))

    def until_next_step(self, now: datetime) -> float:
        return max(0.0, (self.when(self.base + self._done_since_base(now) + 1) - now).total_seconds())

    def when(self, step: int) -> datetime:
        return self.base_at + timedelta(seconds=(step - self.base) * self.work.step_seconds)

    def next_steps(self, step: int, *, leaves: bool) -> list[int]:
        """Return the next steps with an effect: the end, a fault, a checkpoint, or a program that leaves."""
        work = self.work
        steps = [max(work.steps, step)]
        steps += [at for at in (work.error_at, work.hang_at) if at > step]
        if leaves:
            steps.append(step + 1)
        if not work.hoards:
            if work.save_steps:
                steps.append((step // work.save_steps + 1) * work.save_steps)
            due = self.saved_at + timedelta(seconds=work.save_seconds) - self.base_at
            if work.step_seconds:
                steps.append(max(step + 1, self.base - int(-due.total_seconds() // work.step_seconds)))
        return steps

    def is_to_save(self, step: int, now: datetime) -> bool:
        by_clock = (now - self.saved_at).total_seconds() >= self.work.save_seconds
        return by_clock or (bool(self.work.save_steps) and step % self.work.save_steps == 0)

    def save(self, step: int, now: datetime) -> bool:
        """Record a save. Return True if it leaves a new checkpoint."""
        self.saved_at = now
        if step <= self.saved or self.work.hoards:
            return False
        self.saved = step
        return True

    def _done_since_base(self, now: datetime) -> int:
        if not self.work.step_seconds:
            return self.work.steps
        return int((now - self.base_at).total_seconds() / self.work.step_seconds + 1e-6)
