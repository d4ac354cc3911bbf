"""Credentials of the run, or of a dev host's owner, asked for and renewed.

By a signal the yard is asked; it leaves them where this host alone can read (docs/contracts/bucket.md),
and they are renewed in the middle of their hour.
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
ASK_AGAIN_SECONDS = 10.0
PATIENCE_SECONDS = 600.0

logger = logging.getLogger(__name__)


def key(sender: Sender) -> str:
    """Where the yard leaves them."""
    return keys.credentials(sender.user)


def are_fresh(until: datetime | None, now: datetime) -> bool:
    """Whether there are some that need not be renewed yet."""
    return until is not None and until - now > RENEW_BEFORE


def missing() -> HostTrouble:
    """None came."""
    return HostTrouble(
        f"no credentials for the bucket came within {PATIENCE_SECONDS / 60:.0f} minutes, so this host can fetch "
        "nothing; the yard's function signal gives them: look at its log and its dead letters, and start again"
    )


class Renewal:
    """`mailbox` is the bucket as the host's own role may use it. `say` sends the signal `asking`, again every
    `again` seconds. `account`, beside the agent's own, may read them."""

    def __init__(
        self,
        mailbox: Bucket,
        sender: Sender,
        paths: Paths,
        *,
        account: Account,
        say: Callable[[Signal], None],
        run: str,
        asking: Signal,
        again: float = ASK_AGAIN_SECONDS,
    ) -> None:
        self._run = run
        self._mailbox, self._key, self._paths, self._account = mailbox, key(sender), paths, account
        self._say, self._asking, self._again = say, asking, again
        self._seen = ""
        self._asked_at = float("-inf")
        self._until = self._recalled()
        self._denied: AccessDenied | None = None
        self._denials = Denials()

    @property
    def are_there(self) -> bool:
        return self._until is not None and self._until > datetime.now(UTC)

    def turn(self) -> None:
        """To be called every LOOK_SECONDS: looks, and asks, only while there are no fresh ones."""
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
        if not are_fresh(self._until, datetime.now(UTC)) and self._may_ask():
            self._say(self._asking)

    def wait(self) -> None:
        """Until there are some. Raises HostTrouble where none come, AccessDenied where the host may not see them."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.are_there:
            if self._denied:
                raise self._denied
            if time.monotonic() >= end:
                raise missing()
            time.sleep(TICK_SECONDS)

    def _take(self, text: bytes) -> None:
        if not credentials.are_of(text, self._run):
            return
        until = credentials.ends(text)
        if until > datetime.now(UTC):
            credentials.keep(self._paths.credentials, text.decode(), self._account)
            self._until = until
            logger.info("credentials until %s", until.isoformat())

    def _recalled(self) -> datetime | None:
        """Until when those hold that an earlier agent has taken."""
        try:
            return credentials.ends(self._paths.credentials.read_bytes())
        except (OSError, HostTrouble):
            return None

    def _may_ask(self) -> bool:
        now = time.monotonic()
        if now - self._asked_at < self._again:
            return False
        self._asked_at = now
        return True
