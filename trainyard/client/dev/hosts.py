"""The dev hosts of a yard, found by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from trainyard.client.errors import Denied, HostNotConnected, HostNotFound
from trainyard.client.identity import caller_name
from trainyard.client.inventory.hosts import GONE, number
from trainyard.command_line import command_line
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment


@dataclass(frozen=True)
class DevHost:
    """One dev host, running or stopped."""

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
    """Dollars an hour while it runs, without its disk; None if the price was not recorded."""
    disk_gib: int | None

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """Read a dev host from DescribeInstances."""
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
    """An image of a dev host. `made` is its time, `gib` the size of its disk."""

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
        """Read an image from DescribeImages."""
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
    """Return the images of the yard's dev hosts, or of one dev host, the newest first."""
    pages = yard.session.client("ec2").get_paginator("describe_images")
    found = pages.paginate(Owners=["self"], Filters=_filters(yard, name))
    made = [DevImage.of(each) for page in found for each in page["Images"]]
    return sorted(made, key=lambda image: image.made, reverse=True)


def hosts(yard: Deployment, name: str | None = None) -> list[DevHost]:
    """Return the yard's dev hosts, or the dev hosts of one name, the newest first."""
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
    """Return the dev host of this name in any state. Raise HostNotFound."""
    found = hosts(yard, name)
    if not found:
        raise HostNotFound(
            f"the yard {yard.name} has no dev host {name}",
            f"it was never up, is an image, or is gone: {command_line('dev', 'ls')}",
            up_line(name),
        )
    return found[0]


def running(yard: Deployment, name: str) -> DevHost:
    """Return the running dev host of this name. Raise HostNotFound, or HostNotConnected if it does not run."""
    host = find(yard, name)
    if host.state != "running":
        again = f"repeat this in a minute; if it stops: {up_line(name)}"
        raise HostNotConnected(
            f"the dev host {name} ({host.instance}) is {host.state}",
            "it can be reached while it runs",
            up_line(name) if host.state == "stopped" else again,
        )
    return host


@contextmanager
def explain_denials(yard: Deployment, host: DevHost | DevImage) -> Iterator[None]:
    """Explain denials of AWS in the block by the ownership of the host. Raise Denied."""
    try:
        yield
    except Denied as denied:
        if host.owner == caller_name(yard.session):
            ask = f"ask the administrator of the yard to run: {command_line('yard', 'grant', 'WHO', 'user')}"
            raise Denied(denied.what, f"the dev host {host.name} is yours: {denied.means}", ask) from denied
        raise Denied(
            f"the dev host {host.name} is {host.owner}'s",
            f"only its owner and operators may use it ({denied.what})",
            f"ask {host.owner}, or launch your own: {up_line('ANOTHER-NAME')}",
        ) from denied


def check_owner(yard: Deployment, host: DevHost, because: str) -> None:
    """Raise Denied for another user's host. `because` is the reason if AWS does not check the ownership."""
    if host.owner != (me := caller_name(yard.session)):
        raise Denied(
            f"the dev host {host.name} is {host.owner}'s",
            f"{because}, and you are {me}",
            f"ask {host.owner}, or launch your own: {up_line('ANOTHER-NAME')}",
        )
