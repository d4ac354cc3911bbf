"""Commands and their invocations: delivery, status and events.

`Commands` keeps the state and decides. Agents (agent.py) do the work and report through `delivered`, `step_ended` and
`ended`. A host that vanishes reports nothing, so its invocation stays InProgress until its timeout.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from localcloud.base.run_command import OVER, allowance, has_more_errors, status_of
from localcloud.services.ssm.document import Script, SsmError

log = logging.getLogger(__name__)

HISTORY_SECONDS = 30 * 86400


@dataclass
class StepRun:
    """Status of one step of an invocation."""

    name: str
    action: str
    status: str = "Pending"
    details: str = "Pending"
    code: int = -1
    stdout: str = ""
    stderr: str = ""
    started: float | None = None
    ended: float | None = None


@dataclass
class Invocation:
    """A command on one host."""

    command_id: str
    instance_id: str
    instance_name: str
    requested: float
    steps: list[StepRun]
    status: str = "Pending"
    details: str = "Pending"
    is_sent: bool = False

    @property
    def is_over(self) -> bool:
        return self.status in OVER


@dataclass
class Command:
    """A SendCommand request with its invocations."""

    id: str
    document: str
    document_version: str
    parameters: dict[str, list[str]]
    scripts: tuple[Script, ...]
    instance_ids: list[str]
    targets: list[dict[str, Any]]
    requested: float
    timeout: int
    max_concurrency: str
    max_errors: str
    comment: str
    bucket: str
    prefix: str
    asked: dict[str, Any]
    """Other fields of the request, which are only shown: service role, notification, output to logs."""
    invocations: dict[str, Invocation] = field(default_factory=dict)
    status: str = "Pending"
    details: str = "Pending"

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    @property
    def expires(self) -> float:
        """Return the end of delivery and execution time, after which the command times out."""
        return self.requested + self.timeout + self.execution_seconds

    @property
    def execution_seconds(self) -> float:
        return sum(script.timeout for script in self.scripts)

    def count(self, *details: str) -> int:
        return sum(invocation.details in details for invocation in self.invocations.values())


def next_invocations(command: Command) -> list[Invocation]:
    """Return the invocations that MaxConcurrency allows now. Empty once MaxErrors is exceeded."""
    if has_too_many_errors(command):
        return []
    limit = allowance(command.max_concurrency, len(command.invocations), at_least=1)
    busy = sum(one.is_sent and not one.is_over for one in command.invocations.values())
    waiting = [one for one in command.invocations.values() if not one.is_sent and not one.is_over]
    return waiting[: max(0, limit - busy)]


def has_too_many_errors(command: Command) -> bool:
    limit = allowance(command.max_errors, len(command.invocations), at_least=0)
    return has_more_errors(command.invocations.values(), limit)


class Commands:
    """All commands of the account.

    `deliver(command, invocation)` hands an invocation to its host's agent, and `stop(invocation)` makes that agent kill
    it. Neither may block. Both may be called while this object's lock is held.
    """

    def __init__(
        self,
        now: Callable[[], float],
        emit: Callable[[str, Command, Invocation | None], None],
        changed: Callable[[], None],
    ) -> None:
        self.deliver: Callable[[Command, Invocation], None] = lambda command, invocation: None
        self.stop: Callable[[Invocation], None] = lambda invocation: None
        self._now = now
        self._emit = emit
        self._changed = changed
        self._lock = threading.RLock()
        self._earlier = threading.Condition(self._lock)
        self._commands: dict[str, Command] = {}
        threading.Thread(target=self._watch_deadlines, name="ssm deadlines", daemon=True).start()

    # --- called by the API ---

    def send(self, command: Command, names: Mapping[str, str]) -> Command:
        """Store a command and deliver it to as many hosts as it allows. `names` maps targets to Name tags."""
        command.invocations = {
            instance_id: Invocation(
                command.id,
                instance_id,
                name,
                command.requested,
                [StepRun(script.name, script.action) for script in command.scripts],
            )
            for instance_id, name in names.items()
        }
        with self._lock:
            self._forget_old()
            self._commands[command.id] = command
            self._advance(command)
            self._earlier.notify_all()
        return command

    def cancel(self, command_id: str, instance_ids: list[str]) -> None:
        """Cancel undelivered invocations at once and kill running ones. Has no effect on ended ones."""
        with self._lock:
            command = self.get(command_id)
            for invocation in command.invocations.values():
                if invocation.is_over or (instance_ids and invocation.instance_id not in instance_ids):
                    continue
                if invocation.status == "Pending":
                    self._close(invocation, "Cancelled", "Cancelled")
                else:
                    self._set(command, invocation, "Cancelling", "Cancelling")
                self.stop(invocation)
            self._advance(command)

    def get(self, command_id: str) -> Command:
        command = self._commands.get(command_id)
        if command is None:
            raise SsmError("InvalidCommandId", f"Command {command_id} does not exist.")
        return command

    def find(self, command_id: str) -> Command | None:
        return self._commands.get(command_id)

    def all(self) -> list[Command]:
        with self._lock:
            return sorted(self._commands.values(), key=lambda command: -command.requested)

    # --- called by agents ---

    def record_delivery(self, invocation: Invocation) -> bool:
        """Record that the agent starts the invocation. Return False if it is too late."""
        with self._lock:
            if invocation.status != "Pending":
                return False
            self._set(self.get(invocation.command_id), invocation, "InProgress", "InProgress")
            self._refresh(self.get(invocation.command_id))
            return True

    def step_started(self, step: StepRun) -> None:
        with self._lock:
            step.status = step.details = "InProgress"
            step.started = self._now()

    def step_ended(
        self, step: StepRun, status: str, details: str, code: int, stdout: str, stderr: str
    ) -> None:
        with self._lock:
            step.status, step.details, step.code = status, details, code
            step.stdout, step.stderr, step.ended = stdout, stderr, self._now()

    def record_end(self, invocation: Invocation, status: str, details: str) -> None:
        with self._lock:
            if invocation.is_over:
                return
            command = self.get(invocation.command_id)
            self._close(invocation, status, details)
            self._advance(command)

    # --- saved state ---

    def save(self) -> dict[str, Command]:
        with self._lock:
            return dict(self._commands)

    def restore(self, saved: dict[str, Command]) -> None:
        with self._lock:
            self._commands = dict(saved)
            self._earlier.notify_all()

    @property
    def lock(self) -> threading.RLock:
        """Return the lock, for callers that read several consistent values."""
        return self._lock  # type: ignore[return-value, unused-ignore]

    # --- internal ---

    def _advance(self, command: Command) -> None:
        if has_too_many_errors(command):
            for invocation in command.invocations.values():
                if not invocation.is_sent and not invocation.is_over:
                    self._close(invocation, "Cancelled", "Terminated")
        for invocation in next_invocations(command):
            invocation.is_sent = True
            self.deliver(command, invocation)
        self._refresh(command)

    def _refresh(self, command: Command) -> None:
        limit = allowance(command.max_errors, len(command.invocations), at_least=0)
        status, details = status_of(command.invocations.values(), limit)
        is_news = status != command.status
        command.status, command.details = status, details
        if is_news:
            self._emit("command", command, None)
        self._changed()

    def _set(self, command: Command, invocation: Invocation, status: str, details: str) -> None:
        is_news = status != invocation.status
        invocation.status, invocation.details = status, details
        if is_news:
            self._emit("invocation", command, invocation)

    def _close(self, invocation: Invocation, status: str, details: str) -> None:
        for step in invocation.steps:
            if step.status in ("Pending", "InProgress"):
                step.status, step.details = status, details
        self._set(self.get(invocation.command_id), invocation, status, details)

    def _watch_deadlines(self) -> None:
        with self._lock:
            while True:
                due = [at for command in self._commands.values() for at in self._deadlines(command)]
                self._earlier.wait(max(0.0, min(due) - self._now()) + 0.01 if due else None)
                for command in list(self._commands.values()):
                    self._time_out(command)

    def _deadlines(self, command: Command) -> list[float]:
        states = {one.status for one in command.invocations.values() if not one.is_over}
        deadlines = [command.requested + command.timeout] if "Pending" in states else []
        return deadlines + ([command.expires] if states - {"Pending"} else [])

    def _time_out(self, command: Command) -> None:
        now = self._now()
        late = [
            one
            for one in command.invocations.values()
            if not one.is_over
            and now >= (command.requested + command.timeout if one.status == "Pending" else command.expires)
        ]
        for invocation in late:
            log.info("command %s on %s timed out", command.id, invocation.instance_id)
            self.stop(invocation)
            self._close(invocation, "TimedOut", "DeliveryTimedOut")
        if late:
            self._advance(command)

    def _forget_old(self) -> None:
        horizon = self._now() - HISTORY_SECONDS
        self._commands = {key: one for key, one in self._commands.items() if one.requested > horizon}


def new_command_id() -> str:
    return str(uuid.uuid4())


def iso(at: float | None) -> str:
    if at is None:
        return ""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
