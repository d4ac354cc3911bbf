"""The run and the attempt that an event is about, and what any event may do to them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.environment import YardSettings
from lambdas.steps import attempts, orders
from lambdas.steps.observability import logger
from trainyard.protocol.timeline import Entry, Source
from trainyard.values.lazy import dataclass


class SignalSettings(YardSettings):
    stop_document: str
    host_role_id: str
    run_role: str
    """The ARN of the role that credentials of a run are of."""
    dev_role: str
    """The same of a dev host."""
    launch_state_machine_arn: str
    snapshot_state_machine_arn: str


@dataclass(frozen=True)
class SignalContext:
    """`wait` is the wait that the event's command or image was to end."""

    yard: SignalSettings
    ledger: Ledger
    run: str
    attempt: int
    wait: str | None = None

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

    def end(
        self,
        entry: Entry,
        now: datetime,
        *,
        trouble: Trouble | None,
        step: int | None,
        resumed: Mapping[str, Any] | None = None,
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
            order = orders.Order("stop", self.run, self.attempt, tuple(asked))
            orders.give(order, bucket=self.yard.bucket_name, document=self.yard.stop_document)
        return bool(asked)
