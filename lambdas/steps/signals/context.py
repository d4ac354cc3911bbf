"""The run and attempt of an event, and the common actions of all events."""

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
    """The ARN of the role behind the credentials of a run."""
    dev_role: str
    """The ARN of the role behind the credentials of a dev host."""
    dev_host_state_machine_arn: str
    snapshot_state_machine_arn: str
    version_state_machine_arn: str
    study_state_machine_arn: str


@dataclass(frozen=True)
class SignalContext:
    """The run and the attempt of an event."""

    yard: SignalSettings
    ledger: Ledger
    run: str
    attempt: int
    wait: str | None = None
    """The wait for the command or image of the event."""

    def open_run(self) -> Records | None:
        """Return the records of the run if it is open. Raises Misconfigured if rows are missing."""
        records = self.ledger.read(self.run)
        if records is None or records.run.ended is not None:
            return None
        if records.torn:
            raise self.ledger.missing_rows_error(self.run, records.torn)
        return records

    def live(self) -> Records | None:
        """Return the records of the run if it is open and this is its current attempt."""
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
        """Return the timeline entry of a signal."""
        return self.entry(
            event,
            at=sent.at or now,
            source=Source.HOST,
            instance=sent.instance,
            reason=reason,
            left_out="; ".join(sent.left_out) or None,
            **detail,
        )

    def move(self, update: Write, *events: Write) -> None:
        """Write the values and the events. If the row contains later values, write only the events."""
        try:
            self.ledger.write(update, *events)
        except AlreadyWrittenError:
            logger.info("%s: a late or repeated signal leaves %s unchanged", self.run, update.sk)
            if events:
                self.ledger.write(*events)

    def beat(self, records: Records) -> None:
        """Send the heartbeat of Train for a gang whose chief may have left while other hosts still wait."""
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
        """End this attempt (attempts.end)."""
        attempts.end(
            self.ledger, self.run, self.attempt, entry, now, trouble=trouble, step=step, resumed=resumed
        )

    def for_attempt(self, attempt: int) -> "SignalContext":
        """Return the context of another attempt of the run."""
        return replace(self, attempt=attempt)

    def order_to_stop(self, records: Records, *, besides: Collection[str]) -> bool:
        """Order the other hosts of a started gang to checkpoint and leave; return whether there is such a host. A host
        that receives no order is ending itself, and its own event reports that."""
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
