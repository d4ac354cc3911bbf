"""The host agent: boot, fetch, say ready, train when ordered, be ready again, and never outlive the lease."""

import logging
import os
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any, Literal, TypeVar

from training.host import credentials, orders, renewal
from training.host.account import Account, remove_tree
from training.host.agent import standing_order, state, systems_manager
from training.host.agent.attempt import Attempt
from training.host.agent.clearing import clear_what_another_left
from training.host.agent.conclusion import Outcome
from training.host.agent.deadlines import hold, lease
from training.host.agent.insistence import Insistence, is_unreachable
from training.host.agent.life import Peers
from training.host.agent.membership import join, recall
from training.host.agent.preparation import LeftUnstarted
from training.host.agent.standing_order import StandingOrder
from training.host.agent.surroundings import Surroundings
from training.host.agent.tags import RunTags
from training.host.agent.watchdog import Watchdog
from training.host.bucket import Bucket
from training.host.checkpoints import restore
from training.host.checkpoints.choice import LastCheckpoint
from training.host.credentials import CALLS
from training.host.disk import Disk
from training.host.errors import GivenUp, HostTrouble, Unreachable
from training.host.metadata import Identity, Metadata
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.pool import kept
from training.host.program.ending import Failed, Stopped
from training.host.program.fetch import fetch_all, fetch_job, recall_job
from training.host.program.process import Program
from training.host.renewal import Renewal
from training.host.reporting.outbox import Outbox, failed
from training.host.reporting.progress import ALIVE_SECONDS
from trainyard.core.model.job import Job
from trainyard.protocol import signals
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.protocol.orders import Order, OrderKind
from trainyard.protocol.signals import FailureKind, Signal, StopReason

READY_EVERY_SECONDS = 15.0
TICK_SECONDS = 0.2
TRY_AGAIN_SECONDS = 30.0
FLUSH_SECONDS = 30.0
FETCH_SECONDS = 900.0
"""How long a host tries to fetch what a program needs: the yard replaces a host that is not ready after 20 minutes."""
logger = logging.getLogger(__name__)
Value = TypeVar("Value")


class Agent:
    """One host's work, whose programs run as `account`. `put_up_fence` is given the addresses from which alone it may
    be reached. `power_off` ends the host; the watchdog and the outbox call it from their threads."""

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
        session = credentials.of_the_host(identity.region)
        self._paths = paths
        self._account = account
        self._identity = identity
        self._tags = tags
        self._began = time.monotonic()
        self._born = datetime.now(UTC)
        self._put_up_fence = put_up_fence
        self._power_off = power_off
        credentials.configure(paths, account)
        self._as_run = credentials.of_the_run(paths, identity.region)
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
        self._state = state.recall(
            paths.state, run=tags.run, instance=identity.instance, attempt=tags.attempt
        )
        self._job: Job | None = None
        self._credentials = Renewal(
            mailbox,
            tags.sender,
            paths,
            account=account,
            say=lambda signal: self._outbox.put(tags.attempt, signal),
            run=tags.run,
            asking=signals.Credentials(),
        )
        self._renewal = Repeat("credentials", lambda _: self._credentials.turn(), every=renewal.LOOK_SECONDS)
        self._standing = StandingOrder(
            self._bucket,
            mailbox,
            tags.run,
            paths,
            instance=identity.instance,
            sender=tags.sender,
            phase=lambda: self._state.phase,
        )
        self._listening = Repeat("orders", lambda _: self._listen(), every=standing_order.LOOK_SECONDS)

    def work(self) -> None:
        """Fetch, then attempt after attempt until there is nothing left to do but wait for the end."""
        self._watchdog.start()
        self._outbox.start()
        if self._state.phase == "new":
            clear_what_another_left(self._paths, self._account)
            self._change(phase="fetching")
        self._renewal.start()
        self._listening.start()
        self._disk.hold()
        while self._state.phase != "done":
            try:
                self._one_attempt()
            except HostTrouble as trouble:
                self._report_trouble(trouble)
            except OSError as error:
                self._report_trouble(self._disk.trouble(error))
            except Exception as error:  # a fault of ours: restarting in silence would leave the gang waiting
                logger.exception("the agent failed")
                self._report_trouble(HostTrouble(f"the host agent itself failed: {error!r}"))
        logger.info("nothing left to do; waiting for the end")
        while not self._watchdog.lease_over:
            if self._watchdog.going_down.wait(1) or self.is_to_wait:
                self._outbox.flush(FLUSH_SECONDS)
                return
        self._say_lease_is_over()
        self._watchdog.join()

    @property
    def is_to_wait(self) -> bool:
        """Whether this run is over, and the host to be wiped for another."""
        return self._watchdog.pooled and not self._watchdog.going_down.is_set()

    def _listen(self) -> None:
        if self._credentials.are_there:
            self._standing.turn()

    def go_down(self, number: int, frame: FrameType | None) -> None:
        """The machine goes down: a program that runs is asked to checkpoint, anything else needs no orderly end."""
        if self._state.phase in ("new", "fetching"):
            os._exit(0)
        self._watchdog.going_down.set()

    def _one_attempt(self) -> None:
        if self._state.phase != "running":
            self._put_up_fence(())
        try:
            self._job = self._fetch()
        except Unreachable:
            if not self._leaves_unstarted():
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
                if not self._leaves_unstarted():
                    raise
                return
            self._put_up_fence(cluster.addresses)
            attempt = self._attempt(cluster, assignment, self._job)
            program = self._start(attempt, cluster)
            if program is None:
                return
        self._after(attempt.watch(program), cluster)

    def _fetch(self) -> Job:
        """Return the job. Once per host, bring program and data on disk."""
        if self._state.phase != "fetching":
            return recall_job(self._paths)
        self._credentials.wait()
        job = self._get("fetching the job", lambda: fetch_job(self._bucket, self._tags.run, self._paths))
        kept.give(job, self._paths, self._account)

        def fetch() -> str | None:
            with self._account.acting():
                return fetch_all(self._bucket, job, self._paths)

        packages = self._get("fetching program, packages and data", fetch)
        self._fetch_ahead()
        remove_tree(self._paths.spare)
        if job.pool.keep:
            kept.note(job, packages, self._paths)
        self._change(phase="waiting")
        return job

    def _get(self, what: str, act: Callable[[], Value]) -> Value:
        """Return what `act` returns, and try again while a service cannot be reached."""
        began = datetime.now(UTC)
        insistence = Insistence(
            has_to_end=self._why_to_leave,
            until=lambda: min(began + timedelta(seconds=FETCH_SECONDS), self._watchdog.lease.until),
            note=lambda text: logger.warning("%s", text),
            disk_trouble=self._disk.trouble,
            passes=is_unreachable,
        )
        return insistence.get(what, act, most_seconds=FETCH_SECONDS)

    def _fetch_ahead(self) -> None:
        """Fetch the newest checkpoint before it is asked for; the attempt that restores it insists on it."""
        try:
            with self._account.acting():
                restore.fetch_ahead(self._bucket, self._tags.run, self._paths)
        except Unreachable as trouble:
            logger.warning("no checkpoint is fetched ahead: %s", trouble.reason)

    def _why_to_leave(self) -> StopReason | Literal["over"] | None:
        if self._watchdog.notice:
            return StopReason.INTERRUPTED
        if self._watchdog.lease_over or self._watchdog.going_down.is_set() or self._watchdog.pooled:
            return "over"
        return StopReason.ASKED if self._stop_order() else None

    def _stop_order(self) -> Order | None:
        stop = orders.latest(OrderKind.STOP, self._paths)
        return stop if stop and stop.run == self._tags.run and stop.attempt >= self._state.attempt else None

    def _leaves_unstarted(self) -> bool:
        """Leave if the host or its attempt has to end; return False if neither has."""
        why = self._why_to_leave()
        if why is StopReason.ASKED and (stop := self._stop_order()):
            self._leave_unstarted(stop.attempt)
        elif why:
            if why is StopReason.INTERRUPTED:
                self._say(signals.Stopped(why=why))
            self._change(phase="done")
        return why is not None

    def _join(self, order: Order) -> tuple[Cluster, Assignment]:
        """Return the gang and this host's part in it. The host says that it is alive while the bucket is down."""
        beat = Repeat("heartbeat", lambda _: self._say(signals.Progress()), every=ALIVE_SECONDS)
        beat.start()
        try:
            return self._get(
                "reading cluster.json",
                lambda: join(self._bucket, order, self._paths, instance=self._identity.instance),
            )
        finally:
            beat.end()

    def _await_start(self) -> Order | None:
        """Say ready until ordered. None when this host will not be part of anything any more."""
        boot_seconds = round(time.monotonic() - self._began, 1)
        ready_at = 0.0
        while True:
            if self._watchdog.notice:
                self._say(signals.Stopped(why=StopReason.INTERRUPTED))
                return None
            if self._watchdog.lease_over or self._watchdog.going_down.is_set() or self._watchdog.pooled:
                return None
            start = orders.latest(OrderKind.START, self._paths)
            if stop := self._stop_order():
                self._leave_unstarted(stop.attempt)
                ready_at = 0.0
            if start and start.run == self._tags.run and start.attempt >= self._state.attempt:
                return start
            if time.monotonic() >= ready_at:
                if ready_at:
                    self._fetch_ahead()
                denied = systems_manager.denial(self._paths.ssm_errors, since=self._born)
                self._say(
                    signals.Ready(
                        address=self._identity.address, boot_seconds=boot_seconds, ssm_denied=denied or None
                    )
                )
                ready_at = time.monotonic() + READY_EVERY_SECONDS
            time.sleep(TICK_SECONDS)

    def _leave_unstarted(self, attempt: int) -> None:
        """Told to leave before its program began. It says so: an order to start that stood for a moment may have been
        taken for obeyed, and then nobody else would end the attempt."""
        self._change(attempt=attempt)
        self._say(signals.Stopped(why=StopReason.ASKED))
        self._change(attempt=attempt + 1)

    def _attempt(self, cluster: Cluster, assignment: Assignment, job: Job) -> Attempt:
        mailbox, sender = self._mailbox, self._tags.sender
        around = Surroundings(
            cluster=cluster,
            assignment=assignment,
            job=job,
            account=self._account,
            paths=self._paths,
            bucket=self._bucket,
            peers=Peers(cluster, assignment, bucket=self._bucket, mailbox=mailbox, sender=sender),
            identity=self._identity,
            watchdog=self._watchdog,
            disk=self._disk,
            say=lambda signal: self._outbox.put(cluster.attempt, signal),
            note_checkpoint=lambda last: self._change(
                checkpoint_step=last.step, checkpoint_folder=last.folder
            ),
            ssm=lambda: self._as_run.client("ssm", config=CALLS),
        )
        return Attempt(around, LastCheckpoint(self._state.checkpoint_step, self._state.checkpoint_folder))

    def _start(self, attempt: Attempt, cluster: Cluster) -> Program | None:
        """Start the program; return None if the attempt has to leave before that."""
        self._watchdog.renew(lease.while_training(cluster.deadline))
        try:
            program = attempt.start()
        except LeftUnstarted as left:
            why = left.leaving.reported
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
        """Wait for another attempt if there may be one."""
        if outcome.signal:
            self._outbox.put(cluster.attempt, outcome.signal)
        now = datetime.now(UTC)
        if outcome.may_go_on:
            self._wait_for_next(cluster.deadline, now)
        else:
            self._change(phase="done")
            self._watchdog.renew(lease.when_done(now))

    def _wait_for_next(self, deadline: datetime | None, now: datetime) -> None:
        self._change(phase="waiting", attempt=self._state.attempt + 1)
        assert self._job is not None, "an attempt begins with the job"
        minutes = self._job.limits.wait_minutes
        self._watchdog.renew(lease.while_waiting(now, wait_minutes=minutes, deadline=deadline))

    def _report_trouble(self, trouble: HostTrouble) -> None:
        """Say what is wrong. Final: that was all. Otherwise try again for the next attempt: after a while, unless the
        host itself is well."""
        logger.error("%s", trouble.reason)
        ended = Failed(trouble.kind, trouble.reason, None, trouble.final)
        self._say(failed(ended, tail=""))
        self._outbox.flush(FLUSH_SECONDS)
        if trouble.final or self._watchdog.notice or self._watchdog.lease_over:
            self._change(phase="done")
            return
        if self._state.phase == "running":
            self._change(phase="waiting")
        if not isinstance(trouble, GivenUp):
            self._watchdog.going_down.wait(TRY_AGAIN_SECONDS)
        self._change(attempt=self._state.attempt + 1)

    def _change(self, **changes: Any) -> None:
        """Remember. Should the disk be full, the reserve makes room for it."""
        self._state = self._state.but(**changes)
        try:
            self._state.save(self._paths.state)
        except OSError:
            self._disk.release()
            self._state.save(self._paths.state)

    def _say(self, signal: Signal) -> None:
        self._outbox.put(self._state.attempt, signal)

    def _say_lease_is_over(self) -> None:
        ended = Failed(FailureKind.HOST, self._watchdog.lease.reason, None)
        self._say(failed(ended, tail=""))

    def _leave(self, reason: str) -> None:
        """The watchdog's last act: send what is still to be sent, then power off."""
        self._outbox.flush(FLUSH_SECONDS)
        self._power_off(reason)
