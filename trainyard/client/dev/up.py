"""Bring a dev host up: launch it, start it again, or launch it from its image if it cannot be started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from trainyard.client.deployment import Deployment
from trainyard.client.dev import hosts, requests
from trainyard.client.dev.hosts import DevHost
from trainyard.client.dev.requests import OnStep
from trainyard.client.errors import HostNotConnected, HostNotFound, HostRefused
from trainyard.client.run import Run
from trainyard.command_line import command_line
from trainyard.core.model import dev

NO_ROOM = ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity")
NO_QUOTA = ("VcpuLimitExceeded", "InstanceLimitExceeded")
MOST_SECONDS = 1200.0
"""The longest time that a host takes to boot or to stop. The largest types boot for ten minutes."""


def bring_up(yard: Deployment, name: str, asked: Mapping[str, Any], on_step: OnStep) -> DevHost:
    """Run the dev host of this name with its earlier files, and return it once it can be used.

    `asked` is the request for a new host (an input of the dev-host workflow). Repeating the call is safe. Raise Denied
    for another user's host, RunRefused or RunFailed if no host can be launched, HostNotConnected if it does not get
    ready.
    """
    on_step = requests.once(on_step)
    if begun := requests.find_launch(yard, name):
        on_step(f"{begun.id} brings it up already")
        return _find_launched(yard, name, begun, on_step)
    while True:
        host = _host(yard, name)
        if host is None:
            if not _image_is_made(yard, name, on_step):
                return _find_launched(yard, name, requests.begin(yard, name, dev.UP, asked), on_step)
            continue
        if making := requests.find_snapshot(yard, host.instance):
            on_step(f"{host.instance} becomes an image first, by {making.id}, and ends")
            making.wait(MOST_SECONDS)
        elif host.state == "stopped":
            with hosts.explain_denials(yard, host):
                if not _start(yard, host, on_step):
                    on_step(f"EC2 has no room for it in {host.zone}: it becomes an image, for another zone")
                    requests.follow(requests.begin(yard, name, dev.IMAGE), on_step)
                    continue
            on_step(f"{host.instance} starts in {host.zone}, with its disk")
            return _ready(yard, host.instance, on_step)
        elif host.state in ("running", "pending"):
            hosts.check_owner(yard, host, f"it is already {host.state}")
            on_step(f"{host.instance} is {host.state}")
            return _ready(yard, host.instance, on_step)
        else:
            on_step(f"{host.instance} is {host.state}")
            time.sleep(requests.LOOK_SECONDS)


def _host(yard: Deployment, name: str) -> DevHost | None:
    found = hosts.hosts(yard, name)
    return found[0] if found else None


def _find_launched(yard: Deployment, name: str, run: Run, on_step: OnStep) -> DevHost:
    summary = requests.follow(run, on_step)
    found = [host for host in hosts.hosts(yard, name) if host.instance == summary["instance"]]
    if not found:
        raise HostNotFound(
            f"{summary['instance']} was launched, and is gone",
            "a user or EC2 has terminated it since",
            hosts.up_line(name),
        )
    return found[0]


def _image_is_made(yard: Deployment, name: str, on_step: OnStep) -> bool:
    """Return True while the newest image of the dev host is being made, which takes some minutes."""
    newest = next(iter(hosts.images(yard, name)), None)
    if newest is None or newest.state != "pending":
        return False
    on_step(f"its image {newest.image} is being made")
    time.sleep(requests.LOOK_SECONDS)
    return True


def _start(yard: Deployment, host: DevHost, on_step: OnStep) -> bool:
    """Start the host. Return False if EC2 has no capacity for it."""
    on_step(f"{host.instance} is stopped: it is started")
    try:
        yard.session.client("ec2").start_instances(InstanceIds=[host.instance])
    except ClientError as error:
        if error.response["Error"]["Code"] in NO_ROOM:
            return False
        if error.response["Error"]["Code"] in NO_QUOTA:
            raise HostRefused(
                f"EC2 does not start {host.instance}",
                error.response["Error"].get("Message", "the quota of its type is used up").rstrip("."),
                f"take down another host, or have the quota raised: {command_line('doctor')}",
            ) from error
        raise
    return True


def _ready(yard: Deployment, instance: str, on_step: OnStep) -> DevHost:
    """Return the host once Systems Manager lists it as online after its last start."""
    ends, told = time.monotonic() + MOST_SECONDS, False
    while time.monotonic() < ends:
        found = next((each for each in hosts.hosts(yard) if each.instance == instance), None)
        if found is None or found.state not in ("pending", "running"):
            state = found.state if found else "gone"
            raise HostNotConnected(
                f"{instance} is {state}",
                "it has stopped again",
                f"{command_line('hosts')}; {hosts.up_line('NAME')}",
            )
        if found.state == "running" and _answers(yard, found):
            return found
        if found.state == "running" and not told:
            on_step(f"{instance} boots")
            told = True
        time.sleep(requests.LOOK_SECONDS)
    raise HostNotConnected(
        f"{instance} runs, and its SSM agent has not answered for {MOST_SECONDS / 60:.0f} minutes",
        "it hangs, or has no way to Systems Manager",
        f"show its console output: aws ec2 get-console-output --instance-id {instance}",
    )


def _answers(yard: Deployment, host: DevHost) -> bool:
    """Return True if the agent has answered since the host's last start."""
    chosen = [{"Key": "InstanceIds", "Values": [host.instance]}]
    known = yard.session.client("ssm").describe_instance_information(Filters=chosen)
    return any(
        each["PingStatus"] == "Online" and each.get("LastPingDateTime", datetime.now(UTC)) >= host.launched
        for each in known["InstanceInformationList"]
    )
