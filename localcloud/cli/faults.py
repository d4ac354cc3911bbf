"""The commands of `fault`: make something go wrong, as it does on AWS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from localcloud.cli.requests import Json, ask
from localcloud.cli.state import DEFAULT_STATE, State, fail

fault = typer.Typer(help="Make something go wrong, as it does on AWS.", no_args_is_help=True)

Host = Annotated[str, typer.Argument(help="The instance id of a pending or running host.")]
PoolOrType = Annotated[
    str,
    typer.Argument(
        metavar="POOL|TYPE",
        help="A pool, type/zone/market, each part possibly a pattern (g6.*/*/spot); or an instance type alone.",
    ),
]
Zone = Annotated[str, typer.Argument(help="After a type: an Availability Zone, or * for all.")]
Market = Annotated[str, typer.Argument(help="After a zone: spot, on-demand, or * for both.")]


@fault.command()
def interrupt(
    instance_id: Host,
    state: State = DEFAULT_STATE,
    seconds: Annotated[
        float | None, typer.Option(help="Warning time; AWS and the settings say 120.", min=0)
    ] = None,
) -> None:
    """Interrupt a spot host: the warning on the bus and in its metadata, then its end."""
    _fault(state, "interrupt", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def kill(instance_id: Host, state: State = DEFAULT_STATE) -> None:
    """Make a host vanish without warning, as failing hardware does."""
    _fault(state, "kill", {"instance_id": instance_id})


Lasting = Annotated[
    float | None, typer.Option(help="How long; without it until `fault clear` or the host's end.", min=0)
]


@fault.command()
def freeze(instance_id: Host, state: State = DEFAULT_STATE, seconds: Lasting = None) -> None:
    """Stop every process of a host where it is, as a hung machine: EC2 goes on to call it running."""
    _fault(state, "freeze", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def cut(instance_id: Host, state: State = DEFAULT_STATE, seconds: Lasting = None) -> None:
    """Cut a host's cable: no packet in or out, neither to other hosts nor to AWS or its metadata."""
    _fault(state, "cut", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def oom(
    instance_id: Host,
    process: Annotated[str, typer.Option(help="Only a process with this text in its command line.")] = "",
    state: State = DEFAULT_STATE,
) -> None:
    """Let the kernel of a host end a process because memory has run out: the one that has most of it."""
    _fault(state, "oom", {"instance_id": instance_id, "process": process})


@fault.command()
def refuse(
    pool: PoolOrType = "*",
    zone: Zone = "*",
    market: Market = "*",
    slots: Annotated[
        int, typer.Option(help="How many hosts a pool holds, running ones included.", min=0)
    ] = 0,
    state: State = DEFAULT_STATE,
) -> None:
    """Take the capacity out of pools: launches there fail with InsufficientInstanceCapacity. Hosts stay."""
    _fault(state, "refuse", {**_pool(pool, zone, market), "slots": slots})


@fault.command()
def allow(
    pool: PoolOrType = "*", zone: Zone = "*", market: Market = "*", state: State = DEFAULT_STATE
) -> None:
    """Give pools room without end, whatever the settings say; quotas still hold."""
    _fault(state, "allow", _pool(pool, zone, market))


@fault.command()
def throttle(
    action: Annotated[
        str,
        typer.Argument(
            help='An action as in a policy, such as "ssm:SendCommand", or a service, "s3:*"; EC2\'s without "ec2:".'
        ),
    ],
    times: Annotated[int | None, typer.Option(help="How many of the next requests fail (1).", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="For how long every request fails.", min=0)] = None,
    code: Annotated[
        str | None, typer.Option(help="The error; else the one the service throttles with.")
    ] = None,
    state: State = DEFAULT_STATE,
) -> None:
    """Let requests of an action fail: the next, the next so many, or all for a while."""
    _fault(state, "throttle", {"action": action, "times": times, "seconds": seconds, "code": code})


Times = Annotated[int, typer.Option(help="How many of the next ones.", min=1)]


@fault.command("image-fail")
def image_fail(
    reason: Annotated[str, typer.Option(help="What the image and its event say.")] = "Injected fault.",
    times: Times = 1,
    state: State = DEFAULT_STATE,
) -> None:
    """Let the next image that is made end failed."""
    _fault(state, "image-fail", {"reason": reason, "times": times})


@fault.command("image-slow")
def image_slow(
    seconds: Annotated[float, typer.Argument(help="How much longer than the settings say.", min=0)],
    state: State = DEFAULT_STATE,
) -> None:
    """Let every image that is made from now on take longer; 0, and `fault clear`, finish those that wait."""
    _fault(state, "image-slow", {"seconds": seconds})


@fault.command("snapshot-stuck")
def snapshot_stuck(
    code: Annotated[
        str, typer.Option(help="What DeregisterImage says of it.", metavar="RETURN-CODE")
    ] = "internal-error",
    times: Times = 1,
    state: State = DEFAULT_STATE,
) -> None:
    """Let the next image that is deregistered with its snapshot leave the snapshot behind."""
    _fault(state, "snapshot-stuck", {"code": code, "times": times})


@fault.command()
def lose(
    detail_type: Annotated[
        str, typer.Argument(help='The detail type, such as "EC2 AMI State Change", possibly a pattern.')
    ],
    times: Annotated[
        int | None, typer.Option(help="How many of the next ones; without it all.", min=1)
    ] = None,
    state: State = DEFAULT_STATE,
) -> None:
    """Let events of a kind never arrive, as AWS may: those of EC2, Systems Manager and Step Functions."""
    _fault(state, "lose", {"detail_type": detail_type, "times": times})


@fault.command()
def metrics(
    instance_id: Annotated[
        str | None, typer.Argument(help="A pending or running host; without it all hosts.")
    ] = None,
    state: State = DEFAULT_STATE,
    seconds: Annotated[
        float | None, typer.Option(help="How long; without it until `fault clear`.", min=0)
    ] = None,
) -> None:
    """Let a host, or every host, publish no GPU metrics, as when its agent has died or CloudWatch is out."""
    _fault(state, "metrics", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def unregister(instance_id: Host, state: State = DEFAULT_STATE, seconds: Lasting = None) -> None:
    """Let Systems Manager not know a host, as one whose agent never reached it; the host itself works."""
    _fault(state, "unregister", {"instance_id": instance_id, "seconds": seconds})


@fault.command("list")
def active_faults(
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,
) -> None:
    """List the active faults."""
    faults = ask(state, "GET", "/faults")
    if as_json:
        print(json.dumps(faults, indent=2))
        return
    for pool, slots in faults["capacity"].items():
        print(f"{pool}: " + ("room without end" if slots is None else f"room for {slots} hosts"))
    for failing, times in faults["throttled"].items():
        print(f"{failing}: " + (f"the next {times} requests" if isinstance(times, int) else f"until {times}"))
    for instance_id, notice in faults["interrupted"].items():
        print(f"{instance_id}: {notice['action']} at {notice['at']}")
    for instance_id, impairments in faults["impaired"].items():
        for kind, until in impairments.items():
            print(f"{instance_id}: {kind} " + (f"until {until}" if until else "without end"))
    for image_fault in faults["images"]:
        print(image_fault)
    for detail_type, times in faults["lost"].items():
        print(f"{detail_type}: " + ("every event is lost" if times is None else f"the next {times} are lost"))
    for who, until in faults["silent"].items():
        silent = "no host publishes metrics" if who == "*" else f"{who} publishes no metrics"
        print(f"{silent} " + (f"until {until}" if until else "without end"))
    for who, until in faults["unregistered"].items():
        print(f"{who}: unknown to Systems Manager " + (f"until {until}" if until else "without end"))
    if not any(faults.values()):
        print("No fault lasts.")


@fault.command()
def clear(
    pool: Annotated[
        str | None, typer.Argument(help="Only what was said of this pool, written as then.")
    ] = None,
    zone: Zone = "*",
    market: Market = "*",
    state: State = DEFAULT_STATE,
) -> None:
    """End all active faults, or the changes to one capacity pool.

    Settings apply again, and frozen or cut-off hosts continue.
    """
    _fault(state, "clear", _pool(pool, zone, market) if pool else {})


def _pool(pool: str, zone: str, market: str) -> dict[str, str]:
    """A pool in one word (type/zone/market), or a type with a zone and a market after it."""
    parts = pool.split("/") if "/" in pool else [pool, zone, market]
    if len(parts) != 3 or not all(parts) or ("/" in pool and (zone, market) != ("*", "*")):
        fail(
            f'{pool!r} is not a pool: it is written type/zone/market, for example "g6.xlarge/us-east-1a/spot".'
        )
    return dict(zip(("instance_type", "zone", "market"), parts, strict=True))


def _fault(state: Path, kind: str, details: Json) -> None:
    answer = ask(state, "POST", f"/faults/{kind}", {k: v for k, v in details.items() if v is not None})
    print(json.dumps(answer, indent=2))
