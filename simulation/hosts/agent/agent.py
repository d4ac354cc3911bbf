"""The agent of a training host (training/host/agent/agent.py).

It fetches, sends `ready`, trains when ordered, becomes ready again, and never outlives its lease.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from simulation.hosts.agent import checkpoints
from simulation.hosts.agent.attempt import Attempt
from simulation.hosts.agent.outbox import UNREACHABLE_SECONDS, Outbox
from simulation.hosts.agent.renewal import Renewal
from simulation.hosts.agent.watchdog import Watchdog
from simulation.hosts.bucket import bucket_of
from simulation.hosts.faults import DiskFull, MountEnds, Trouble, Xid
from simulation.hosts.flow import Flow, Sleep, Steps
from simulation.hosts.gang import KILLED, Program
from simulation.hosts.machine import Machine
from training.host.agent import standing_order
from training.host.agent.agent import FLUSH_SECONDS, READY_EVERY_SECONDS, RETRY_SECONDS
from training.host.agent.conclusion import Outcome
from training.host.agent.deadlines import lease
from training.host.agent.deadlines.lease import Lease
from training.host.agent.state import State
from training.host.agent.tags import RunTags, run_tags
from training.host.errors import HostTrouble, ProgramFault
from training.host.metadata import Identity
from training.host.program.ending import Failed
from training.host.reporting.outbox import failed_signal
from trainyard.core.model.job import Job
from trainyard.protocol import keys, signals
from trainyard.protocol.cluster import Assignment, Cluster, read
from trainyard.protocol.orders import Order, OrderKind
from trainyard.protocol.signals import FailureKind, Signal, StopReason
from trainyard.protocol.tags import Tag
from trainyard.protocol.times import RESTARTED_LEASE
from trainyard.values import serialization

NOT_WIPED = "still has data of another run"
READY_EVERY = timedelta(seconds=READY_EVERY_SECONDS)


def renew_lease(identity: Identity, now: datetime) -> Identity:
    """Renew the lease of a host that was started after its lease had ended."""
    tag = identity.tags.get(Tag.LEASE)
    if tag is None or not lease.lease_at_launch(tag).is_over(now):
        return identity
    again = (now + RESTARTED_LEASE).isoformat()
    return replace(identity, tags={**identity.tags, Tag.LEASE: again})


class Agent:
    """The agent of a training host. `tags` name its run."""

    def __init__(self, machine: Machine, identity: Identity, tags: RunTags) -> None:
        self.machine = machine
        self.bucket = bucket_of(machine.call_as_run, tags.bucket)
        self.mailbox, self.sender = bucket_of(machine.call, tags.bucket), tags.sender
        self.orders: dict[OrderKind, Order] = {}
        self.going_down = False
        self._identity, self._tags = identity, tags
        self._began = machine.world.now
        self._main: Flow | None = None
        self._attempt: Attempt | None = None
        self._trouble: HostTrouble | None = None
        self._seen = ""
        self._is_down = False
        self._outbox = Outbox(machine, tags.sender, self.mailbox, run=tags.run)
        self._renewal = Renewal(machine, self.mailbox, tags.sender, send=self._send, run=tags.run)
        self.watchdog = Watchdog(machine, tags.lease, changed=self.wake, leave=self._leave)
        self._state = self._recall()
        machine.attempt = self._state.attempt

    @staticmethod
    def of(machine: Machine, identity: Identity) -> Agent | None:
        """Return the agent; None if the host is not for a training run."""
        tags = run_tags(identity, now=machine.now())
        return Agent(machine, identity, tags) if tags else None

    @property
    def is_down(self) -> bool:
        return self._is_down

    def live(self) -> Steps:
        self._main = self.machine.flow(self._work(), f"agent {self.machine.instance}")
        self.ordered(self._tags.run)
        yield Sleep()

    def wake(self) -> None:
        if self._main:
            self._main.wake()

    def look(self) -> None:
        self.watchdog.look()

    def hurry(self) -> None:
        self._outbox.hurry()

    def go_down(self) -> None:
        if self._state.phase in ("new", "fetching"):
            self._is_down = True
            if self._main:
                self._main.end()
        self.going_down = True
        self.wake()

    def order(self, kind: OrderKind, run: str, attempt: int) -> bool:
        there = self.orders.get(kind)
        if there is None or there.attempt < attempt:
            self.orders[kind] = Order(kind, run, attempt)
            self.machine.note(f"takes the order {kind}", attempt=attempt)
            self.wake()
        return True

    def ordered(self, run: str) -> None:
        """Look for the new order. The real agent polls every 1 to 5 s; this one only looks when there is an order."""
        seconds = standing_order.seconds_between_looks(self._state.phase)
        if run == self._tags.run and seconds < math.inf:
            self.machine.flow(self._look_for_order(seconds), f"{self.machine.instance} looks for its order")

    def _look_for_order(self, seconds: float) -> Steps:
        yield self.machine.draw((0.0, seconds))
        while standing_order.seconds_between_looks(self._state.phase) < math.inf:
            try:
                found = self.bucket.read_if_changed(keys.order(self._tags.run), self._seen)
                order = standing_order.read(found.body, instance=self.machine.instance) if found else None
                if order:
                    self.order(order.kind, order.run, order.attempt)
                    if order.kind is OrderKind.STOP:
                        self.mailbox.write(standing_order.confirmation_key(order, self._tags.sender), b"{}")
                self._seen = found.etag if found else self._seen
                return
            except HostTrouble:
                yield Sleep() if self.machine.is_cut_off else seconds

    def trouble(self, fault: Trouble) -> None:
        """Record a problem that is found before the program runs."""
        if isinstance(fault, DiskFull):
            self._trouble = HostTrouble("the disk of this host is full", final=True)
        elif isinstance(fault, MountEnds):
            self._trouble = HostTrouble("mounting its data failed: Error: initial ListObjectsV2 failed")
        elif not isinstance(fault, Xid):  # an attempt reads the kernel's log
            self._trouble = ProgramFault(fault.lines[-1])
        self.wake()

    # ---- for the attempt

    def send(self, attempt: int, signal: Signal) -> None:
        self._outbox.put(attempt, signal)

    def _send(self, signal: Signal) -> None:
        self.send(self._state.attempt, signal)

    def note_checkpoint(self, step: int) -> None:
        self._change(checkpoint_step=step)

    def enter(self, attempt: Attempt, *, step: int) -> Program:
        """Start the process of the program. It looks for its peers once it has loaded its dependencies."""
        gang = self.machine.site.gang(attempt.cluster, attempt.job, step=step)
        program = Program(
            gang, attempt.assignment, self.machine, changed=attempt.react, saved=attempt.upload_checkpoint
        )
        self.machine.program = program
        seconds = self.machine.draw(self.machine.delays.program)

        def join() -> None:
            if self.machine.program is program:
                gang.join(program)

        self.machine.world.after(
            seconds, join, what=f"{program.name} of {attempt.cluster.run} looks for peers"
        )
        return program

    # ---- its life

    def _work(self) -> Steps:
        if self._state.phase == "new":
            self._change(phase="fetching")
        while self._state.phase != "done":
            try:
                yield from self._one_attempt()
            except HostTrouble as trouble:
                yield from self._report_trouble(trouble)
        while not self.watchdog.lease_over:
            if self.going_down:
                yield from self._outbox.flush(FLUSH_SECONDS)
                self._is_down = True
                return
            if self.watchdog.pooled:
                yield from self._outbox.flush(FLUSH_SECONDS)
                self.machine.begin_again()
                return
            yield Sleep()
        over = Failed(FailureKind.HOST, self.watchdog.lease.reason, None)
        self._send(failed_signal(over, tail=""))

    def _one_attempt(self) -> Steps:
        job = yield from self._fetch()
        if self._state.phase == "running":
            attempt = self._recalled_attempt(job)
        else:
            order = yield from self._await_start()
            if order is None:
                self._change(phase="done")
                return
            self._change(attempt=order.attempt)
            yield from self.machine.stage("join")
            attempt = self._new_attempt(*self._join(order), job)
            self._attempt = attempt
            self.watchdog.renew(lease.while_training(attempt.cluster.deadline))
            yield from attempt.start()
            self._change(phase="running")
        yield from attempt.watch()
        self.machine.program = None
        assert attempt.outcome is not None, "watch has recorded the outcome"
        self._after(attempt.outcome, attempt.cluster, job)

    def _fetch(self) -> Any:
        """Fetch job, program and data, once per host."""
        disk = self.machine.disk
        if self._state.phase != "fetching":
            return disk.job
        yield from self.machine.stage("fetch")
        yield from self._renewal.wait()
        job = serialization.read(Job, json.loads(self.bucket.read(keys.job(self._tags.run))))
        if job.program.source:
            bucket, key = self.bucket.of(job.program.source)
            bucket.read(key)
        for data in job.data.values():
            if data.folder:
                continue
            bucket, key = self.bucket.of(data.source)
            next(bucket.list(key), None)
        yield self.machine.draw(self.machine.delays.fetch)
        checkpoints.fetch_ahead(self.bucket, self._tags.run, disk)
        yield from self.machine.stage("fetch", "after")
        self._raise_trouble()
        disk.job = job
        self._change(phase="waiting")
        return job

    def _await_start(self) -> Any:
        """Send `ready` until a start is ordered. Return None if this host will join no more attempts."""
        boot_seconds = round((self.machine.world.now - self._began).total_seconds(), 1)
        run, ready_at, has_said = self._tags.run, self.machine.world.now, False
        while True:
            if self.watchdog.notice:
                self._send(signals.Stopped(why=StopReason.INTERRUPTED))
                return None
            if self.watchdog.lease_over or self.going_down or self.watchdog.pooled:
                return None
            self._raise_trouble()
            stop, start = self.orders.get(OrderKind.STOP), self.orders.get(OrderKind.START)
            if stop and stop.run == run and stop.attempt >= self._state.attempt:
                self._leave_unstarted(stop.attempt)
                ready_at = self.machine.world.now
                has_said = False
            if start and start.run == run and start.attempt >= self._state.attempt:
                return start
            left = (ready_at - self.machine.world.now).total_seconds()
            if left <= 0:
                if has_said:
                    checkpoints.fetch_ahead(self.bucket, run, self.machine.disk)
                has_said = True
                self._send(signals.Ready(address=self._identity.address, boot_seconds=boot_seconds))
                left = READY_EVERY_SECONDS
                ready_at = self.machine.world.now + READY_EVERY
            yield Sleep(left)

    def _leave_unstarted(self, attempt: int) -> None:
        self._change(attempt=attempt)
        self._send(signals.Stopped(why=StopReason.ASKED))
        self._change(attempt=attempt + 1)

    def _join(self, order: Order) -> tuple[Cluster, Assignment]:
        cluster = read(self.bucket.read(keys.cluster(order.run, order.attempt)))
        self.machine.disk.clusters = {order.attempt: cluster}
        return cluster, self._assignment_in(cluster)

    def _assignment_in(self, cluster: Cluster) -> Assignment:
        assignment = cluster.assignment(self.machine.instance)
        if assignment is None:
            raise HostTrouble(
                f"cluster.json of attempt {cluster.attempt} has no assignment for {self.machine.instance}"
            )
        self.machine.role = assignment.name
        return assignment

    def _new_attempt(self, cluster: Cluster, assignment: Assignment, job: Job) -> Attempt:
        return Attempt(self, cluster, assignment, job, last=self._state.checkpoint_step)

    def _recalled_attempt(self, job: Job) -> Attempt:
        """Return the attempt from before a reboot, with its killed program."""
        cluster = self.machine.disk.clusters[self._state.attempt]
        attempt = self._new_attempt(cluster, self._assignment_in(cluster), job)
        self.watchdog.renew(lease.while_training(cluster.deadline))
        gang = self.machine.site.gang(cluster, job, step=max(0, self._state.checkpoint_step))
        program = Program(
            gang, attempt.assignment, self.machine, changed=lambda: None, saved=attempt.upload_checkpoint
        )
        program.exit_code = KILLED
        attempt.recall(program)
        return attempt

    def _after(self, outcome: Outcome, cluster: Cluster, job: Job) -> None:
        if outcome.signal:
            self.send(cluster.attempt, outcome.signal)
        now = self.machine.now()
        if outcome.may_continue:
            self._wait_for_next(cluster.deadline, now, job)
        else:
            self._change(phase="done")
            self.watchdog.renew(lease.lease_when_done(now))

    def _wait_for_next(self, deadline: datetime, now: datetime, job: Job) -> None:
        self._change(phase="waiting", attempt=self._state.attempt + 1)
        waiting: Lease = lease.while_waiting(now, wait_minutes=job.limits.wait_minutes, deadline=deadline)
        self.watchdog.renew(waiting)

    def _report_trouble(self, trouble: HostTrouble) -> Steps:
        """Report the problem. If it is final, stop; otherwise try again for the next attempt after a while."""
        if self.machine.is_cut_off:
            yield UNREACHABLE_SECONDS
        ended = Failed(trouble.kind, trouble.reason, None, trouble.final)
        self._send(failed_signal(ended, tail=""))
        yield from self._outbox.flush(FLUSH_SECONDS)
        if trouble.final or self.watchdog.notice or self.watchdog.lease_over:
            self._change(phase="done")
            return
        if self._state.phase == "running":
            self._change(phase="waiting")
        yield RETRY_SECONDS
        self._change(attempt=self._state.attempt + 1)

    def _raise_trouble(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble:
            raise trouble

    def _leave(self, reason: str) -> Steps:
        """Send the remaining signals, then power off. The watchdog calls this at the end."""
        yield from self._outbox.flush(FLUSH_SECONDS)
        self._is_down = True
        self.machine.power_off(reason)

    def _recall(self) -> State:
        """Return the state that an earlier boot of this instance left, or a new state."""
        left = self.machine.disk.state
        if left and left.run != self._tags.run:
            self.machine.note(NOT_WIPED, run=left.run)
            left = None
        return left or State(run=self._tags.run, instance=self.machine.instance, attempt=self._tags.attempt)

    def _change(self, **changes: Any) -> None:
        self._state = self.machine.disk.state = replace(self._state, **changes)
        self.machine.attempt = self._state.attempt
        if changes.get("phase") == "waiting":  # it looks for orders more often from now on
            self.ordered(self._tags.run)
