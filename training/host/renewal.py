"""Credentials of the run, or of a dev host's owner: requested by a signal, and renewed in the middle of their hour.

The yard writes them to a key that only this host can read (docs/contracts/bucket.md).
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from training.host import credentials
from training.host.account import Account
from training.host.bucket import Bucket
from training.host.denials import Denials
from training.host.errors import AccessDenied, HostTrouble
from training.host.paths import Paths
from training.host.reporting.outbox import Sender
from trainyard.protocol import keys
from trainyard.protocol.signals import Signal

RENEW_BEFORE = timedelta(minutes=30)
LOOK_SECONDS = 0.5
TICK_SECONDS = 0.1
RETRY_SECONDS = 10.0
PATIENCE_SECONDS = 600.0

logger = logging.getLogger(__name__)


def key(sender: Sender) -> str:
    """Return the key of the credentials that the yard writes."""
    return keys.credentials(sender.user)


def are_fresh(until: datetime | None, now: datetime) -> bool:
    """Return True if credentials exist and need no renewal yet."""
    return until is not None and until - now > RENEW_BEFORE


def missing() -> HostTrouble:
    return HostTrouble(
        f"no credentials for the bucket arrived within {PATIENCE_SECONDS / 60:.0f} minutes, so this host cannot fetch "
        "anything; the yard's function signal issues them: check its log and its dead letters, and start again"
    )


class Renewal:
    """Renews credentials. `mailbox` is the bucket with the host's own role. `send` sends the signal `request`, again
    every `again` seconds. Only `account` and the agent may read the credentials."""

    def __init__(
        self,
        mailbox: Bucket,
        sender: Sender,
        paths: Paths,
        *,
        account: Account,
        send: Callable[[Signal], None],
        run: str,
        request: Signal,
        again: float = RETRY_SECONDS,
    ) -> None:
        self._run = run
        self._mailbox, self._key, self._paths, self._account = mailbox, key(sender), paths, account
        self._send, self._request, self._again = send, request, again
        self._seen = ""
        self._asked_at = float("-inf")
        self._until = self._recall_expiration()
        self._denied: AccessDenied | None = None
        self._denials = Denials()

    @property
    def are_valid(self) -> bool:
        return self._until is not None and self._until > datetime.now(UTC)

    def turn(self) -> None:
        """Look for new credentials, and request them, if the present ones are not fresh. Call it every
        LOOK_SECONDS."""
        if are_fresh(self._until, datetime.now(UTC)):
            return
        try:
            found = self._mailbox.read_if_changed(self._key, self._seen)
        except AccessDenied as denied:
            if self._denials.ends_tries(denied) and self._denied is None:
                logger.warning("%s", denied.reason)
                self._denied = denied
            return
        self._denied = None
        self._denials.clear()
        if found:
            self._seen = found.etag
            self._take(found.body)
        if not are_fresh(self._until, datetime.now(UTC)) and self._may_request():
            self._send(self._request)

    def wait(self) -> None:
        """Wait for credentials. Raises HostTrouble if none arrive, AccessDenied if the host may not read them."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.are_valid:
            if self._denied:
                raise self._denied
            if time.monotonic() >= end:
                raise missing()
            time.sleep(TICK_SECONDS)

    def _take(self, text: bytes) -> None:
        if not credentials.belong_to(text, self._run):
            return
        until = credentials.expiration(text)
        if until > datetime.now(UTC):
            credentials.keep(self._paths.credentials, text.decode(), self._account)
            self._until = until
            logger.info("credentials until %s", until.isoformat())

    def _recall_expiration(self) -> datetime | None:
        """Return when the credentials on the disk expire, which an earlier agent has stored."""
        try:
            return credentials.expiration(self._paths.credentials.read_bytes())
        except (OSError, HostTrouble):
            return None

    def _may_request(self) -> bool:
        now = time.monotonic()
        if now - self._asked_at < self._again:
            return False
        self._asked_at = now
        return True
