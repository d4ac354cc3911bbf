"""All machines of a world: EC2 boots and ends them, Systems Manager sends them documents. Read next: machine, agent,
attempt, gang."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime, timedelta

from simulation.aws.door.api import ServiceError
from simulation.hosts import documents
from simulation.hosts.agent.agent import Agent, with_a_lease
from simulation.hosts.agent.waiting import Waiting
from simulation.hosts.bucket import Unreachable
from simulation.hosts.delays import Delays
from simulation.hosts.faults import Fault, OnWord, Strike, Struck, When
from simulation.hosts.flow import Sleep, Steps
from simulation.hosts.gang import Gang
from simulation.hosts.life import Life
from simulation.hosts.machine import Machine
from simulation.hosts.quiet import Bare, Builder, Quiet
from simulation.hosts.surroundings import CommandEnd, Done, Host
from simulation.world.world import World
from training.host.agent.deadlines.hold import entry_of
from trainyard.core.model.job import Job
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol.cluster import Cluster
from trainyard.protocol.tags import Tag


def is_of_yard(host: Host) -> bool:
    return Tag.YARD in host.metadata.tags()


def was_launched_by_yard(host: Host) -> bool:
    """From an image of the yard's, so that the agent is on its disk; a builder's base image has none."""
    tags = host.metadata.tags()
    return Tag.RUN in tags and tags.get(Tag.KIND) != "bake"


class Machines:
    """`host_of` is asked once for each instance. `is_exact`: logs, metrics.json and an evaluator's looks go as often as
    the real ones, which costs a call every few seconds; otherwise they go when a host's attempt begins and ends.
    `puts_metrics`: every host calls PutMetricData each minute; otherwise `gpu_minutes` tells what it would have put.
    `has_agent`, `knows_systems_manager`: whether our agent, and Systems Manager's with a role, are on that host."""

    def __init__(
        self,
        world: World,
        host_of: Callable[[str], Host],
        *,
        delays: Delays | None = None,
        is_exact: bool = False,
        puts_metrics: bool = True,
        has_agent: Callable[[Host], bool] = was_launched_by_yard,
        knows_systems_manager: Callable[[Host], bool] = is_of_yard,
    ) -> None:
        self.world = world
        self.delays = delays or Delays()
        self.is_exact = is_exact
        self.puts_metrics = puts_metrics
        self.has_agent = has_agent
        self.knows_systems_manager = knows_systems_manager
        self.on_word: OnWord | None = None
        """Asked before and after every word and stage (words.py) of every host."""
        self.on_silence: Callable[[str, bool], None] | None = None
        """Told when no word goes to or from a host's Systems Manager agent any more (True), and when one does again."""
        self._host_of = host_of
        self._machines: dict[str, Machine] = {}
        self._gangs: dict[tuple[str, int], Gang] = {}
        self._strikes: list[Strike] = []
        self._number = 0

    # ---- EC2

    def boot(self, instance_id: str) -> None:
        """Also of one that was stopped: its disk is as it was."""
        machine = self._machines.get(instance_id)
        if machine is None:
            machine = Machine(self, self._host_of(instance_id), self._number)
            self._machines[instance_id] = machine
            self._number += 1
        machine.boot()

    def stop(self, instance_id: str, down: Callable[[], None] = lambda: None) -> None:
        """Shut down in good order; `down` is called when its power is off: within two minutes."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.shut_down(down)
        else:
            down()

    def terminate(self, instance_id: str, down: Callable[[], None] = lambda: None) -> None:
        """The same, and it is forgotten then."""

        def gone() -> None:
            self.forget(instance_id)
            down()

        self.stop(instance_id, gone)

    def cut_power(self, instance_id: str) -> None:
        """Off at once, as when a spot host's time is up, or the machine below it breaks. Its disk stays."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.cut_power()

    def forget(self, instance_id: str) -> None:
        """It is terminated, its disk is gone."""
        self.cut_power(instance_id)
        self._machines.pop(instance_id, None)

    def reboot(self, instance_id: str) -> None:
        machine = self._machines[instance_id]
        machine.shut_down(machine.boot)

    def look(self, instance_id: str) -> None:
        """To be called whenever its metadata change: an interruption notice, tags. It sees that within five seconds."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.look()

    # ---- orders

    def ordered(self, run: str) -> None:
        """To be called whenever the run's order.json is written: its hosts see it as soon as real ones would."""
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
        """`done` is called with the document's end, or never."""
        machine = self._machines.get(instance_id)
        if machine and machine.is_on:
            machine.command(command_id, document_name, parameters, done)

    def withdraw(self, instance_id: str, command_id: str) -> None:
        """The time to deliver the command is over."""
        machine = self._machines.get(instance_id)
        if machine:
            machine.withdraw(command_id)

    def answers(self, instance_id: str) -> bool:
        """Whether its Systems Manager agent pings: for PingStatus."""
        machine = self._machines.get(instance_id)
        return bool(machine and machine.is_registered and machine.runs and not machine.is_cut_off)

    # ---- CloudWatch

    def gpu_minutes(self, instance_id: str, begin: datetime, end: datetime) -> dict[datetime, float]:
        """The utilisation that this host has put, by minute, were it to call PutMetricData."""
        machine = self._machines.get(instance_id)
        if machine is None:
            return {}
        return machine.metrics.load.minutes(begin, min(end, self.world.now - timedelta(minutes=1)))

    # ---- people

    def hold(self, instance_id: str, until: datetime | None) -> None:
        """Somebody on the host says `trainyard hold`; None is `trainyard release`."""
        machine = self._machines[instance_id]
        machine.flow(_hold(machine, until), f"somebody holds {instance_id}")

    def machine(self, instance_id: str) -> Machine:
        return self._machines[instance_id]

    def role_of(self, instance_id: str) -> str:
        """`worker` in the attempt that it is or was in last; empty before the first, or when it is gone."""
        machine = self._machines.get(instance_id)
        return machine.role.partition("-")[0] if machine else ""

    # ---- faults

    def at(
        self,
        word: str,
        who: int | str,
        do: Fault,
        *,
        when: When = "after",
        attempt: int | None = None,
        times: int = 1,
    ) -> None:
        """Let it happen to that host (faults.is_meant) before or after that word or stage."""
        self._strikes.append(Strike(word, who, do, when, attempt, times))

    def fault(self, host: Struck, word: str, when: When) -> Fault | None:
        for strike in self._strikes:
            if strike.fits(host, word, when):
                strike.left -= 1
                return strike.do
        return self.on_word(host, word, when) if self.on_word else None

    # ---- for the machines

    def life_of(self, machine: Machine) -> Life:
        """What runs there, by its tags."""
        if warm_until(machine.host.metadata.tags()) and self.has_agent(machine.host):
            return Waiting(machine, machine.identity())
        identity = with_a_lease(machine.identity(), machine.now())
        kind = identity.tags.get(Tag.KIND)
        if kind == "bake":
            return Builder(machine, identity)
        if not self.has_agent(machine.host):
            return Bare(machine, identity)
        agent = None if machine.disk.generalized else Agent.of(machine, identity)
        return agent or Quiet(machine, identity)

    def gang(self, cluster: Cluster, job: Job, *, step: int) -> Gang:
        """The programs of this attempt. The first who comes says at which step it begins: all restore the same."""
        key = (cluster.run, cluster.attempt)
        if key not in self._gangs:
            self._gangs.pop((cluster.run, cluster.attempt - 2), None)
            self._gangs[key] = Gang(self.world, cluster, job, step=step, peer_gone=self.delays.peer_gone)
        return self._gangs[key]

    def document(
        self, machine: Machine, word: str, parameters: Mapping[str, Sequence[str]]
    ) -> Generator[float | Sleep, None, CommandEnd]:
        return documents.run(machine, word, parameters)


def _hold(machine: Machine, until: datetime | None) -> Steps:
    entry = entry_of(machine.identity(), until, now=machine.now())
    yield from machine.stage("hold")
    try:
        machine.ask("events", "put_events", Entries=[entry])
    except (ServiceError, Unreachable) as error:
        machine.note("cannot be held", reason=str(error))
        return
    machine.note("says hold", until=json.loads(entry["Detail"])["until"])
    machine.struck("hold", "after")
