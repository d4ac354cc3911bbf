"""Take a dev host down, and keep its disk, an image of it, or nothing."""

from __future__ import annotations

import time

from trainyard.client.deployment import Deployment
from trainyard.client.dev import hosts, requests
from trainyard.client.dev.hosts import DevHost, DevImage
from trainyard.client.dev.requests import OnStep
from trainyard.client.errors import HostNotFound, HostRefused
from trainyard.command_line import command_line
from trainyard.core.model import dev
from trainyard.core.model.dev import Keep

MOST_SECONDS = 1200.0


def take_down(yard: Deployment, name: str, keep: Keep, on_step: OnStep) -> None:
    """Reduce a dev host to the part that is kept. Repeating it is safe. Raise HostNotFound, HostRefused if that part
    cannot be kept, or Denied for another user's dev host."""
    if keep is not Keep.NOTHING and (begun := requests.find_launch(yard, name)):
        raise HostRefused(
            f"{name} is being launched, by {begun.id}",
            "a host that is not ready yet has nothing to keep",
            f"{command_line('dev', 'down', name, '--keep', 'nothing')}, or repeat this in a minute",
        )
    match keep:
        case Keep.DISK:
            _stop(yard, hosts.find(yard, name), on_step)
        case Keep.IMAGE:
            _freeze(yard, name, on_step)
        case Keep.NOTHING:
            _end(yard, name, on_step)


def _stop(yard: Deployment, host: DevHost, on_step: OnStep) -> None:
    if host.market == "spot":
        raise HostRefused(
            f"{host.name} ({host.instance}) is on spot",
            "EC2 cannot stop such a host and keep its disk",
            command_line("dev", "down", host.name, "--keep", "image"),
        )
    if host.state == "pending":
        raise HostRefused(f"{host.instance} is pending", "it is starting", "repeat this in a minute")
    with hosts.explain_denials(yard, host):
        if host.state == "running":
            yard.session.client("ec2").stop_instances(InstanceIds=[host.instance])
            on_step(f"{host.instance} stops, and keeps its disk")
    ends = time.monotonic() + MOST_SECONDS
    while time.monotonic() < ends and (state := _state(yard, host)) != "stopped":
        if state not in ("running", "stopping"):
            raise HostNotFound(
                f"{host.instance} is gone", "it was terminated meanwhile", hosts.up_line(host.name)
            )
        time.sleep(requests.LOOK_SECONDS)
    on_step(f"{host.instance} is stopped")


def _state(yard: Deployment, host: DevHost) -> str:
    return next(
        (each.state for each in hosts.hosts(yard, host.name) if each.instance == host.instance), "gone"
    )


def _freeze(yard: Deployment, name: str, on_step: OnStep) -> None:
    """Make an image of the host, and delete the host's earlier images once the new one exists."""
    host = hosts.find(yard, name)
    hosts.check_owner(yard, host, "only its owner may make an image of it")
    before = [image for image in hosts.images(yard, name) if image.owner == host.owner]
    summary = requests.follow(requests.begin(yard, name, dev.IMAGE), on_step)
    on_step(f"{name} is the image {summary['image']}, and {host.instance} ends")
    _delete(yard, [image for image in before if image.image != summary["image"]], on_step)


def _end(yard: Deployment, name: str, on_step: OnStep) -> None:
    """End the host. A running launch is stopped first, because it would try another host."""
    if begun := requests.find_launch(yard, name):
        begun.stop(now=True)
        on_step(f"{begun.id}, which was bringing it up, is stopped")
    there, kept = hosts.hosts(yard, name), hosts.images(yard, name)
    if begun is None and not there and not kept:
        raise HostNotFound(
            f"the yard {yard.name} has no dev host {name}",
            "it has neither a host nor an image",
            command_line("dev", "ls"),
        )
    for host in there:
        with hosts.explain_denials(yard, host):
            yard.session.client("ec2").terminate_instances(InstanceIds=[host.instance])
            on_step(f"{host.instance} ends, and its disk with it")
    _delete(yard, kept, on_step)


def _delete(yard: Deployment, images: list[DevImage], on_step: OnStep) -> None:
    for image in images:
        with hosts.explain_denials(yard, image):
            yard.session.client("ec2").deregister_image(ImageId=image.image, DeleteAssociatedSnapshots=True)
            on_step(f"the image {image.image} is deleted")
