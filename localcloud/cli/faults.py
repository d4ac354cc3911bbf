"""The commands of `fault`. Each injects a failure that happens on AWS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from localcloud.base.quantities import format_count
from localcloud.cli.requests import Json, ask
from localcloud.cli.state import DEFAULT_STATE, State, fail

fault = typer.Typer(help="Inject failures that happen on AWS.", no_args_is_help=True)

Host = Annotated[str, typer.Argument(help="Instance ID of a pending or running host.")]
PoolOrType = Annotated[
    str,
    typer.Argument(
        metavar="POOL|TYPE",
        help="Capacity pool as type/zone/market, wildcards allowed (g6.*/*/spot); or an instance type.",
    ),
]
Zone = Annotated[str, typer.Argument(help="With an instance type: Availability Zone, or * for all.")]
FailingRequests = Annotated[
    int | None, typer.Option("--times", help="Number of requests that fail. Default: 1.", min=1)
]
FailingSeconds = Annotated[
    float | None, typer.Option("--seconds", help="Fail every request for this many seconds.", min=0)
]
Market = Annotated[str, typer.Argument(help="With a zone: spot, on-demand, or * for both.")]


@fault.command()
def interrupt(
    instance_id: Host,
    state: State = DEFAULT_STATE,
    seconds: Annotated[
        float | None, typer.Option(help="Warning time in seconds. Default: 120, as on AWS.", min=0)
    ] = None,
) -> None:
    """Interrupt a spot host: send the interruption notice, then terminate the host."""
    _fault(state, "interrupt", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def kill(instance_id: Host, state: State = DEFAULT_STATE) -> None:
    """Terminate a host without warning, like a hardware failure."""
    _fault(state, "kill", {"instance_id": instance_id})


Lasting = Annotated[
    float | None,
    typer.Option(help="Duration in seconds. Default: until `fault clear` or the host ends.", min=0),
]


@fault.command()
def freeze(instance_id: Host, state: State = DEFAULT_STATE, seconds: Lasting = None) -> None:
    """Stop all processes of a host, like a hung machine. EC2 still reports it as running."""
    _fault(state, "freeze", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def cut(instance_id: Host, state: State = DEFAULT_STATE, seconds: Lasting = None) -> None:
    """Disconnect a host from the network: from other hosts, AWS and its metadata."""
    _fault(state, "cut", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def oom(
    instance_id: Host,
    process: Annotated[
        str, typer.Option(help="Only consider processes with this text in their command line.")
    ] = "",
    state: State = DEFAULT_STATE,
) -> None:
    """Kill the process of a host that uses the most memory, as the kernel does when memory runs out."""
    _fault(state, "oom", {"instance_id": instance_id, "process": process})


@fault.command()
def xid(
    instance_id: Host,
    number: Annotated[
        int, typer.Argument(help="The number of NVIDIA's Xid catalog: 79 is fatal, 31 is a program's error.")
    ] = 79,
    state: State = DEFAULT_STATE,
) -> None:
    """Write an error of a GPU (Xid) into the kernel's log of a host, as NVIDIA's driver does."""
    _fault(state, "xid", {"instance_id": instance_id, "number": number})


@fault.command()
def kernel(
    instance_id: Host,
    text: Annotated[str, typer.Argument(help='The message, such as "I/O error, dev nvme1n1, sector 2048".')],
    state: State = DEFAULT_STATE,
) -> None:
    """Write a message into the kernel's log of a host."""
    _fault(state, "kernel", {"instance_id": instance_id, "text": text})


@fault.command()
def gpu(
    instance_id: Host,
    kind: Annotated[
        str,
        typer.Argument(
            help="ecc, remap-pending, remap-failed, thermal, power-brake, link, or none.", metavar="KIND"
        ),
    ],
    number: Annotated[int, typer.Option("--gpu", help="The number of the GPU.", min=0)] = 0,
    state: State = DEFAULT_STATE,
) -> None:
    """Let nvidia-smi report a fault of a GPU. Only hosts with this fault have the command."""
    _fault(state, "gpu", {"instance_id": instance_id, "kind": kind, "gpu": number})


@fault.command()
def refuse(
    pool: PoolOrType = "*",
    zone: Zone = "*",
    market: Market = "*",
    slots: Annotated[
        int, typer.Option(help="Number of hosts that a pool holds, including running ones.", min=0)
    ] = 0,
    state: State = DEFAULT_STATE,
) -> None:
    """Take capacity out of pools. Launches fail with InsufficientInstanceCapacity; running hosts stay."""
    _fault(state, "refuse", {**_pool(pool, zone, market), "slots": slots})


@fault.command()
def allow(
    pool: PoolOrType = "*", zone: Zone = "*", market: Market = "*", state: State = DEFAULT_STATE
) -> None:
    """Give pools unlimited capacity. Quotas still apply."""
    _fault(state, "allow", _pool(pool, zone, market))


@fault.command()
def throttle(
    action: Annotated[
        str,
        typer.Argument(
            help='Action as in a policy, such as "ssm:SendCommand", or a service, "s3:*". "ec2:" is optional.'
        ),
    ],
    times: FailingRequests = None,
    seconds: FailingSeconds = None,
    code: Annotated[
        str | None, typer.Option(help="Error code. Default: the service's throttling error.")
    ] = None,
    state: State = DEFAULT_STATE,
) -> None:
    """Refuse requests of an action: a number of them, or all for a while."""
    _fault(state, "throttle", {"action": action, "times": times, "seconds": seconds, "code": code})


Times = Annotated[int, typer.Option(help="Number of images that fail.", min=1)]


@fault.command("image-fail")
def image_fail(
    reason: Annotated[str, typer.Option(help="Reason in the image and its event.")] = "Injected fault.",
    times: Times = 1,
    state: State = DEFAULT_STATE,
) -> None:
    """Fail the next image creation."""
    _fault(state, "image-fail", {"reason": reason, "times": times})


@fault.command("image-slow")
def image_slow(
    seconds: Annotated[
        float, typer.Argument(help="Delay in seconds, added to the latency in the settings.", min=0)
    ],
    state: State = DEFAULT_STATE,
) -> None:
    """Slow down image creation. 0 and `fault clear` complete the delayed images."""
    _fault(state, "image-slow", {"seconds": seconds})


@fault.command("snapshot-stuck")
def snapshot_stuck(
    code: Annotated[
        str,
        typer.Option(help="Return code of the snapshot in DeregisterImage's answer.", metavar="RETURN-CODE"),
    ] = "internal-error",
    times: Times = 1,
    state: State = DEFAULT_STATE,
) -> None:
    """Leave the snapshot behind when the next image is deregistered with its snapshots."""
    _fault(state, "snapshot-stuck", {"code": code, "times": times})


@fault.command()
def lose(
    detail_type: Annotated[
        str, typer.Argument(help='Detail type, such as "EC2 AMI State Change"; wildcards allowed.')
    ],
    times: Annotated[int | None, typer.Option(help="Number of events. Default: all.", min=1)] = None,
    state: State = DEFAULT_STATE,
) -> None:
    """Drop events of EC2, Systems Manager or Step Functions, as AWS may."""
    _fault(state, "lose", {"detail_type": detail_type, "times": times})


@fault.command()
def metrics(
    instance_id: Annotated[
        str | None, typer.Argument(help="Pending or running host. Default: all hosts.")
    ] = None,
    state: State = DEFAULT_STATE,
    seconds: Annotated[
        float | None, typer.Option(help="Duration in seconds. Default: until `fault clear`.", min=0)
    ] = None,
) -> None:
    """Stop the GPU metrics of one host or all, like a dead metrics agent or a CloudWatch outage."""
    _fault(state, "metrics", {"instance_id": instance_id, "seconds": seconds})


@fault.command()
def unregister(instance_id: Host, state: State = DEFAULT_STATE, seconds: Lasting = None) -> None:
    """Hide a host from Systems Manager, as if its agent had never registered. The host itself works."""
    _fault(state, "unregister", {"instance_id": instance_id, "seconds": seconds})


@fault.command("iam-delay")
def iam_delay(
    seconds: Annotated[
        float, typer.Argument(help="Delay in seconds. 0 and `fault clear` end it.", min=0)
    ] = 10.0,
    state: State = DEFAULT_STATE,
) -> None:
    """Delay changes of roles, policies and instance profiles, as IAM does: new ones are unknown, removed ones work."""
    _fault(state, "iam-delay", {"seconds": seconds})


@fault.command()
def registry(
    kind: Annotated[
        str,
        typer.Argument(
            help="unauthorized, missing, busy, or of layers: truncated, corrupt, slow.", metavar="KIND"
        ),
    ],
    image: Annotated[
        str, typer.Argument(help="REGISTRY/REPOSITORY; wildcards allowed.", metavar="IMAGE")
    ] = "*",
    times: FailingRequests = None,
    seconds: FailingSeconds = None,
    state: State = DEFAULT_STATE,
) -> None:
    """Fail requests to a registry of container images (401, 404, 429), or send layers broken or slowly."""
    _fault(state, "registry", {"kind": kind, "image": image, "times": times, "seconds": seconds})


@fault.command("list")
def active_faults(
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the active faults."""
    faults = ask(state, "GET", "/faults")
    if as_json:
        print(json.dumps(faults, indent=2))
        return
    for pool, slots in faults["capacity"].items():
        print(
            f"{pool}: "
            + ("unlimited capacity" if slots is None else f"room for {format_count(slots, 'host')}")
        )
    for failing, times in faults["throttled"].items():
        print(
            f"{failing}: "
            + ("the next " + format_count(times, "request") if isinstance(times, int) else f"until {times}")
        )
    for instance_id, notice in faults["interrupted"].items():
        print(f"{instance_id}: {notice['action']} at {notice['at']}")
    for instance_id, impairments in faults["impaired"].items():
        for kind, until in impairments.items():
            print(f"{instance_id}: {kind} " + (f"until {until}" if until else "until cleared"))
    for image_fault in faults["images"]:
        print(image_fault)
    for detail_type, times in faults["lost"].items():
        print(
            f"{detail_type}: "
            + ("drops all events" if times is None else "drops the next " + format_count(times, "event"))
        )
    for who, until in faults["silent"].items():
        silent = "no host publishes metrics" if who == "*" else f"{who} publishes no metrics"
        print(f"{silent} " + (f"until {until}" if until else "until cleared"))
    for who, until in faults["unregistered"].items():
        print(f"{who}: hidden from Systems Manager " + (f"until {until}" if until else "until cleared"))
    if faults["iam_delay"]:
        print(f"changes in IAM take effect {faults['iam_delay']:g} s later")
    for failing, times in faults["registries"].items():
        print(f"{failing}: " + ("all requests" if times is None else format_count(times, "request")))
    if not any(faults.values()):
        print("No active faults.")


@fault.command()
def clear(
    pool: Annotated[
        str | None,
        typer.Argument(help="Only end the changes to this pool, written as in the command that made them."),
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
    """Parse `type/zone/market`, or a type followed by zone and market."""
    parts = pool.split("/") if "/" in pool else [pool, zone, market]
    if len(parts) != 3 or not all(parts) or ("/" in pool and (zone, market) != ("*", "*")):
        fail(
            f'{pool!r} is not a capacity pool. Write type/zone/market, for example "g6.xlarge/us-east-1a/spot".'
        )
    return dict(zip(("instance_type", "zone", "market"), parts, strict=True))


def _fault(state: Path, kind: str, details: Json) -> None:
    answer = ask(state, "POST", f"/faults/{kind}", {k: v for k, v in details.items() if v is not None})
    print(json.dumps(answer, indent=2))
