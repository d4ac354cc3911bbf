"""The agent of an attempt."""

from __future__ import annotations

from typing import Protocol, TypeVar

from simulation.hosts.agent.watchdog import Watchdog
from simulation.hosts.gang import Program
from simulation.hosts.machine import Machine
from training.host.bucket import Bucket
from training.host.reporting.outbox import Sender
from trainyard.protocol.orders import Order, OrderKind
from trainyard.protocol.signals import Signal

AttemptType = TypeVar("AttemptType", contravariant=True)
"""The class of attempts, which attempt.py defines."""


class AttemptAgent(Protocol[AttemptType]):
    """The part of the agent that an attempt uses."""

    machine: Machine
    bucket: Bucket
    mailbox: Bucket
    sender: Sender
    orders: dict[OrderKind, Order]
    watchdog: Watchdog
    going_down: bool

    def enter(self, attempt: AttemptType, *, step: int) -> Program: ...

    def send(self, attempt: int, signal: Signal) -> None: ...

    def note_checkpoint(self, step: int) -> None: ...

    def wake(self) -> None: ...
