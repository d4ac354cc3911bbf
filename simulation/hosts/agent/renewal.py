"""Requests and renews credentials of the run (training/host/renewal.py)."""

import json
import math
from collections.abc import Callable
from datetime import datetime

from simulation.hosts.flow import Sleep, Steps
from simulation.hosts.machine import Machine
from training.host import credentials
from training.host.bucket import Bucket
from training.host.errors import AccessDenied, HostTrouble
from training.host.renewal import (
    LOOK_SECONDS,
    PATIENCE_SECONDS,
    RENEW_BEFORE,
    RETRY_SECONDS,
    are_fresh,
    key,
    missing,
)
from training.host.reporting.outbox import Sender
from trainyard.protocol.signals import Credentials, Signal


class Renewal:
    """Keeps the credentials of a run fresh. `mailbox` is the bucket with the rights of the host's own role."""

    def __init__(
        self,
        machine: Machine,
        mailbox: Bucket,
        sender: Sender,
        *,
        send: Callable[[Signal], None],
        run: str,
    ) -> None:
        self._run = run
        self._machine, self._mailbox, self._key = machine, mailbox, key(sender)
        self._send = send
        self._seen = ""
        self._denied: AccessDenied | None = None
        self._asked_at = -math.inf
        machine.flow(self._renew(), f"credentials of {machine.instance}")

    @property
    def _until(self) -> datetime | None:
        held = self._machine.credentials
        return datetime.fromisoformat(held["Expiration"]) if held else None

    def wait(self) -> Steps:
        left = PATIENCE_SECONDS
        while self._until is None or self._until <= self._machine.now():
            if self._denied:
                raise self._denied
            if left <= 0:
                raise missing()
            yield LOOK_SECONDS
            left -= LOOK_SECONDS

    def _renew(self) -> Steps:
        while True:
            until = self._until
            if until and are_fresh(until, self._machine.now()):
                yield Sleep((until - self._machine.now() - RENEW_BEFORE).total_seconds())
                continue
            self._check()
            yield Sleep() if self._machine.is_cut_off else LOOK_SECONDS

    def _check(self) -> None:
        try:
            found = self._mailbox.read_if_changed(self._key, self._seen)
        except AccessDenied as denied:
            self._denied = denied
            return
        except HostTrouble:
            return
        if found:
            self._seen = found.etag
            until = credentials.expiration(found.body)
            if until > self._machine.now() and credentials.belong_to(found.body, self._run):
                self._machine.credentials = json.loads(found.body)
                self._machine.note("has credentials of its run", until=until.isoformat())
        now = self._machine.world.now.timestamp()
        if not are_fresh(self._until, self._machine.now()) and now - self._asked_at >= RETRY_SECONDS:
            self._asked_at = now
            self._send(Credentials())
