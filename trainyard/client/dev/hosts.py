"""The dev hosts of a yard, found by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from trainyard.client.errors import Denied, HostNotConnected, HostNotFound
from trainyard.client.identity import known_as
from trainyard.client.inventory.hosts import GONE, number
from trainyard.command_line import command_line
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment


@dataclass(frozen=True)
class DevHost:
    """One dev host that there is, running or stopped. `price` is dollars an hour while it runs, without its disk of
    `disk_gib`; None where nobody has noted it."""

    name: str
    owner: str
    instance: str
    state: str
    type: str
    zone: str
    market: str
    run: str
    launched: datetime
    price: float | None
    disk_gib: int | None

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """From DescribeInstances."""
        tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", [])}
        return cls(
            name=tags[Tag.DEV],
            owner=tags.get(Tag.SUBMITTER, ""),
            instance=described["InstanceId"],
            state=described["State"]["Name"],
            type=described["InstanceType"],
            zone=described["Placement"]["AvailabilityZone"],
            market="spot" if described.get("InstanceLifecycle") == "spot" else "on_demand",
            run=tags.get(Tag.RUN, ""),
            launched=described["LaunchTime"],
            price=number(tags.get(Tag.PRICE)),
            disk_gib=round(number(tags.get(Tag.DISK)) or 0) or None,
        )


@dataclass(frozen=True)
class DevImage:
    """What a dev host is kept as. `made`: when; `gib` of its disk."""

    name: str
    owner: str
    image: str
    state: str
    type: str
    host: str
    made: datetime
    gib: int

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """From DescribeImages."""
        tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", [])}
        disks = [
            each["Ebs"].get("VolumeSize", 0) for each in described["BlockDeviceMappings"] if "Ebs" in each
        ]
        return cls(
            name=tags[Tag.DEV],
            owner=tags.get(Tag.SUBMITTER, ""),
            image=described["ImageId"],
            state=described["State"],
            type=tags.get(Tag.TYPE, ""),
            host=tags.get(Tag.HOST, ""),
            made=datetime.fromisoformat(described["CreationDate"]),
            gib=sum(disks),
        )


def images(yard: Deployment, name: str | None = None) -> list[DevImage]:
    """The images of the yard's dev hosts (of that name), the newest first."""
    pages = yard.session.client("ec2").get_paginator("describe_images")
    found = pages.paginate(Owners=["self"], Filters=_filters(yard, name))
    made = [DevImage.of(each) for page in found for each in page["Images"]]
    return sorted(made, key=lambda image: image.made, reverse=True)


def hosts(yard: Deployment, name: str | None = None) -> list[DevHost]:
    """All of the yard's that are there (of that name), the newest first."""
    pages = yard.session.client("ec2").get_paginator("describe_instances")
    pages = pages.paginate(Filters=_filters(yard, name))
    found = [each for page in pages for held in page["Reservations"] for each in held["Instances"]]
    living = [DevHost.of(each) for each in found if each["State"]["Name"] not in GONE]
    return sorted(living, key=lambda host: host.launched, reverse=True)


def _filters(yard: Deployment, name: str | None) -> list[dict[str, Any]]:
    return [
        {"Name": f"tag:{Tag.YARD}", "Values": [yard.name.lower()]},
        {"Name": f"tag:{Tag.DEV}", "Values": [name]} if name else {"Name": "tag-key", "Values": [Tag.DEV]},
    ]


def up_line(name: str) -> str:
    """Return the line that brings the dev host up."""
    return command_line("dev", "up", name)


def find(yard: Deployment, name: str) -> DevHost:
    """The dev host of that name, in whatever state. Raises HostNotFound."""
    found = hosts(yard, name)
    if not found:
        raise HostNotFound(
            f"the yard {yard.name} has no dev host {name}",
            f"it was never up, is an image, or is gone: {command_line('dev', 'ls')}",
            up_line(name),
        )
    return found[0]


def running(yard: Deployment, name: str) -> DevHost:
    """The dev host of that name, which runs. Raises HostNotFound; HostNotConnected where it does not run."""
    host = find(yard, name)
    if host.state != "running":
        again = f"this again in a minute; where it stops: {up_line(name)}"
        raise HostNotConnected(
            f"the dev host {name} ({host.instance}) is {host.state}",
            "it can be used while it runs",
            up_line(name) if host.state == "stopped" else again,
        )
    return host


@contextmanager
def used(yard: Deployment, host: DevHost | DevImage) -> Iterator[None]:
    """What AWS denies in the block about somebody else's host is said in those words. Raises Denied."""
    try:
        yield
    except Denied as denied:
        if host.owner == known_as(yard.session):
            ask = f"ask whoever deploys the yard to type: {command_line('yard', 'grant', 'WHO', 'user')}"
            raise Denied(denied.what, f"the dev host {host.name} is yours: {denied.means}", ask) from denied
        raise Denied(
            f"the dev host {host.name} is {host.owner}'s",
            f"its owner and operators may use it ({denied.what})",
            f"ask {host.owner}, or have one of your own: {up_line('ANOTHER-NAME')}",
        ) from denied


def check_owner(yard: Deployment, host: DevHost, because: str) -> None:
    """Raises Denied where the host is somebody else's; `because` says why that matters where AWS is not asked."""
    if host.owner != (me := known_as(yard.session)):
        raise Denied(
            f"the dev host {host.name} is {host.owner}'s",
            f"{because}, and you are {me}",
            f"ask {host.owner}, or have one of your own: {up_line('ANOTHER-NAME')}",
        )
