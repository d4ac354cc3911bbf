"""All machines of a world: EC2 boots and ends them, Systems Manager runs documents on them.

Read next: machine, agent, attempt, gang.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime, timedelta

from simulation.aws.endpoint.api import ServiceError
from simulation.hosts import ssm_documents
from simulation.hosts.agent.agent import Agent, renew_lease
from simulation.hosts.agent.waiting import Waiting
from simulation.hosts.bucket import Unreachable
from simulation.hosts.delays import Delays
from simulation.hosts.environment import CommandEnd, Done, Host
from simulation.hosts.faults import AffectedHost, Fault, Injection, OnStage, When
from simulation.hosts.flow import Sleep, Steps
from simulation.hosts.gang import Gang
from simulation.hosts.life import Life
from simulation.hosts.machine import Machine
from simulation.hosts.quiet import Bare, Builder, Quiet
from simulation.hosts.serving import Server
from simulation.world.world import World
from training.host.agent.deadlines.hold import entry_of
from trainyard.core.model.job import Job
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol.cluster import Cluster
from trainyard.protocol.serving import PROGRAM
from trainyard.protocol.tags import Tag


def is_of_yard(host: Host) -> bool:
    return Tag.YARD in host.metadata.tags()


def was_launched_by_yard(host: Host) -> bool:
    """Return True if the yard launched the host from its own image, which contains the agent; the base image of a
    builder does not."""
    tags = host.metadata.tags()
    return Tag.RUN in tags and tags.get(Tag.KIND) != "bake"


class Machines:
    """All machines of a world.

    `host_of` is called once for each instance. With `is_exact`, logs, metrics.json and an evaluator's checks
    happen as often as on real hosts, with a call every few seconds; otherwise only when an attempt begins and
    ends. With `puts_metrics`, every host calls PutMetricData each minute; otherwise `gpu_minutes` computes the
    metrics. `has_agent` and `is_registered` tell whether a host has our agent, and an SSM agent with a
    role.
    """

    def __init__(
        self,
        world: World,
        host_of: Callable[[str], Host],
        *,
        delays: Delays | None = None,
        is_exact: bool = False,
        puts_metrics: bool = True,
        has_agent: Callable[[Host], bool] = was_launched_by_yard,
        is_registered: Callable[[Host], bool] = is_of_yard,
    ) -> None:
        self.world = world
        self.delays = delays or Delays()
        self.is_exact = is_exact
        self.puts_metrics = puts_metrics
        self.has_agent = has_agent
        self.is_registered = is_registered
        self.on_stage: OnStage | None = None
        """Called before and after every signal and stage of every host (contract.py)."""
        self.on_silence: Callable[[str, bool], None] | None = None
        """Called with True when a host's SSM agent is cut off, and with False when it is reachable again."""
        self._host_of = host_of
        self._machines: dict[str, Machine] = {}
        self._gangs: dict[tuple[str, int], Gang] = {}
        self._injections: list[Injection] = []
        self._number = 0

    # ---- EC2

    def boot(self, instance_id: str) -> None:
        """Boot a machine. The disk of a stopped one is unchanged."""
        machine = self._machines.get(instance_id)
        if machine is None:
            machine = Machine(self, self._host_of(instance_id), self._number)
            self._machines[instance_id] = machine
            self._number += 1
        machine.boot()

    def stop(self, instance_id: str, down: Callable[[], None] = lambda: None) -> None:
        """Shut down. `down` is called when the power is off, within two minutes."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.shut_down(down)
        else:
            down()

    def terminate(self, instance_id: str, down: Callable[[], None] = lambda: None) -> None:
        """Shut down and forget the machine."""

        def gone() -> None:
            self.forget(instance_id)
            down()

        self.stop(instance_id, gone)

    def cut_power(self, instance_id: str) -> None:
        """Cut the power at once, as for a reclaimed spot host or a failed machine. The disk stays."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.cut_power()

    def forget(self, instance_id: str) -> None:
        """Cut the power and delete the disk."""
        self.cut_power(instance_id)
        self._machines.pop(instance_id, None)

    def reboot(self, instance_id: str) -> None:
        machine = self._machines[instance_id]
        machine.shut_down(machine.boot)

    def look(self, instance_id: str) -> None:
        """Notify the host of changed metadata (an interruption notice, tags), which it reads within five seconds."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.look()

    # ---- orders

    def ordered(self, run: str) -> None:
        """Notify the hosts of the run that its order.json was written. They see it as soon as real hosts would."""
        for machine in self._machines.values():
            if machine.life:
                machine.life.ordered(run)

    def command(
        self,
        instance_id: str,
        command_id: str,
        document_name: str,
        parameters: Mapping[str, Sequence[str]],
        done: Done,
    ) -> None:
        """Run an SSM document. `done` is called at its end, or never."""
        machine = self._machines.get(instance_id)
        if machine and machine.is_on:
            machine.command(command_id, document_name, parameters, done)

    def withdraw(self, instance_id: str, command_id: str) -> None:
        """Withdraw a command that was not delivered in time."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.withdraw(command_id)

    def answers(self, instance_id: str) -> bool:
        """Return True if the SSM agent of the host pings."""
        machine = self._machines.get(instance_id)
        return bool(machine and machine.is_registered and machine.runs and not machine.is_cut_off)

    # ---- CloudWatch

    def gpu_minutes(self, instance_id: str, begin: datetime, end: datetime) -> dict[datetime, float]:
        """Return the utilization by minute, as PutMetricData would have stored it."""
        machine = self._machines.get(instance_id)
        if machine is None:
            return {}
        return machine.metrics.load.minutes(begin, min(end, self.world.now - timedelta(minutes=1)))

    # ---- people

    def hold(self, instance_id: str, until: datetime | None) -> None:
        """Run `trainyard hold` on the host; None: `trainyard unhold`."""
        machine = self._machines[instance_id]
        machine.flow(_hold(machine, until), f"a user holds {instance_id}")

    def machine(self, instance_id: str) -> Machine:
        return self._machines[instance_id]

    def role_of(self, instance_id: str) -> str:
        """Return the role in the current or last attempt, e.g. `worker`; empty before the first or if the machine
        is gone."""
        machine = self._machines.get(instance_id)
        return machine.role.partition("-")[0] if machine else ""

    # ---- faults

    def at(
        self,
        stage: str,
        who: int | str,
        fault: Fault,
        *,
        when: When = "after",
        attempt: int | None = None,
        times: int = 1,
    ) -> None:
        """Inject the fault on a matching host (faults.is_meant) before or after that signal or stage."""
        self._injections.append(Injection(stage, who, fault, when, attempt, times))

    def fault(self, host: AffectedHost, stage: str, when: When) -> Fault | None:
        for injection in self._injections:
            if injection.fits(host, stage, when):
                injection.left -= 1
                return injection.fault
        return self.on_stage(host, stage, when) if self.on_stage else None

    # ---- for the machines

    def life_of(self, machine: Machine) -> Life:
        """Return the software for the machine, by its tags."""
        if warm_until(machine.host.metadata.tags()) and self.has_agent(machine.host):
            return Waiting(machine, machine.identity())
        identity = renew_lease(machine.identity(), machine.now())
        kind = identity.tags.get(Tag.KIND)
        if kind == "bake":
            return Builder(machine, identity)
        if not self.has_agent(machine.host):
            return Bare(machine, identity)
        agent = None if machine.disk.generalized else Agent.of(machine, identity)
        return agent or Quiet(machine, identity)

    def gang(self, cluster: Cluster, job: Job, *, step: int) -> Gang:
        """Return the programs of this attempt. The first host sets the step, because all hosts restore the same
        one."""
        key = (cluster.run, cluster.attempt)
        if key not in self._gangs:
            self._gangs.pop((cluster.run, cluster.attempt - 2), None)
            kind = Server if job.program.module == PROGRAM else Gang
            self._gangs[key] = kind(self.world, cluster, job, step=step, peer_gone=self.delays.peer_gone)
        return self._gangs[key]

    def document(
        self, machine: Machine, name: str, parameters: Mapping[str, Sequence[str]]
    ) -> Generator[float | Sleep, None, CommandEnd]:
        return ssm_documents.run(machine, name, parameters)


def _hold(machine: Machine, until: datetime | None) -> Steps:
    entry = entry_of(machine.identity(), until, now=machine.now())
    yield from machine.stage("hold")
    try:
        machine.call("events", "put_events", Entries=[entry])
    except (ServiceError, Unreachable) as error:
        machine.note("cannot be held", reason=str(error))
        return
    machine.note("sends hold", until=json.loads(entry["Detail"])["until"])
    machine.inject("hold", "after")
