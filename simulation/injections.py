"""Inject the faults of a plan into a yard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from localcloud.services.ec2.capacity.allocation import Refusal
from simulation.aws.eventbridge import Rule, Target
from simulation.aws.functions import Invocation, LambdaFailure
from simulation.aws.input_transformers import Event
from simulation.aws.stepfunctions import Execution, Status
from simulation.faults import (
    BOOTS,
    ONE_AFTER_ANOTHER,
    BootFault,
    EventFault,
    HostFault,
    InvocationFault,
    Kind,
    PersonFault,
    PoolFault,
    Visit,
)
from simulation.hosts import faults as hosts
from simulation.hosts.agent.contract import SIGNALS
from simulation.hosts.faults import AffectedHost, When
from simulation.yard import Yard
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

DELAYS = {
    EventFault.LOST: (),
    EventFault.TWICE: (0.2, 0.3),
    EventFault.LATE: (10.0,),
    EventFault.VERY_LATE: (120.0,),
    EventFault.MUCH_TOO_LATE: (3600.0,),
}
STORM_COPIES, STORM_SECONDS = 10, 90.0
HOST_FAULTS: dict[str, hosts.Fault] = {
    HostFault.DIES: hosts.Dies(),
    HostFault.HANGS: hosts.Hangs(),
    HostFault.IS_CUT_OFF: hosts.IsCutOff(),
    HostFault.PROGRAM_ERROR: hosts.ProgramEnds(),
    HostFault.DISK_FULL: hosts.DiskFull(),
    HostFault.MOUNT_ENDS: hosts.MountEnds(),
    HostFault.XID: hosts.Xid(),
    HostFault.SENDS_TWICE: hosts.SendsTwice(),
    HostFault.SENDS_LATE: hosts.Late(60.0),
    HostFault.GANG_HANGS: hosts.GangHangs(),
    BootFault.NEVER_BOOTS: hosts.NEVER_BOOTS,
    BootFault.NEVER_REGISTERS: hosts.NeverRegisters(),
    BootFault.REGISTERS_LATE: hosts.RegistersLate(),
    BootFault.BOOTS_LATE: hosts.Late(3600.0),
    BootFault.ROLE_LATE: hosts.IsCutOff(150.0),
    BootFault.CLOCK_OFF: hosts.ClockOff(60.0),
    BootFault.CLOCK_FAR_OFF: hosts.ClockOff(1200.0),
}
FULL = Refusal("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")
PROFILE_UNKNOWN = Refusal(
    "InvalidParameterValue",
    "Value (trainyard-host) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
)
NOTICE_SECONDS = {HostFault.WARNED_120: 120.0, HostFault.WARNED_30: 30.0, HostFault.WARNED_0: 0.0}
DATA_STAGES = ("catalogue", "results", "fetch", "install", "test", "generalize")
"""Stages of a host between two signals at which data can be lost."""
RULE = re.compile(r"([A-Z][A-Za-z]+?)[0-9A-F]{8}")


class Injections:
    """Hooks at every fault point of a yard."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self.plan, self.world = yard, yard.plan, yard.world
        self._counts: Counter[str] = Counter()
        self._entered: Counter[tuple[str, str]] = Counter()
        """How often each execution has entered each state."""
        self._storms = False
        self._profile_known_at = self.world.now

    def install(self) -> None:
        self.yard.functions.on_begin = self._invocation
        self.yard.events.delays = self._event
        self.yard.scheduler.on_time = self._time
        self.yard.stepfunctions.on_state = self._state
        self.yard.machines.on_stage = self._stage
        self.yard.gateway.throttle = self._fleet_request

    def _point(self, kind: Kind, point: str, who: str, visit: Visit | None = None) -> list[str]:
        """Return the faults of the plan at this fault point, and note them in the trace."""
        found = [fault.what for fault in self.plan.at(kind, point, visit)]
        for what in found:
            self.world.note(who, f"fault: {what}", point=point)
        return found

    def _count(self, signal: str) -> str | None:
        """Return `word #2` at the second call for the word; None once the word was counted ONE_AFTER_ANOTHER times."""
        self._counts[signal] += 1
        number = self._counts[signal]
        return f"{signal} #{number}" if number <= ONE_AFTER_ANOTHER else None

    def _current_states(self) -> str:
        """Return the states of all executions in a fixed order. A state that its execution has entered before is
        marked, so that the first attempt of a run differs from later ones, but one trial of a study not from another.
        """
        states = (
            f"{_state_name(each, each.at)}{' again' * (self._entered[each.name, each.at] > 1)}"
            for each in self.yard.runs()
            if each.status is Status.RUNNING and each.at
        )
        return ", ".join(sorted(states))

    # ------------------------------------------------------------------------------------------------------ functions

    def _invocation(self, invocation: Invocation) -> None:
        invocation.during = self._current_states()
        if invocation.event is not None:
            signal, instance = _read_subject(invocation.payload)
            invocation.trigger = f"{invocation.event} {signal} {self.yard.machines.role_of(instance)}"
        if self._count(invocation.about) is None:
            return
        functions = self.yard.functions
        visit = self.yard.network.visit(invocation)
        for what in self._point(Kind.INVOCATION, invocation.name, invocation.name, visit):
            match what:
                case InvocationFault.OUT_OF_MEMORY:
                    self.world.after(0.2, lambda: functions.kill(invocation))
                case InvocationFault.TIMED_OUT:
                    self.world.after(0.2, lambda: functions.hang(invocation))
                case InvocationFault.TWICE:
                    self.world.after(0.05, lambda: self._call_again(invocation))
                case InvocationFault.REFUSED:
                    failure = LambdaFailure("Lambda.ServiceException", "Lambda could not start the function")
                    functions.refuse(invocation, failure)

    def _call_again(self, invocation: Invocation) -> None:
        """Call the function a second time; the answer is ignored."""
        self.yard.functions.call(invocation.function.name, dict(invocation.payload), lambda _: None)

    # --------------------------------------------------------------------------------------------------------- events

    def _event(self, event: Event, rule: Rule, target: Target) -> Sequence[float] | None:
        if rule.schedule is not None:
            return None
        if self._storms:
            return self._storm()
        signal, instance = _read_subject(event)
        subject = " ".join(part for part in (signal, self._host_name(instance)) if part)
        point = self._count(f"{short_name(rule.name)} {subject}")
        if point is None:
            return None
        visit = Visit(
            self._current_states(), f"{short_name(rule.name)} {signal} {self.yard.machines.role_of(instance)}"
        )
        for what in self._point(Kind.EVENT, point, "events", visit):
            if what == EventFault.STORM:
                self._storms = True
                return self._storm()
            return DELAYS[EventFault(what)]
        return None

    def _time(self, schedule: str) -> Sequence[float] | None:
        """Return the delays of a time of a schedule, if a fault changes them."""
        point = self._count(f"Schedule {schedule}")
        visit = Visit(self._current_states(), f"Schedule {schedule}")
        for what in self._point(Kind.EVENT, point, "scheduler", visit) if point else ():
            return DELAYS[EventFault(what)]
        return self._storm() if self._storms else None

    def _storm(self) -> Sequence[float]:
        chance = self.world.chance("storm")
        return [chance.uniform(0.0, STORM_SECONDS) for _ in range(STORM_COPIES)]

    def _host_name(self, instance: str) -> str:
        """Return `host-1` for an instance. EC2 numbers its ids in the order of the launches."""
        return f"host-{int(instance[2:], 16)}" if instance in self.yard.ec2.ever else ""

    # ---------------------------------------------------------------------------------------------------------- hosts

    def _stage(self, host: AffectedHost, signal: str, when: When) -> hosts.Fault | None:
        if signal == "boot" and when == "before":
            return self._host_fault(host, f"host-{host.number + 1} {BOOTS}", BOOTS)
        if signal not in SIGNALS and signal not in DATA_STAGES:
            return None
        point = self._count(f"host-{host.number + 1} {when} {signal}")
        return self._host_fault(host, point, f"{when} {signal}") if point else None

    def _host_fault(self, host: AffectedHost, point: str, signal: str) -> hosts.Fault | None:
        visit = Visit(self._current_states(), f"{host.role.partition('-')[0]} {signal}")
        for what in self._point(Kind.HOST, point, host.instance, visit):
            if what in NOTICE_SECONDS:
                self._interrupt(host.instance, NOTICE_SECONDS[HostFault(what)])
            else:
                return HOST_FAULTS[what]
        return None

    def _interrupt(self, instance_id: str, notice: float) -> None:
        ec2 = self.yard.ec2
        if not ec2.instance(instance_id).spot:
            ec2.kill(instance_id)
        elif notice:
            ec2.interrupt(instance_id, notice)
            self.yard.machines.look(instance_id)
        else:
            ec2.kill(instance_id, by_spot=True)

    # ------------------------------------------------------------------------------------------------ pools and people

    def _fleet_request(self, caller: Any, operation: str, request: object) -> None:
        """Inject what the capacity pool answers, before a fleet is requested."""
        if operation != "ec2.create_fleet":
            return
        ec2 = self.yard.ec2
        if self.world.now < self._profile_known_at:
            ec2.refusals.append(PROFILE_UNKNOWN)
        point = self._count("fleet request")
        for what in self._point(Kind.POOL, point, "ec2") if point else ():
            match what:
                case PoolFault.REFUSES:
                    ec2.refusals.append(FULL)
                case PoolFault.GRANTS_WITH_ERRORS:
                    ec2.errors_beside.append(FULL)
                case PoolFault.PROFILE_UNKNOWN:
                    self._profile_known_at = self.world.now + timedelta(seconds=10)
                    ec2.refusals.append(PROFILE_UNKNOWN)
                case PoolFault.REFUSES_LONG:
                    ec2.pools.leave(0)
                    self.world.after(600, lambda: ec2.pools.leave(None), what="there is capacity again")
                case PoolFault.TOO_FEW:
                    ec2.short.append(1)
                case PoolFault.QUOTA:
                    ec2.refusals.append(
                        Refusal("VcpuLimitExceeded", "You have requested more vCPU capacity than")
                    )

    def _state(self, execution: Execution, state: str, what: str) -> None:
        if what != "entered":
            return
        self._entered[execution.name, state] += 1
        point = self._count(_state_name(execution, state))
        for what in self._point(Kind.STATE, point, "user") if point else ():
            self._do(PersonFault(what), execution)

    def _do(self, what: PersonFault, execution: Execution) -> None:
        yard, run = self.yard, execution.name
        match what:
            case PersonFault.STOPS_IT:
                self.world.after(0, lambda: yard.people.stop(execution))
            case PersonFault.ASKS_TO_STOP:
                self.world.after(0, lambda: yard.people.request_stop(run))
            case PersonFault.ASKS_TWICE:
                for seconds in (0, 5):
                    self.world.after(seconds, lambda: yard.people.request_stop(run))
            case PersonFault.UPLOADS_AGAIN:
                yard.people.upload_again()
            case PersonFault.DELETES_JOB:
                self._delete(keys.JOBS)
            case PersonFault.DELETES_CHECKPOINTS:
                self._delete(keys.checkpoints(run))
            case PersonFault.DELETES_ROWS:
                yard.people.delete_rows(run)
            case PersonFault.DELETES_IMAGE:
                if yard.image in yard.ec2.images:  # a user may have deregistered it before
                    yard.people.call("ec2", "deregister_image", ImageId=yard.image)
            case PersonFault.TERMINATES_HOST:
                self.world.after(10, lambda: self._terminate_one(run), what="a user terminates a host")

    def _terminate_one(self, run: str) -> None:
        """Terminate the first host that EC2 lists. Try again after 1 s if EC2 does not list a new host yet."""
        live = [each for each in self.yard.ec2.find_tagged(Tag.RUN, run) if each.live]
        shown = [each.id for each in live if each.listed_at <= self.world.now]
        if shown:
            self.yard.people.call("ec2", "terminate_instances", InstanceIds=shown[:1])
        elif live:
            self.world.after(1, lambda: self._terminate_one(run), what="a user terminates a host")

    def _delete(self, prefix: str) -> None:
        for key in list(self.yard.s3.keys(self.yard.bucket, prefix)):
            self.yard.people.call("s3", "delete_object", Bucket=self.yard.bucket, Key=key)


def _state_name(execution: Execution, state: str) -> str:
    return f"{execution.machine.name.partition('-')[2]} {state}"


def _read_subject(event: Event) -> tuple[str, str]:
    """Return the signal or state of an event, and its instance if there is one."""
    detail: Mapping[str, Any] = event["detail"]
    instance = detail.get("instance") or detail.get("instance-id") or detail.get("InstanceId") or ""
    signal = detail.get("signal") or detail.get("state") or detail.get("status") or detail.get("State") or ""
    return str(signal), str(instance)


def short_name(name: str) -> str:
    """Return `HostSignal` for `TrainyardSignals-HostSignal1EFAABF2-ABCDEFGHIJKL`."""
    found = RULE.search(name)
    return found[1] if found else name
