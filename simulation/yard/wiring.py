"""Connects instances with their simulated machines: EC2 controls machines, and machines call AWS as their host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from simulation.aws.ec2 import Instance
from simulation.aws.endpoint.api import REGION, Answer, Caller, ServiceError
from simulation.hosts.environment import CommandEnd

if TYPE_CHECKING:
    from simulation.yard import Yard


@dataclass
class Bridge:
    """Connects EC2 and Systems Manager to the machines of instances."""

    yard: Yard

    def boot(self, instance: Instance) -> None:
        self.yard.machines.boot(instance.id)

    def stop(self, instance: Instance) -> None:
        self._go_down(instance, self.yard.machines.stop, self.yard.machines.cut_power)

    def terminate(self, instance: Instance) -> None:
        self._go_down(instance, self.yard.machines.terminate, self.yard.machines.forget)

    def _go_down(self, instance: Instance, call: Callable[[str], None], cut: Callable[[str], None]) -> None:
        """Shut the machine down, and cut its power at the time that EC2 sets."""
        off = instance.off_at or self.yard.world.now
        if off > self.yard.world.now:
            call(instance.id)
        self.yard.world.at(off, lambda: cut(instance.id), what=f"{instance.id} loses power")

    def reboot(self, instance: Instance) -> None:
        self.yard.machines.reboot(instance.id)

    def command(
        self, instance: Instance, command_id: str, document: str, parameters: Mapping[str, list[str]]
    ) -> None:
        def done(end: CommandEnd) -> None:
            status = "Success" if end.exit_code == 0 else "Failed"
            self.yard.ssm.done(command_id, instance.id, status, end.exit_code, end.output, error=end.errors)

        self.yard.machines.command(instance.id, command_id, document, parameters, done)


@dataclass(frozen=True)
class HostMetadata:
    yard: Yard
    of: Instance

    @property
    def instance(self) -> str:
        return self.of.id

    @property
    def address(self) -> str:
        return self.of.address

    @property
    def image(self) -> str:
        return self.of.image

    @property
    def instance_type(self) -> str:
        return self.of.type

    @property
    def region(self) -> str:
        return REGION

    def tags(self) -> Mapping[str, str]:
        return self.yard.ec2.tags(self.of.id)

    def interruption_notice(self) -> datetime | None:
        return self.of.reclaimed_at


@dataclass(frozen=True)
class SimulatedHost:
    yard: Yard
    of: Instance

    @property
    def metadata(self) -> HostMetadata:
        return HostMetadata(self.yard, self.of)

    def aws(self, service: str, operation: str, /, **request: Any) -> Answer:
        role = self.of.role
        if role is None:
            raise ServiceError("NoCredentials", "the instance has no profile")
        caller = Caller(self.of.id, role, self.of.id, vpc=self._endpoint)
        return self.yard.gateway.answer(caller, service, operation, request)

    def aws_as_run(self, access_key: str, service: str, operation: str, /, **request: Any) -> Answer:
        caller = replace(self.yard.sts.caller(access_key), vpc=self._endpoint)
        return self.yard.gateway.answer(caller, service, operation, request)

    @property
    def _endpoint(self) -> str | None:
        return self.of.vpc if self.of.vpc in self.yard.template.s3_endpoints else None

    def register(self) -> None:
        self.yard.ssm.register(self.of.id)

    def power_off(self) -> None:
        self.yard.ec2.shut_down(self.of.id)

    def crash(self) -> None:
        self.yard.ec2.kill(self.of.id)
