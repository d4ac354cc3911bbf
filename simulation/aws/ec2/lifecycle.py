"""The states of instances: transitions, their durations and events; and the store of instances."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from simulation.aws.ec2 import arns
from simulation.aws.ec2.model import (
    BY_FAILURE,
    BY_HOST,
    BY_SPOT,
    OCCUPIES,
    ON_LAUNCH,
    Emit,
    Image,
    Instance,
    Interval,
    Machines,
    Reason,
    Settings,
    Snapshot,
    Span,
    Subnet,
    Template,
)
from simulation.aws.ec2.requests import unknown_ids
from simulation.aws.ec2.supply.capacity import Pools
from simulation.aws.ec2.supply.catalogue import Catalogue
from simulation.aws.endpoint.api import Caller, Check
from simulation.world.world import World

Index = dict[tuple[str, str], dict[str, Instance]]
"""Instances by tag."""


class Lifecycle:
    """Instances and their resources, by id. `machines` may be set later, before the first launch."""

    def __init__(
        self,
        world: World,
        emit: Emit,
        machines: Machines,
        *,
        settings: Settings | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.world = world
        self.emit = emit
        self.machines = machines
        self.settings = settings or Settings()
        self.catalogue = catalogue or Catalogue()
        self.pools = Pools(self.catalogue)
        self.beginning = world.now
        self.may: Callable[[Caller, Check], bool] = lambda _caller, _check: True
        """Checks that IAM allows an additional action of a request."""
        self.on_change: list[Callable[[Instance], None]] = []
        """Called after every change of an instance's state."""
        self.instances: dict[str, Instance] = {}
        """The instances that EC2 lists."""
        self.ever: dict[str, Instance] = {}
        self.images: dict[str, Image] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.subnets: dict[str, Subnet] = {}
        self.templates: dict[str, Template] = {}
        self.profiles: dict[str, str] = {}
        """ARNs of roles by the ARN of the instance profile."""
        self._tagged: Index = {}
        self._ever_tagged: Index = {}
        self._ended: deque[tuple[datetime, Instance]] = deque()
        self._chance = world.chance("ec2")

    # ------------------------------------------------------------------------- for hosts and the oracle

    def instance(self, instance_id: str) -> Instance:
        """Return the instance, even if EC2 does not list it yet or anymore."""
        return self.ever[instance_id]

    def tags(self, instance_id: str) -> Mapping[str, str]:
        """Return the tags in the host's metadata, which are always up to date."""
        return self.ever[instance_id].tags

    def interruption_notice(self, instance_id: str) -> dict[str, str] | None:
        """Return the value of spot/instance-action; None for its 404."""
        at = self.ever[instance_id].reclaimed_at
        return None if at is None else {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def find_tagged(self, key: str, value: str) -> list[Instance]:
        """Return every instance that ever had this tag, even if EC2 no longer lists it."""
        return list(self._ever_tagged.get((key, value), {}).values())

    # ------------------------------------------------------------------------- for hosts, faults and users

    def shut_down(self, instance_id: str) -> None:
        """Shut down from inside the host. InstanceInitiatedShutdownBehavior decides; hosts that cannot stop are
        terminated."""
        instance = self.ever[instance_id]
        if not instance.live:
            return
        if instance.spot or instance.shutdown_behavior == "terminate":
            self._end(instance, BY_HOST, notify=False, power=0.0)
        else:
            self._halt(instance, BY_HOST, notify=False, power=0.0)

    def kill(self, instance_id: str, *, by_spot: bool = False) -> None:
        """Let the host fail, or EC2 reclaim a spot host without notice. Its power is off at once."""
        instance = self.ever[instance_id]
        if instance.live:
            failure = ON_LAUNCH if instance.state == "pending" else BY_FAILURE
            self.world.note("ec2", "host reclaimed" if by_spot else "host failed", instance=instance_id)
            self._end(instance, BY_SPOT if by_spot else failure, power=0.0)

    def interrupt(self, instance_id: str, notice_seconds: float = 120.0) -> None:
        """Announce an interruption (if there is any notice), and reclaim the spot host after it."""
        instance = self.ever[instance_id]
        assert instance.spot, "EC2 takes back spot hosts only"
        if not instance.live or instance.reclaimed_at is not None:
            return
        instance.reclaimed_at = self.world.now + timedelta(seconds=notice_seconds)
        self.world.note("ec2", "takes a spot host back", instance=instance_id, notice=notice_seconds)
        if notice_seconds > 0:
            detail = {"instance-id": instance_id, "instance-action": "terminate"}
            self.emit(
                "aws.ec2",
                "EC2 Spot Instance Interruption Warning",
                detail,
                [arns.build("instance", instance_id)],
            )
        self.world.after(notice_seconds, lambda: self._reclaim(instance), what=f"{instance_id} is taken back")

    def _reclaim(self, instance: Instance) -> None:
        if instance.live:
            self._end(instance, BY_SPOT)

    # ------------------------------------------------------------------------- transitions

    def _launch(self, instance: Instance) -> None:
        """Add a new instance: pending now, running with its machine booted later."""
        self.instances[instance.id] = self.ever[instance.id] = instance
        self._tag(instance, instance.tags)
        self._begin(instance)

    def _begin(self, instance: Instance) -> None:
        instance.launched = self.world.now
        instance.reason, instance.transition, instance.off_at = None, "", None
        self.pools.take(instance.pool)
        self._become(instance, "pending")
        self._later(self._draw(self.settings.boot), instance, self._run)

    def _run(self, instance: Instance) -> None:
        price = self.catalogue.price(instance.pool) or 0.0
        instance.intervals.append(Interval(self.world.now, price))
        self._become(instance, "running")
        self.machines.boot(instance)

    def _halt(
        self, instance: Instance, reason: Reason, *, notify: bool = True, power: float | None = None
    ) -> None:
        """Stop an instance. The power goes off after `power` seconds, or when it is stopped."""
        seconds = self._leave(instance, reason, self.settings.stop, power)
        self._become(instance, "stopping")
        self._later(seconds, instance, lambda one: self._become(one, "stopped"))
        if notify:
            self.machines.stop(instance)

    def _end(
        self, instance: Instance, reason: Reason, *, notify: bool = True, power: float | None = None
    ) -> None:
        had_a_machine = instance.state in ("running", "stopping")
        seconds = self._leave(instance, reason, self.settings.terminate, power)
        self._become(instance, "shutting-down")
        self._later(seconds, instance, self._finish_termination)
        if notify and had_a_machine:
            self.machines.terminate(instance)

    def _leave(self, instance: Instance, reason: Reason, span: Span, power: float | None) -> float:
        """End the billing. Return the seconds until the instance is stopped or terminated."""
        now, seconds = self.world.now, self._draw(span)
        if instance.intervals and instance.intervals[-1].ended is None:
            instance.intervals[-1].ended = now
        off = now + timedelta(seconds=seconds if power is None else power)
        if instance.state != "stopped":
            instance.off_at = min(off, instance.off_at or off)
        instance.reason = reason
        stamp = now.strftime("%Y-%m-%d %H:%M:%S GMT")
        instance.transition = f"{reason.transition} ({stamp})" if reason.transition else ""
        return seconds

    def _finish_termination(self, instance: Instance) -> None:
        now = self.world.now
        instance.ended = now
        self.subnets[instance.subnet].used.pop(instance.address, None)
        self._ended.append((now + timedelta(seconds=self.settings.terminated_shown), instance))
        self._become(instance, "terminated")

    def _become(self, instance: Instance, state: str) -> None:
        if instance.state in OCCUPIES and state not in OCCUPIES:
            self.pools.give_back(instance.pool)
        instance.state, instance.shown = state, None
        instance.turn += 1
        detail = {"instance-id": instance.id, "state": state}
        arn = arns.build("instance", instance.id)
        self.emit("aws.ec2", "EC2 Instance State-change Notification", detail, [arn])
        for notify in self.on_change:
            notify(instance)

    def _later(self, seconds: float, instance: Instance, act: Callable[[Instance], None]) -> None:
        """Call `act` later unless the instance changes state before."""
        turn = instance.turn

        def fire() -> None:
            if instance.turn == turn:
                act(instance)

        self.world.after(seconds, fire, what=f"{instance.id} leaves {instance.state}")

    # ------------------------------------------------------------------------- the store

    def _draw(self, span: Span) -> float:
        return self._chance.uniform(*span)

    def _tag(self, instance: Instance, tags: Mapping[str, str]) -> None:
        for key, value in tags.items():
            before = instance.tags.get(key)
            if before is not None and before != value:
                self._tagged.get((key, before), {}).pop(instance.id, None)
            instance.tags[key] = value
            self._tagged.setdefault((key, value), {})[instance.id] = instance
            self._ever_tagged.setdefault((key, value), {})[instance.id] = instance
        instance.shown = None

    def _forget(self) -> None:
        """Drop instances that were terminated an hour ago."""
        while self._ended and self._ended[0][0] <= self.world.now:
            instance = self._ended.popleft()[1]
            del self.instances[instance.id]
            for tag in instance.tags.items():
                found = self._tagged[tag]
                del found[instance.id]
                if not found:
                    del self._tagged[tag]

    def _require(self, ids: Iterable[str]) -> list[Instance]:
        """Return these instances. Raises an error if EC2 does not list one of them (yet or anymore)."""
        self._forget()
        now, wanted = self.world.now, list(dict.fromkeys(ids))
        found = [self.instances.get(each) for each in wanted]
        known = [each for each in found if each is not None and each.listed_at <= now]
        if len(known) < len(wanted):
            there = {each.id for each in known}
            raise unknown_ids("instance", (each for each in wanted if each not in there))
        return known
