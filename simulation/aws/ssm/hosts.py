"""Managed hosts: hosts whose SSM agent has registered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from simulation.aws.ec2.model import Instance, Span
from simulation.aws.ec2.service import Ec2
from simulation.aws.endpoint.api import Answer, Caller, Request, ServiceError
from simulation.aws.endpoint.parameters import not_simulated, only, with_token
from simulation.aws.ssm.model import Host, Settings
from simulation.aws.ssm.pages import take_page
from simulation.world.world import World

INSTANCE = "InstanceIds"


class HostCalls:
    """Operations on managed hosts. `deliver` is called with a host once its agent is reachable."""

    def __init__(self, world: World, ec2: Ec2, settings: Settings, deliver: Callable[[Host], None]) -> None:
        self.world = world
        self.ec2 = ec2
        self.settings = settings
        self.hosts: dict[str, Host] = {}
        self._deliver_waiting = deliver
        self._chance = world.chance("ssm")
        ec2.on_change.append(self._handle_change)

    def register(self, instance_id: str) -> None:
        """Register the agent of a booted host. It is Online, and receives commands, some seconds later."""
        known = self.hosts.get(instance_id)
        seconds = self._draw(self.settings.register)
        host = Host(self.ec2.instance(instance_id), self.world.now + timedelta(seconds=seconds))
        host.waiting = known.waiting if known else []
        self.hosts[instance_id] = host
        self.world.after(seconds, lambda: self._deliver_waiting(host), what=f"{instance_id} is online")

    def cut_off(self, instance_id: str) -> None:
        """Cut the host's agent off (it hangs, or has no network) until `back`."""
        host = self.hosts.get(instance_id)
        if host and host.cut_off is None:
            host.cut_off = self.world.now
            host.lost_at = self.world.now + timedelta(seconds=self._draw(self.settings.lost))

    def reconnect(self, instance_id: str) -> None:
        host = self.hosts.get(instance_id)
        if host and host.cut_off is not None:
            host.cut_off = host.lost_at = None
            unreported, host.unreported = host.unreported, []
            for report in unreported:
                report()
            self._deliver_waiting(host)

    def describe_instance_information(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Filters", "MaxResults", "NextToken"), "DescribeInstanceInformation")
        wanted: list[str] | None = None
        for each in request.get("Filters") or ():
            if each["Key"] != INSTANCE or wanted is not None:
                raise not_simulated(f"the filter {each['Key']} of DescribeInstanceInformation")
            wanted = each["Values"]
        if wanted is not None and len(wanted) > 100:
            raise ServiceError("InvalidInstanceInformationFilterValue", "A filter takes at most 100 values.")
        chosen = sorted(set(wanted)) if wanted is not None else list(self.hosts)
        hosts = [self.hosts[each] for each in chosen if each in self.hosts]
        shown, token = take_page([each for each in hosts if self._is_listed(each)], request, 5)
        return with_token({"InstanceInformationList": [self._describe(each) for each in shown]}, token)

    def _is_listed(self, host: Host) -> bool:
        now = self.world.now
        return host.online_at <= now and (host.listed_until is None or now < host.listed_until)

    def ping_status(self, host: Host) -> str:
        lost = host.lost_at is not None and host.lost_at <= self.world.now
        return "ConnectionLost" if lost else "Online"

    def _describe(self, host: Host) -> Answer:
        instance = host.instance
        return {
            "InstanceId": instance.id,
            "PingStatus": self.ping_status(host),
            "LastPingDateTime": host.cut_off or self.world.now,
            "AgentVersion": "3.3.4793.0",
            "IsLatestVersion": True,
            "PlatformType": "Linux",
            "PlatformName": "Ubuntu",
            "PlatformVersion": "24.04",
            "ResourceType": "EC2Instance",
            "IPAddress": instance.address,
            "ComputerName": f"ip-{instance.address.replace('.', '-')}.ec2.internal",
        }

    def _handle_change(self, instance: Instance) -> None:
        """Handle a state change in EC2. A host that is gone stays listed for a while."""
        host = self.hosts.get(instance.id)
        if host is None:
            return
        if instance.state in ("stopped", "terminated"):
            host.listed_until = self.world.now + timedelta(seconds=self._draw(self.settings.forgotten))
            host.unreported.clear()

    def _draw(self, span: Span) -> float:
        return self._chance.uniform(*span)
