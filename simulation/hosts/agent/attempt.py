"""One program on a host (training/host/agent/attempt.py): start, results, when it has to leave, and end.

The real agent's functions make all decisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from simulation.hosts.agent import checkpoints
from simulation.hosts.agent.health import MachineHealth
from simulation.hosts.agent.log import Log
from simulation.hosts.agent.owner import AttemptAgent
from simulation.hosts.agent.reports import LOOK_SECONDS, Curve, Reports
from simulation.hosts.agent.results import missing, write_events, write_model
from simulation.hosts.agent.shares import look_at_shares
from simulation.hosts.agent.signs import SignsOfLife
from simulation.hosts.agent.uploads import Uploads
from simulation.hosts.agent.use import write_use
from simulation.hosts.faults import MountEnds
from simulation.hosts.flow import Flow, Sleep, Steps
from simulation.hosts.gang import KILLED, Program
from simulation.hosts.pace import Phase
from simulation.world.world import BEGINNING
from training.host.agent.conclusion import EVALUATION_SECONDS, WORKERS_LOOK_SECONDS, Outcome
from training.host.agent.deadlines import drain as deadlines
from training.host.agent.deadlines.drain import Drain
from training.host.agent.draining import Draining
from training.host.agent.life import REPORT_SECONDS, Peers, StillTraining, has_ended
from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket
from training.host.checkpoints.catalogue import Version
from training.host.errors import HostTrouble
from training.host.program import ending, silence
from training.host.program.ending import End, Failed, Finished, Stopped
from training.host.reporting.outbox import failed_signal
from training.host.reporting.progress import ALIVE_SECONDS
from trainyard.core.model.job import Job
from trainyard.protocol import signals
from trainyard.protocol.cluster import Assignment, Cluster, Role
from trainyard.protocol.orders import OrderKind
from trainyard.protocol.processes import RESTART
from trainyard.protocol.signals import Signal

HOLD_LOOK_SECONDS = 1.0


class Attempt:
    def __init__(
        self, agent: AttemptAgent[Attempt], cluster: Cluster, assignment: Assignment, job: Job, *, last: int
    ) -> None:
        self.cluster, self.assignment, self.job = cluster, assignment, job
        self.program: Program | None = None
        self.outcome: Outcome | None = None
        self._agent, self._machine = agent, agent.machine
        self._bucket: Bucket = agent.bucket
        self._reports = Reports.of(job, self._seconds(), cluster.attempt)
        self._peers = Peers(
            cluster, assignment, bucket=agent.bucket, mailbox=agent.mailbox, sender=agent.sender
        )
        self._signs = SignsOfLife(self._reports, self._peers, self._seconds())
        self._curve = Curve(self._bucket, cluster.run, self._reports.scalars)
        self._uploads = Uploads(
            self._machine,
            self._bucket,
            cluster.run,
            last,
            keep=job.checkpoints.keep,
            uploaded=self._note_upload,
            wake=agent.wake,
        )
        self._log = Log(self._machine, self._bucket, cluster, assignment)
        self._health = MachineHealth(self._machine)
        self._flows: list[Flow] = []
        self._reporter: Flow | None = None
        self._uploader: Flow | None = None

    def start(self) -> Steps:
        self._health.check()
        with self._heartbeat():
            yield from self._machine.stage("prepare")
            yield self._machine.draw(self._machine.delays.prepare)
            instead = self._prepare()
            yield from self._machine.stage("prepare", "after")
        if self._machine.disk.is_full:
            raise HostTrouble(
                f"the program could not be started: {self._machine.disk.room.advice}", final=True
            )
        self.program = self._log.program = self._agent.enter(self, step=max(0, self._uploads.step))
        role, index = self.assignment.role, self.assignment.index
        self._send(signals.Started(role=role, index=index, instead=instead or None))

    def recall(self, program: Program | None) -> None:
        """Continue after a reboot, which the program did not survive."""
        self.program = self._log.program = program
        if self.assignment.is_chief:
            self._curve.begin()

    def _prepare(self) -> str | None:
        asked, disk = self.cluster.checkpoint, self._machine.disk
        alone = self.cluster.restores_alone(self.assignment)
        step, instead = checkpoints.restore(self._bucket, self.cluster.run, asked, disk, alone=alone)
        self._uploads.begin_at(step)
        self._agent.note_checkpoint(step)
        look_at_shares(self._bucket, self.job)
        if self.assignment.is_chief:
            self._curve.begin(up_to=step)
        what = f"restore the checkpoint of step {step}" if asked else "a fresh start"
        self._log.add(*([instead] if instead else []))
        self._log.add(f"attempt {self.cluster.attempt} on {self._machine.instance}: {what}")
        self._log.send()
        return instead

    def watch(self) -> Steps:
        """Watch the program until its end. Sets `outcome`."""
        program, draining = self.program, None
        assert program is not None, "start must be called before watch"
        self._start_flows(program)
        while program.exit_code is None:
            if draining is None and (drain := self._find_reason(program)):
                draining = self._drain(program, drain)
            if draining:
                draining.turn(self._machine.now())
            if program.exit_code is None:
                yield Sleep(self._until_next_look(draining))
        self._machine.is_busy(False)
        for flow in self._flows:
            flow.end()
        write_use(self._machine, self._bucket, self.cluster, self.assignment)
        with self._heartbeat():
            yield LOOK_SECONDS
            yield from self._conclude(program.exit_code, draining)

    def _drain(self, program: Program, drain: Drain) -> Draining:
        return Draining(
            program,
            drain,
            saves=self._run_has_saved(),
            saved=lambda: self._uploads.step,
            chief_has_left=self._chief_has_left,
            note=self._log.add,
        )

    def _run_has_saved(self) -> bool:
        if self.assignment.is_chief:
            return self._uploads.step >= 0
        try:
            is_saver = self.assignment.role is not Role.EVALUATOR
            return is_saver and in_bucket.catalogue_of(self._bucket, self.cluster.run) is not None
        except HostTrouble:
            return False

    def _chief_has_left(self) -> bool:
        state = None if self.assignment.is_chief else self._peers.state_of(self.cluster.chief)
        return state is not None and state.ended is not None

    def _start_flows(self, program: Program) -> None:
        self._machine.is_busy(self.assignment.role is not Role.PS)
        if self.assignment.is_chief:
            self._reporter = self._start_flow(self._report(program), "reports")
            self._uploader = self._start_flow(self._uploads.upload_when_saved(self._has_ended), "checkpoints")
        elif self.assignment.role is Role.EVALUATOR:
            self._start_flow(
                checkpoints.follow(self._machine, self._bucket, self.cluster.run, self._uploads.step),
                "evaluator's checkpoints",
            )
        elif self._machine.site.is_exact or program.gang.work.silent:  # otherwise nothing needs it
            self._start_flow(self._send_signs_of_life(program), "signs of life")
        if self._machine.site.is_exact:
            self._start_flow(self._log.send_often(), "log")

    def _start_flow(self, steps: Steps, what: str) -> Flow:
        flow = self._machine.flow(steps, f"{what} {self._machine.instance}")
        if what != "checkpoints":  # an upload that has started is completed
            self._flows.append(flow)
        return flow

    def _until_next_look(self, draining: Draining | None) -> float:
        now = self._machine.now()
        if draining and draining.asked_at is None:
            return HOLD_LOOK_SECONDS
        if draining:
            return max(LOOK_SECONDS, (draining.drain.kill_at - now).total_seconds())
        end = min(self.cluster.deadline, self._agent.watchdog.lease.until)
        seconds = max(LOOK_SECONDS, (end - now).total_seconds())
        return min(seconds, silence.LOOK_SECONDS) if self.assignment.is_chief else seconds

    def _find_reason(self, program: Program) -> Drain | None:
        broken = self._health.reason_to_leave(self._log, self._machine.now())
        return broken or self._reason_to_leave() or self._detect_hang(program)

    def _reason_to_leave(self) -> Drain | None:
        stop, now = self._agent.orders.get(OrderKind.STOP), self._machine.now()
        drain = deadlines.order_to_leave(
            notice=self._agent.watchdog.notice,
            going_down=self._agent.going_down,
            stop_ordered=self._agent.watchdog.pooled
            or bool(stop and stop.run == self.cluster.run and stop.attempt >= self.cluster.attempt),
            deadline=self.cluster.deadline,
            lease=self._agent.watchdog.lease,
            now=now,
        )
        trouble = self._uploads.trouble
        return drain or (deadlines.drain_for_trouble(trouble, now) if trouble else None)

    def _detect_hang(self, program: Program) -> Drain | None:
        if not self.assignment.is_chief:
            return None
        if not self._signs.hangs(program.gang, self._seconds()):
            return None
        self._log.add(silence.HANGS)
        return deadlines.drain_hanging(self._machine.now())

    def react(self) -> None:
        """React to the start of training or to the end of the program."""
        if self._reporter:
            self._reporter.wake()
        self._agent.wake()

    def upload_checkpoint(self, step: int) -> None:
        """Upload the checkpoint that is now on the disk."""
        self._uploads.record_checkpoint(step)
        if self._uploader:
            self._uploader.wake()

    def _report(self, program: Program) -> Steps:
        while True:
            self._take_reports(program)
            values = self._reports.due(self._seconds())
            if values is not None:
                self._send(signals.Progress(**values))
                if self._machine.site.is_exact:
                    self._curve.try_to_send(self._machine)
            yield Sleep(self._reports.wait(self._seconds(), program.gang.until_next_report()))

    def _take_reports(self, program: Program) -> None:
        if self._reports.listen(program.gang):
            self._curve.add(self._reports.reported, self._machine.now())

    def _send_signs_of_life(self, program: Program) -> Steps:
        while True:
            if program.gang.phase in (Phase.TRAINING, Phase.ENDING):
                self._peers.report_working(self._seconds(), self._machine.now())
            yield REPORT_SECONDS

    def _note_upload(self, version: Version) -> None:
        self._send(signals.Checkpointed(step=version.step, key=version.key))
        self._agent.note_checkpoint(version.step)

    def _has_ended(self) -> bool:
        return self.program is None or self.program.exit_code is not None

    def _conclude(self, code: int, draining: Draining | None) -> Steps:
        program, drain = self.program, draining.drain if draining else None
        assert program is not None, "an ended program was started"
        self._log.add(f"the program ended with exit code {code}")
        self._take_reports(program)
        tail = "".join(f"{line}\n" for line in [*self._log.lines, *program.tail])
        end = End(
            code=code,
            tail=tail,
            asked=drain.stop_reason if drain else None,
            handled_sigterm=bool(draining and draining.asked_at and draining.had_handler),
            at_end=self._is_at_its_end(program, code),
            killed=bool(draining and draining.killed),
            with_keeper=code == KILLED and not (draining and draining.killed),
            gang=len(self.cluster.assignments),
            serves=self.cluster.serves(self.assignment),
            broken_hardware=self._health.fatal,
            lost_mount=MountEnds.reason if MountEnds.line in program.tail[-1:] else "",
            room=self._machine.disk.room,
            strict=self.job.program.strict,
        )
        self._peers.report_ended(RESTART if end.left_early else code, self._machine.now())
        if code == 0 and not drain:
            yield from self._wait_for_workers()
        trouble = (yield from self._uploads.finish()) if self.assignment.is_chief else None
        ended = ending.decide(
            replace(
                end,
                missing=missing(self.job, program.gang.work, has_checkpoint=self._uploads.step >= 0)
                if self.assignment.is_chief
                else (),
            )
        )
        if isinstance(ended, Failed | Stopped) and not drain and self._chief_has_finished():
            ended = Finished()
        results: dict[str, Any] = {}
        try:
            if isinstance(ended, Finished) and self.assignment.is_chief:
                yield from self._machine.stage("results")
                yield self._machine.draw(self._machine.delays.results)
                results = self._write_results(program)
                yield from self._machine.stage("results", "after")
                yield from self._wait_for_evaluator()
            self._log.send()
            if self.assignment.is_chief:
                write_events(self._bucket, self.cluster.run)
                self._curve.send()
        except HostTrouble as problem:
            trouble = trouble or problem
        if drain and drain.trouble and isinstance(ended, Stopped):
            trouble = drain.trouble
        if trouble and not isinstance(ended, Failed):
            ended = Failed(trouble.kind, trouble.reason, code, trouble.final)
        if isinstance(ended, Failed) and ending.waits_for_the_chief(ended, is_chief=self.assignment.is_chief):
            yield ending.CHIEF_FIRST_SECONDS
        self.outcome = self._outcome(ended, results, tail)

    def _is_at_its_end(self, program: Program, code: int) -> bool:
        """Return True if the program has completed its last step. It writes metrics.json at its end."""
        if "steps" in self._reports.latest:
            return self._reports.is_at_its_end
        work = program.gang.work
        return code == 0 and self.assignment.is_chief and not (work.serves or work.lacks == "metrics")

    def _wait_for_workers(self) -> Steps:
        others, still = self.cluster.trains_beside(self.assignment), StillTraining(self._seconds())
        while others and still.among(self._peers.states_of(others), self._seconds()):
            if self._reason_to_leave():
                return
            yield WORKERS_LOOK_SECONDS

    def _wait_for_evaluator(self) -> Steps:
        end = self._seconds() + EVALUATION_SECONDS
        evaluators = self.cluster.evaluators if self._uploads.step >= 0 else ()
        while any(not has_ended(state) for state in self._peers.states_of(evaluators).values()):
            if self._reason_to_leave() or self._seconds() >= end:
                return
            yield WORKERS_LOOK_SECONDS

    def _chief_has_finished(self) -> bool:
        if not self.cluster.is_done_without(self.assignment):
            return False
        state = self._peers.state_of(self.cluster.chief)
        return state is not None and state.finished

    def _outcome(self, ended: Finished | Stopped | Failed, results: dict[str, Any], tail: str) -> Outcome:
        match ended:
            case Finished():
                values = {**results, "step": self._step(results.get("step")), **self._reports.restored}
                return Outcome(ended, signals.Finished(**values) if self.assignment.is_chief else None)
            case Stopped(why, said):
                values = {**self._reports.all, "step": self._step()}
                return Outcome(ended, signals.Stopped(why=why, reason=said or None, **values))
            case Failed():
                last, far = ending.last_lines(tail.encode()), {**self._reports.all, "step": self._step()}
                return Outcome(ended, failed_signal(ended, last, progress=far))

    def _write_results(self, program: Program) -> dict[str, Any]:
        work, step = program.gang.work, program.gang.step
        if work.lacks != "model" and not work.serves:
            write_model(self._bucket, self.cluster.run, self.job, self._machine.host.metadata.image, step)
        metrics = self._curve.lay_over(None if work.lacks == "metrics" or work.serves else work.metrics(step))
        return self._reports.conclude(metrics, self._step())

    def _step(self, written: int | None = None) -> int | None:
        steps_seen = (self._uploads.step, self._reports.step, written)
        known = [step for step in steps_seen if step is not None]
        return max((step for step in known if step >= 0), default=None)

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Send heartbeats while the agent itself works and the chief's program does not run."""
        if not self.assignment.is_chief:
            yield
            return
        beat = self._machine.flow(self._beat(), f"heartbeat {self._machine.instance}")
        try:
            yield
        finally:
            beat.end()

    def _beat(self) -> Steps:
        while True:
            yield ALIVE_SECONDS
            self._send(signals.Progress(**self._reports.all))

    def _send(self, signal: Signal) -> None:
        self._agent.send(self.cluster.attempt, signal)

    def _seconds(self) -> float:
        return (self._machine.now() - BEGINNING) / timedelta(seconds=1)
