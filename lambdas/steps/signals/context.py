"""The run and the attempt that an event is about, and what any event may do to them."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.write import Write
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.environment import YardSettings
from lambdas.steps import attempts, orders
from lambdas.steps.observability import logger
from trainyard.protocol.orders import Order, OrderKind
from trainyard.protocol.signals import Resumed, Sent
from trainyard.protocol.timeline import Entry, Source
from trainyard.values.lazy import dataclass


class SignalSettings(YardSettings):
    stop_document: str
    host_role_id: str
    run_role: str
    """The ARN of the role that credentials of a run are of."""
    dev_role: str
    """The same of a dev host."""
    dev_host_state_machine_arn: str
    snapshot_state_machine_arn: str


@dataclass(frozen=True)
class SignalContext:
    """The run and the attempt of an event."""

    yard: SignalSettings
    ledger: Ledger
    run: str
    attempt: int
    wait: str | None = None
    """The wait that the event's command or image ends."""

    def open_run(self) -> Records | None:
        """The records of the run, if it goes on. Raises Misconfigured where the ledger has lost some of them."""
        records = self.ledger.read(self.run)
        if records is None or records.run.ended is not None:
            return None
        if records.torn:
            raise self.ledger.lost(self.run, records.torn)
        return records

    def live(self) -> Records | None:
        """The same, if this attempt is its current one."""
        records = self.open_run()
        if records is None or records.run.attempt != self.attempt:
            logger.info("%s attempt %s is over or unknown", self.run, self.attempt)
            return None
        return records

    def entry(
        self,
        event: str,
        *,
        at: datetime,
        source: Source,
        instance: str | None = None,
        reason: str | None = None,
        **detail: Any,
    ) -> Entry:
        return Entry(
            at=at,
            source=source,
            event=event,
            attempt=self.attempt,
            instance=instance,
            reason=reason,
            detail={key: value for key, value in detail.items() if value is not None},
        )

    def host_entry(
        self,
        sent: Sent,
        event: str,
        now: datetime,
        *,
        reason: str | None = None,
        **detail: str | float | None,
    ) -> Entry:
        """Return the timeline's entry of a signal."""
        return self.entry(
            event,
            at=sent.at or now,
            source=Source.HOST,
            instance=sent.instance,
            reason=reason,
            left_out="; ".join(sent.left_out) or None,
            **detail,
        )

    def move(self, news: Write, *events: Write) -> None:
        """Write the news and its events. If the row has later news already, write the events only."""
        try:
            self.ledger.write(news, *events)
        except AlreadyWrittenError:
            logger.info("%s: late or repeated news changes nothing of %s", self.run, news.sk)
            if events:
                self.ledger.write(*events)

    def beat(self, records: Records) -> None:
        """Send the heartbeat of Train for a gang whose chief may have left: hosts that wait for the others live."""
        token = records.waiting(self.attempt, ("train",))
        if token:
            states.heartbeat(token.token)

    def end(
        self,
        entry: Entry,
        now: datetime,
        *,
        trouble: Trouble | None,
        step: int | None,
        resumed: Resumed | None = None,
    ) -> None:
        """This attempt is over (attempts.end)."""
        attempts.end(
            self.ledger, self.run, self.attempt, entry, now, trouble=trouble, step=step, resumed=resumed
        )

    def about(self, attempt: int) -> "SignalContext":
        """The same of another attempt."""
        return replace(self, attempt=attempt)

    def ask_to_stop(self, records: Records, *, besides: Collection[str]) -> bool:
        """Ask the rest of a gang that has been started to checkpoint and leave; whether there is anybody to ask. A host
        that cannot be asked any more is going itself, which its own event says."""
        if records.waiting(self.attempt, ("train",)) is None:
            return False
        members = records.members(self.attempt)
        asked = [
            host.instance
            for host in members
            if host.lives and host.stopped < self.attempt and host.instance not in besides
        ]
        if asked:
            order = Order(OrderKind.STOP, self.run, self.attempt, tuple(asked))
            orders.give(order, bucket=self.yard.bucket_name, document=self.yard.stop_document)
        return bool(asked)
