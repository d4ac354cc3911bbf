"""One machine: it boots, registers with Systems Manager, runs SSM documents and shuts down; and its faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from simulation.aws.endpoint.api import Answer
from simulation.hosts import gpus
from simulation.hosts.bucket import Unreachable, patient
from simulation.hosts.delays import Range
from simulation.hosts.disk import Disk
from simulation.hosts.environment import Done, Host
from simulation.hosts.faults import (
    ClockOff,
    Dies,
    DiskFull,
    Fault,
    GangHangs,
    GoesDown,
    Hangs,
    IsCutOff,
    Late,
    MountEnds,
    NeverRegisters,
    OthersHang,
    ProgramEnds,
    RegistersLate,
    Trouble,
    When,
    Xid,
)
from simulation.hosts.flow import Flow, Gone, Sleep, Steps
from simulation.hosts.gang import Program
from simulation.hosts.life import Life
from simulation.hosts.signatures import MOST_OFF, dated
from simulation.hosts.site import Site
from simulation.world.world import Planned
from training.host.metadata import Identity

FORCED_SECONDS = 120.0
"""EC2 cuts the power of a machine that has not shut down by then."""
AGENT_STOPS_SECONDS = 90.0
LOOK_SECONDS = 5.0
HEALED = (0.0, 35.0)
"""The delay until a client of a reconnected host tries again."""


class Machine:
    """One machine. It draws its delays from its own random numbers.

    `number` counts all machines from 0.
    """

    def __init__(self, site: Site[Machine], host: Host, number: int) -> None:
        self.site, self.world, self.delays = site, site.world, site.delays
        self.host = host
        self.instance = host.metadata.instance
        self.number = number
        self.disk = Disk()
        self.metrics = gpus.Metrics(self)
        self.is_on = False
        self.is_frozen = False
        self.is_cut_off = False
        self.is_registered = False
        self.is_up = False
        self.role = ""
        self.credentials: dict[str, Any] | None = None
        """The credentials of its run, while the machine is on."""
        self.attempt = 0
        self.kernel: list[str] = []
        """The kernel's log since the machine booted."""
        self.program: Program | None = None
        self.life: Life | None = None
        self._chance = site.world.chance(f"host/{self.instance}")
        self._flows: list[Flow] = []
        self._agent_flows: list[Flow] = []
        self._pending: dict[str, tuple[str, Mapping[str, Sequence[str]], Done]] = {}
        self._ahead = timedelta()
        calls = (host.aws, host.aws_as_run)
        self._call, self._call_as_run = (dated(patient(each), lambda: self._ahead) for each in calls)
        self._never_registers = False
        self._late_to_register = 0.0
        self._is_look_planned = False
        self._forced: Planned | None = None

    # ---- for what runs on it

    @property
    def runs(self) -> bool:
        return self.is_on and not self.is_frozen

    def draw(self, seconds: Range) -> float:
        return round(self._chance.uniform(*seconds), 3)

    def now(self) -> datetime:
        """Return the time of the machine's own clock."""
        return (self.world.now + self._ahead).astimezone(UTC)

    def call(self, service: str, operation: str, **request: Any) -> Answer:
        """Call AWS with the host's role. Raises Unreachable without a network."""
        if self.is_cut_off:
            raise Unreachable
        return self._call(service, operation, **request)

    def call_as_run(self, service: str, operation: str, **request: Any) -> Answer:
        """Call AWS with the credentials of the run. Raises Unreachable without a network."""
        if self.is_cut_off or self.credentials is None:
            raise Unreachable
        return self._call_as_run(self.credentials["AccessKeyId"], service, operation, **request)

    def flow(self, steps: Steps, what: str) -> Flow:
        """Start a flow of the software on the machine."""
        self._agent_flows = [flow for flow in self._agent_flows if not flow.ended]
        flow = self._own_flow(steps, what)
        self._agent_flows.append(flow)
        return flow

    def _own_flow(self, steps: Steps, what: str) -> Flow:
        """Start a flow of the machine itself, or of the SSM agent."""
        self._flows = [flow for flow in self._flows if not flow.ended]
        flow = Flow(self.world, steps, lambda: self.is_frozen, what)
        self._flows.append(flow)
        return flow

    def begin_again(self) -> None:
        """Restart the agent without anything of the previous run. Its tags decide what runs now."""
        for flow in self._agent_flows:
            flow.end()
        self._agent_flows = []
        self.program = self.credentials = None
        self.life = self.site.life_of(self)
        self._own_flow(self.life.live(), f"{self.instance} restarts its agent")

    def note(self, what: str, **details: Any) -> None:
        self.world.note(self.instance, what, **details)

    def identity(self) -> Identity:
        seen = self.host.metadata
        return Identity(self.instance, seen.region, seen.address, seen.image, dict(seen.tags()))

    def inject(self, stage: str, when: When) -> Fault | None:
        """Inject the fault of this point, if any, and return it. The caller handles faults of signals. Raises Gone
        if the machine is off."""
        fault = self.site.fault(self, stage, when)
        if fault is not None:
            self.note(f"fault {type(fault).__name__}", at=f"{when} {stage}")
            self.apply(fault)
        if not self.is_on:
            raise Gone
        return fault

    def stage(self, name: str, when: When = "before") -> Steps:
        """Inject the fault of a stage."""
        fault = self.inject(name, when)
        if isinstance(fault, Late):
            yield fault.seconds
        elif fault is not None:
            yield 0.0

    def power_off(self, reason: str) -> None:
        """Shut down from inside. EC2 does the rest."""
        self.note("powers off", reason=reason)
        self._own_flow(self._go_down(self.host.power_off), f"{self.instance} powers off")

    def is_busy(self, busy: bool) -> None:
        self.metrics.change(busy=busy)

    def publish(self) -> None:
        """Start the CloudWatch agent, which also runs after every boot."""
        if gpus.has_gpus(self.host.metadata.instance_type):
            self.metrics.start(put=self.site.puts_metrics)

    # ---- from outside

    def boot(self) -> None:
        if self.is_on:
            return
        self.is_on, self.is_frozen, self.is_up = True, False, False
        self.note("boots")
        self._own_flow(self._boot(), f"{self.instance} boots")

    def shut_down(self, down: Callable[[], None]) -> None:
        """Shut down. `down` is called when the power is off, at the latest after two minutes, when EC2 cuts the
        power."""
        if not self.is_on:
            down()
            return
        what = f"{self.instance} is forced off"
        self._forced = self.world.after(FORCED_SECONDS, lambda: self._off(down), what=what)
        self._own_flow(self._go_down(down), f"{self.instance} goes down")

    def cut_power(self) -> None:
        self._off(lambda: None)

    def look(self) -> None:
        """Notify the machine of changed metadata, which it reads within five seconds."""
        if self.life and not self._is_look_planned:
            self._is_look_planned = True
            self.world.after(self.draw((0.0, LOOK_SECONDS)), self._look, what=f"{self.instance} looks")

    def command(
        self, command_id: str, document: str, parameters: Mapping[str, Sequence[str]], done: Done
    ) -> None:
        """Run an SSM document. A host that hangs or is cut off for good never answers."""
        self._pending[command_id] = (document, parameters, done)
        if self.is_registered and not self.is_cut_off:
            self._own_flow(self._run_command(command_id), f"{self.instance} {document}")

    def withdraw(self, command_id: str) -> None:
        """Drop a command that Systems Manager has given up."""
        self._pending.pop(command_id, None)

    def apply(self, fault: Fault) -> None:
        match fault:
            case Dies():
                self.die()
            case Hangs(seconds):
                self.hang(seconds)
            case IsCutOff(seconds):
                self.cut_off(seconds)
            case ProgramEnds():
                self._program_ends(fault)
            case DiskFull() | MountEnds():
                self.disk.is_full |= isinstance(fault, DiskFull)
                self._program_ends(replace(ProgramEnds(), lines=(fault.line,)), cause=fault)
            case Xid(message):
                self.kernel.append(message)
                if self.life:
                    self.life.trouble(fault)
            case ClockOff(seconds):
                self._ahead += timedelta(seconds=seconds)
                self._never_registers |= abs(self._ahead) > MOST_OFF
            case NeverRegisters():
                self._never_registers = True
            case RegistersLate(seconds):
                self._late_to_register = seconds
            case GangHangs() if self.program:
                self.program.gang.hang()
            case OthersHang() if self.program:
                self.program.gang.others_hang = True
            case GoesDown():
                self.power_off("a user shut it down")
            case _:
                pass  # faults of a signal, or of a program when none runs

    def die(self) -> None:
        self.note("dies")
        self._off(self.host.crash)

    def hang(self, seconds: float | None) -> None:
        self.is_frozen = True
        self._report_silence(is_silent=True)
        self._lose_program()
        if seconds is not None:
            self.world.after(seconds, self._thaw, what=f"{self.instance} continues")

    def cut_off(self, seconds: float | None) -> None:
        self.is_cut_off = True
        self._report_silence(is_silent=True)
        if self.program and not self.program.gang.is_alone:
            self._lose_program()
        if seconds is not None:
            self.world.after(seconds, self._join_again, what=f"{self.instance} is reachable again")

    def _boot(self) -> Steps:
        yield from self.stage("boot")
        yield self.draw(self.delays.boot)
        self.is_up = True
        if gpus.has_gpus(self.host.metadata.instance_type) and self.site.has_agent(self.host):
            self.publish()
        if self.site.is_registered(self.host):
            self._own_flow(self._register(), f"{self.instance} registers")
        yield self.draw(self.delays.agent)
        self.life = self.site.life_of(self)
        yield from self.stage("boot", "after")
        yield from self.life.live()

    def _register(self) -> Steps:
        yield from self.stage("register")
        yield self.draw(self.delays.register) + self._late_to_register
        if self._never_registers:
            return
        yield from self._wait_until_reached()
        self.is_registered = True
        self.host.register()
        yield from self.stage("register", "after")
        self._deliver_pending()

    def _run_command(self, command_id: str) -> Steps:
        yield self.draw(self.delays.order)
        yield from self._wait_until_reached()
        pending = self._pending.pop(command_id, None)
        if pending is None:
            return
        document, parameters, done = pending
        name = document.rpartition("-")[2]
        yield from self.stage(name)
        end = yield from self.site.document(self, name, parameters)
        yield from self.stage(name, "after")
        yield from self._wait_until_reached()
        done(end)

    def _report_silence(self, *, is_silent: bool) -> None:
        if self.site.on_silence and self.is_registered:
            self.site.on_silence(self.instance, is_silent)

    def _wait_until_reached(self) -> Steps:
        while self.is_cut_off:
            yield Sleep()

    def _deliver_pending(self) -> None:
        for command_id, (document, _, _) in self._pending.items():
            self._own_flow(self._run_command(command_id), f"{self.instance} {document}")

    def _go_down(self, down: Callable[[], None]) -> Steps:
        if self.life:
            self.life.go_down()
            left = AGENT_STOPS_SECONDS
            while not self.life.is_down and left > 0:
                yield 0.5
                left -= 0.5
        yield self.draw(self.delays.shut_down)
        self._off(down)

    def _off(self, down: Callable[[], None]) -> None:
        if not self.is_on:
            return
        self.is_on = self.is_registered = self.is_up = False
        self._lose_program()
        self.program = self.life = self.credentials = None
        for flow in self._flows:
            flow.end()
        self._flows, self.kernel = [], []
        self._pending.clear()
        self.metrics.stop()
        if self._forced:
            self._forced.cancel()
        down()

    def _look(self) -> None:
        self._is_look_planned = False
        if self.life and self.runs:
            self.life.look()

    def _lose_program(self) -> None:
        if self.program:
            self.program.gang.lose(self.program)

    def _program_ends(self, fault: ProgramEnds, cause: Trouble | None = None) -> None:
        if self.program and self.program.lives:
            self.program.end(fault.code, *fault.lines)
        elif self.life:
            self.life.trouble(cause or fault)

    def _thaw(self) -> None:
        if not self.is_on:
            return
        self.is_frozen = False
        self._report_silence(is_silent=self.is_cut_off)
        self.note("continues")
        if self.program:
            self.program.gang.find(self.program)
        for flow in self._flows:
            flow.thaw()

    def _join_again(self) -> None:
        if not self.is_on:
            return
        self.is_cut_off = False
        self._report_silence(is_silent=self.is_frozen)
        self.note("is reachable again")
        if self.program:
            self.program.gang.find(self.program)
        self._deliver_pending()
        self.world.after(self.draw(HEALED), self._hurry, what=f"{self.instance} tries again")

    def _hurry(self) -> None:
        if self.is_on and not self.is_cut_off:
            for flow in self._flows:
                flow.wake()
