"""Wait in the warm pool: wipe the host, report that, and wait until its tags name another run or its time is over."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from training.host.account import Account
from training.host.errors import HostTrouble
from training.host.health import Health
from training.host.metadata import Identity, Metadata
from training.host.paths import Paths
from training.host.pool.wipe import wipe
from training.host.reporting.outbox import Sender, entry
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol.signals import Sent, Wiped
from trainyard.protocol.tags import Tag

LOOK_SECONDS = 0.5
NOTICE_SECONDS = 5.0
REPORT_SECONDS = 15.0
GRACE = timedelta(minutes=3)
"""Patrol ends a host whose time in the warm pool is over. If it does not, the host ends itself after this time."""

logger = logging.getLogger(__name__)


def wait_if_warm(
    paths: Paths,
    metadata: Metadata,
    identity: Identity,
    *,
    find_account: Callable[[], Account],
    account_name: str,
    put_up_fence: Callable[[Account], None],
    events: Callable[[str], Any],
    power_off: Callable[[str], None],
) -> Identity:
    """Return the identity with which another run has claimed the host, or at once if the host is not in the warm pool.
    A host that cannot be wiped, that EC2 takes back, or that no run claims powers itself off; then this never
    returns."""
    if warm_until(identity.tags) is None:
        return identity
    try:
        Health().check()
        account = find_account()
        put_up_fence(account)
        wipe(paths, account, name=account_name)
    except Exception as trouble:  # in any case, its program's files must not reach another run
        logger.exception("this host cannot be wiped")
        why = trouble.reason if isinstance(trouble, HostTrouble) else repr(trouble)
        reason = f"it cannot be wiped for another run: {why}"
        _send(events(identity.region), identity, reason)
        return _end(power_off, reason)
    return _Waiting(metadata, identity, events(identity.region), power_off).wait()


def _end(power_off: Callable[[str], None], reason: str) -> Identity:
    power_off(reason)
    while True:  # until the power is off
        time.sleep(NOTICE_SECONDS)


def wiped_event(identity: Identity, now: datetime, reason: str | None = None) -> dict[str, str]:
    """Return the event that the host is wiped, or the `reason` why it cannot be."""
    tags, host = identity.tags, identity.instance
    signal = Wiped(reason=reason)
    sent = Sent(run=tags[Tag.RUN], attempt=int(tags[Tag.ATTEMPT]), instance=host, at=now, signal=signal)
    return entry(sent, Sender.of(host, tags))


def _send(events: Any, identity: Identity, reason: str | None = None) -> None:
    try:
        answer = events.put_events(Entries=[wiped_event(identity, datetime.now(UTC), reason)])
    except (ClientError, BotoCoreError) as error:
        logger.warning("the signal that this host is wiped could not be sent: %s", error)
        return
    if answer.get("FailedEntryCount"):
        logger.warning("the signal that this host is wiped could not be sent: %s", answer["Entries"][0])


class _Waiting:
    def __init__(
        self, metadata: Metadata, identity: Identity, events: Any, power_off: Callable[[str], None]
    ) -> None:
        self._metadata, self._identity, self._events, self._power_off = metadata, identity, events, power_off
        self._first = identity.tags[Tag.POOL]
        self._until = warm_until(identity.tags)
        self._noticed_at = self._sent_at = float("-inf")

    def wait(self) -> Identity:
        logger.info("this host waits in the warm pool for a run")
        while True:
            try:
                claimed = self._turn(time.monotonic())
            except HostTrouble as trouble:
                logger.warning("cannot find out if a run has claimed this host: %s", trouble.reason)
                claimed = None
                self._end_if_over()
            if claimed:
                return claimed
            time.sleep(LOOK_SECONDS)

    def _turn(self, seconds: float) -> Identity | None:
        if seconds - self._noticed_at >= NOTICE_SECONDS:
            self._noticed_at = seconds
            if self._metadata.interruption_notice():
                _end(self._power_off, "EC2 takes this host back, and no run has claimed it")
        tags = {name: self._metadata.tag(name) for name in (Tag.POOL, Tag.RUN)}
        until = warm_until(tags)
        if until is None:
            return self._read_claim()
        self._until = until
        self._end_if_over()
        if tags[Tag.POOL] == self._first and seconds - self._sent_at >= REPORT_SECONDS:
            self._sent_at = seconds  # repeated until the yard has set the end of the wait in the tag
            _send(self._events, self._identity)
        return None

    def _read_claim(self) -> Identity | None:
        """Return the new identity once two looks at all tags agree, because tags may change one by one."""
        found = self._metadata.identity()
        time.sleep(LOOK_SECONDS / 2)
        return (
            found if found.tags == self._metadata.identity().tags and warm_until(found.tags) is None else None
        )

    def _end_if_over(self) -> None:
        if self._until and datetime.now(UTC) >= self._until + GRACE:
            _end(self._power_off, "its time in the warm pool is over, and no run has claimed it")
