"""The host agent: boot, fetch, report ready, train when ordered, report ready again, and never outlive the lease."""

import logging
import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any, Literal, TypeVar

from training.host import credentials, orders, renewal
from training.host.account import Account, remove_tree
from training.host.agent import standing_order, state, systems_manager
from training.host.agent.attempt import Attempt
from training.host.agent.clearing import clear_leftovers
from training.host.agent.conclusion import Outcome
from training.host.agent.container import Images
from training.host.agent.context import Context
from training.host.agent.deadlines import hold, lease
from training.host.agent.fetching import fetch_files
from training.host.agent.life import Peers
from training.host.agent.membership import join, recall
from training.host.agent.preparation import LeftUnstarted
from training.host.agent.retries import Retries, is_unreachable
from training.host.agent.standing_order import StandingOrder
from training.host.agent.tags import RunTags
from training.host.agent.watchdog import Watchdog
from training.host.bucket import Bucket
from training.host.checkpoints import restore
from training.host.checkpoints.choice import LastCheckpoint
from training.host.credentials import CALLS
from training.host.disk import Disk
from training.host.errors import GivenUp, HostTrouble, Unreachable
from training.host.metadata import Identity, Metadata
from training.host.mounts.mounting import unmount_all
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.program.ending import Failed, Stopped
from training.host.program.fetch import fetch_job, recall_job
from training.host.program.process import Program
from training.host.renewal import Renewal
from training.host.reporting.outbox import Outbox, failed_signal
from training.host.reporting.progress import ALIVE_SECONDS
from trainyard.core.model.job import Job
from trainyard.protocol import signals
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.protocol.orders import Order, OrderKind
from trainyard.protocol.signals import FailureKind, Signal, StopReason

READY_EVERY_SECONDS = 15.0
TICK_SECONDS = 0.2
RETRY_SECONDS = 30.0
FLUSH_SECONDS = 30.0
FETCH_SECONDS = 900.0
"""A host tries this long to fetch what a program needs. The yard replaces a host that is not ready after 20 minutes."""
logger = logging.getLogger(__name__)
Value = TypeVar("Value")


class Agent:
    """The work of one host. Its programs run as `account`. `put_up_fence` limits incoming connections to the given
    addresses. `power_off` ends the host; the watchdog and the outbox call it from their threads."""

    def __init__(
        self,
        paths: Paths,
        metadata: Metadata,
        identity: Identity,
        tags: RunTags,
        *,
        account: Account,
        put_up_fence: Callable[[Collection[str]], None],
        power_off: Callable[[str], None],
    ) -> None:
        session = credentials.host_session(identity.region)
        self._paths = paths
        self._account = account
        self._identity = identity
        self._tags = tags
        self._began = time.monotonic()
        self._born = datetime.now(UTC)
        self._put_up_fence = put_up_fence
        self._power_off = power_off
        credentials.configure(paths, account)
        self._as_run = credentials.run_session(paths, identity.region)
        self._bucket = Bucket(
            self._as_run.client("s3", config=CALLS), tags.bucket, credentials=credentials.environment(paths)
        )
        self._mailbox = mailbox = Bucket(session.client("s3", config=CALLS), tags.bucket)
        self._disk = Disk(paths.reserve, paths.home)
        self._watchdog = Watchdog(metadata, tags.lease, self._leave, held=hold.held_until(identity.tags))
        self._outbox = Outbox(
            session.client("events", config=CALLS),
            tags.sender,
            mailbox,
            run=tags.run,
            instance=identity.instance,
            on_mute=power_off,
        )
        instance = identity.instance
        self._state = state.recall(paths.state, run=tags.run, instance=instance, attempt=tags.attempt)
        self._job: Job | None = None
        self._images = Images(
            paths, account, identity, self._as_run, has_to_leave=self._why_to_leave, send=self._send
        )
        self._credentials = Renewal(
            mailbox,
            tags.sender,
            paths,
            account=account,
            send=lambda signal: self._outbox.put(tags.attempt, signal),
            run=tags.run,
            request=signals.Credentials(),
        )
        self._standing = StandingOrder(
            self._bucket,
            mailbox,
            tags.run,
            paths,
            instance=identity.instance,
            sender=tags.sender,
            phase=lambda: self._state.phase,
        )

    def work(self) -> None:
        """Fetch, then run attempts until only the end of the host remains to be waited for."""
        self._watchdog.start()
        self._outbox.start()
        if self._state.phase == "new":
            clear_leftovers(self._paths, self._account)
            self._change(phase="fetching")
        Repeat("credentials", lambda _: self._credentials.turn(), every=renewal.LOOK_SECONDS).start()
        Repeat("orders", lambda _: self._poll_order(), every=standing_order.LOOK_SECONDS).start()
        self._disk.hold()
        while self._state.phase != "done":
            try:
                self._one_attempt()
            except HostTrouble as trouble:
                self._report_trouble(trouble)
            except OSError as error:
                self._report_trouble(self._disk.trouble(error))
            except Exception as error:  # our own bug: a silent restart would leave the gang waiting
                logger.exception("the agent failed")
                self._report_trouble(HostTrouble(f"the host agent itself failed: {error!r}"))
        unmount_all(self._paths)
        logger.info("no work is left; waiting for the end of this host")
        while not self._watchdog.lease_over:
            if self._watchdog.going_down.wait(1) or self.is_to_wait:
                self._outbox.flush(FLUSH_SECONDS)
                return
        self._report_lease_over()
        self._watchdog.join()

    @property
    def is_to_wait(self) -> bool:
        """Return True if this run has ended and the host is to be wiped for another run."""
        return self._watchdog.pooled and not self._watchdog.going_down.is_set()

    def _poll_order(self) -> None:
        if self._credentials.are_valid:
            self._standing.turn()

    def go_down(self, number: int, frame: FrameType | None) -> None:
        """Handle the shutdown of the machine: a running program is asked to save; before that, exit at once."""
        if self._state.phase in ("new", "fetching"):
            os._exit(0)
        self._watchdog.going_down.set()

    def _one_attempt(self) -> None:
        if self._state.phase != "running":
            self._put_up_fence(())
        try:
            self._job = self._fetch()
        except Unreachable:
            if not self._leave_if_ordered():
                raise
            return
        program = None
        if self._state.phase == "running":
            cluster, assignment = recall(self._paths, self._state.attempt, instance=self._identity.instance)
            self._put_up_fence(cluster.addresses)
            attempt = self._attempt(cluster, assignment, self._job)
            program = attempt.recall()
            self._watchdog.renew(lease.while_training(cluster.deadline))
        if program is None:
            order = self._await_start()
            if order is None:
                self._change(phase="done")
                return
            self._change(attempt=order.attempt)
            try:
                cluster, assignment = self._join(order)
            except Unreachable:
                if not self._leave_if_ordered():
                    raise
                return
            self._put_up_fence(cluster.addresses)
            attempt = self._attempt(cluster, assignment, self._job)
            program = self._start(attempt, cluster)
            if program is None:
                return
        self._after(attempt.watch(program), cluster)

    def _fetch(self) -> Job:
        """Return the job. Once per host, fetch program and data to the disk."""
        if self._state.phase != "fetching":
            return recall_job(self._paths)
        self._credentials.wait()
        job = self._get("fetching the job", lambda: fetch_job(self._bucket, self._tags.run, self._paths))
        fetch_files(self._get, self._images, self._bucket, job)
        self._fetch_ahead()
        remove_tree(self._paths.spare)
        self._change(phase="waiting")
        return job

    def _get(self, what: str, act: Callable[[], Value]) -> Value:
        """Return the result of `act`. Retry while a service cannot be reached."""
        began = datetime.now(UTC)
        retries = Retries(
            has_to_end=self._why_to_leave,
            until=lambda: min(began + timedelta(seconds=FETCH_SECONDS), self._watchdog.lease.until),
            note=lambda text: logger.warning("%s", text),
            disk_trouble=self._disk.trouble,
            passes=is_unreachable,
        )
        return retries.get(what, act, most_seconds=FETCH_SECONDS)

    def _fetch_ahead(self) -> None:
        """Fetch the newest checkpoint before an attempt needs it. A failure here is harmless: the attempt retries."""
        try:
            with self._account.act():
                restore.fetch_ahead(self._bucket, self._tags.run, self._paths)
        except Unreachable as trouble:
            logger.warning("the checkpoint could not be fetched ahead: %s", trouble.reason)

    def _why_to_leave(self) -> StopReason | Literal["over"] | None:
        if self._watchdog.notice:
            return StopReason.INTERRUPTED
        if self._watchdog.lease_over or self._watchdog.going_down.is_set() or self._watchdog.pooled:
            return "over"
        return StopReason.ASKED if self._stop_order() else None

    def _stop_order(self) -> Order | None:
        stop = orders.latest(OrderKind.STOP, self._paths)
        return stop if stop and stop.run == self._tags.run and stop.attempt >= self._state.attempt else None

    def _leave_if_ordered(self) -> bool:
        """Leave if the host or its attempt has to end. Return False if neither has to."""
        why = self._why_to_leave()
        if why is StopReason.ASKED and (stop := self._stop_order()):
            self._report_unstarted(stop.attempt)
        elif why:
            if why is StopReason.INTERRUPTED:
                self._send(signals.Stopped(why=why))
            self._change(phase="done")
        return why is not None

    def _join(self, order: Order) -> tuple[Cluster, Assignment]:
        """Return the gang and this host's assignment. Send heartbeats while the bucket is down."""
        beat = Repeat("heartbeat", lambda _: self._send(signals.Progress()), every=ALIVE_SECONDS)
        beat.start()
        try:
            return self._get(
                "reading cluster.json",
                lambda: join(self._bucket, order, self._paths, instance=self._identity.instance),
            )
        finally:
            beat.end()

    def _await_start(self) -> Order | None:
        """Report ready until an order arrives, and return that order. Return None if this host has to leave."""
        boot_seconds = round(time.monotonic() - self._began, 1)
        ready_at = 0.0
        while True:
            if self._watchdog.notice:
                self._send(signals.Stopped(why=StopReason.INTERRUPTED))
                return None
            if self._watchdog.lease_over or self._watchdog.going_down.is_set() or self._watchdog.pooled:
                return None
            start = orders.latest(OrderKind.START, self._paths)
            if stop := self._stop_order():
                self._report_unstarted(stop.attempt)
                ready_at = 0.0
            if start and start.run == self._tags.run and start.attempt >= self._state.attempt:
                return start
            if time.monotonic() >= ready_at:
                if ready_at:
                    self._fetch_ahead()
                denied = systems_manager.denial(self._paths.ssm_errors, since=self._born)
                self._send(
                    signals.Ready(
                        address=self._identity.address,
                        boot_seconds=boot_seconds,
                        ssm_denied=denied or None,
                        pulled=self._images.pulled,
                    )
                )
                ready_at = time.monotonic() + READY_EVERY_SECONDS
            time.sleep(TICK_SECONDS)

    def _report_unstarted(self, attempt: int) -> None:
        """Report that this host was ordered to leave before its program began. The yard may have counted a start order
        that existed only for a moment as carried out; no other signal would end the attempt then."""
        self._change(attempt=attempt)
        self._send(signals.Stopped(why=StopReason.ASKED))
        self._change(attempt=attempt + 1)

    def _attempt(self, cluster: Cluster, assignment: Assignment, job: Job) -> Attempt:
        mailbox, sender = self._mailbox, self._tags.sender
        context = Context(
            cluster=cluster,
            assignment=assignment,
            job=job,
            inside=self._images.recall(job),
            account=self._account,
            paths=self._paths,
            bucket=self._bucket,
            peers=Peers(cluster, assignment, bucket=self._bucket, mailbox=mailbox, sender=sender),
            identity=self._identity,
            watchdog=self._watchdog,
            disk=self._disk,
            send=lambda signal: self._outbox.put(cluster.attempt, signal),
            note_checkpoint=lambda last: self._change(
                checkpoint_step=last.step, checkpoint_folder=last.folder
            ),
            ssm=lambda: self._as_run.client("ssm", config=CALLS),
        )
        return Attempt(context, LastCheckpoint(self._state.checkpoint_step, self._state.checkpoint_folder))

    def _start(self, attempt: Attempt, cluster: Cluster) -> Program | None:
        """Start the program. Return None if the attempt has to leave before that."""
        self._watchdog.renew(lease.while_training(cluster.deadline))
        try:
            program = attempt.start()
        except LeftUnstarted as left:
            why = left.drain.stop_reason
            self._after(Outcome(Stopped(why), signals.Stopped(why=why)), cluster)
            return None
        except OSError as error:
            trouble = self._disk.trouble(error)
            raise HostTrouble(
                f"the program could not be started: {trouble.reason}", final=trouble.final
            ) from error
        self._change(phase="running")
        return program

    def _after(self, outcome: Outcome, cluster: Cluster) -> None:
        """Wait for another attempt if one may follow."""
        if outcome.signal:
            self._outbox.put(cluster.attempt, outcome.signal)
        now = datetime.now(UTC)
        if outcome.may_continue:
            self._wait_for_next(cluster.deadline, now)
        else:
            self._change(phase="done")
            self._watchdog.renew(lease.lease_when_done(now))

    def _wait_for_next(self, deadline: datetime | None, now: datetime) -> None:
        self._change(phase="waiting", attempt=self._state.attempt + 1)
        assert self._job is not None, "an attempt begins with the job"
        minutes = self._job.limits.wait_minutes
        self._watchdog.renew(lease.while_waiting(now, wait_minutes=minutes, deadline=deadline))

    def _report_trouble(self, trouble: HostTrouble) -> None:
        """Report what is wrong. After a final trouble, the host has no more work. After any other trouble, it tries the
        next attempt, with a pause unless the host itself is healthy."""
        logger.error("%s", trouble.reason)
        ended = Failed(trouble.kind, trouble.reason, None, trouble.final)
        self._send(failed_signal(ended, tail=""))
        self._outbox.flush(FLUSH_SECONDS)
        if trouble.final or self._watchdog.notice or self._watchdog.lease_over:
            self._change(phase="done")
            return
        if self._state.phase == "running":
            self._change(phase="waiting")
        if not isinstance(trouble, GivenUp):
            self._watchdog.going_down.wait(RETRY_SECONDS)
        self._change(attempt=self._state.attempt + 1)

    def _change(self, **changes: Any) -> None:
        """Save the changed state. If the disk is full, release the reserve first."""
        self._state = replace(self._state, **changes)
        try:
            self._state.save(self._paths.state)
        except OSError:
            self._disk.release()
            self._state.save(self._paths.state)

    def _send(self, signal: Signal) -> None:
        self._outbox.put(self._state.attempt, signal)

    def _report_lease_over(self) -> None:
        ended = Failed(FailureKind.HOST, self._watchdog.lease.reason, None)
        self._send(failed_signal(ended, tail=""))

    def _leave(self, reason: str) -> None:
        """Send the signals that still wait, then power off. The watchdog calls this last."""
        self._outbox.flush(FLUSH_SECONDS)
        self._power_off(reason)
