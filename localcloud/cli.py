"""`python -m localcloud`: up, down, status, env, fault."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from localcloud import supervisor
from localcloud.base import descriptors, root_key
from localcloud.base.context import REGION
from localcloud.base.facts import Facts, FactsError
from localcloud.base.root_key import RootKey

PATIENT_SECONDS, READY_SECONDS = 15.0, 600.0
"""Until a start that takes long is told of, and until it is given up: a busy machine is no reason."""
LOG_TAIL = 25
LEAST_SPACE = 16 << 20
PRIVATE = 0o700
"""Of the state folder, which holds the keys, every object and the logs: no other user gets below it."""

app = typer.Typer(
    help="AWS on this machine: an endpoint for cdk, aws and boto3, and hosts that really run. No account, no Docker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
fault = typer.Typer(help="Make something go wrong, as it does on AWS.", no_args_is_help=True)
app.add_typer(fault, name="fault")

State = Annotated[Path, typer.Option("--state", help="Folder that holds everything and survives a restart.")]
DEFAULT_STATE = Path(".localcloud")


def main() -> None:
    """The command line's entry point."""
    app()


@app.command()
def up(
    state: State = DEFAULT_STATE,
    port: Annotated[int, typer.Option(help="Port of the endpoint on 127.0.0.1.", min=1, max=65535)] = 4566,
    detach: Annotated[bool, typer.Option("--detach", help="Return when it is ready; it runs on.")] = False,
    facts: Annotated[
        Path | None,
        typer.Option(
            help="YAML laid over the shipped facts: prices, capacity, quotas, latencies.", exists=True
        ),
    ] = None,
) -> None:
    """Start the local cloud: the stacks, buckets, images and stopped instances of the last time are there."""
    state = _prepared(state)
    facts = _readable(facts) if facts else None
    already = supervisor.running(state)
    if already:
        _fail(
            f"It is already up on port {already.port} (state {state}). "
            f"`python -m localcloud env --state {shlex.quote(str(state))}` prints what a shell needs; `down` ends it."
        )
    if shortage := descriptors.shortage():
        typer.echo(shortage, err=True)
    try:
        listening = supervisor.listen(port)
        if detach:
            _up_detached(state, port, facts, listening.detach())
            return
        print(f"The local cloud listens on http://127.0.0.1:{port}. Ctrl-C ends it.")
        raise typer.Exit(supervisor.supervise(state, port, facts, listening))
    except supervisor.CannotStart as refusal:
        _fail(str(refusal))


@app.command()
def down(
    state: State = DEFAULT_STATE,
    forget: Annotated[bool, typer.Option("--forget", help="Delete the state folder as well.")] = False,
) -> None:
    """End the local cloud and everything it started. Doing it twice is fine."""
    ended = supervisor.stop(_folder(state))
    print("The local cloud is down." if ended else "Nothing was up.")
    if forget:
        shutil.rmtree(state, ignore_errors=True)


@app.command()
def status(
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,
) -> None:
    """Say whether it is up and what runs on it. Exits with 1 when it is not up."""
    port = _port(state)
    answer = _ask(state, "GET", "/status")
    if as_json:
        print(json.dumps(answer, indent=2))
        return
    print(f"up on http://127.0.0.1:{port}, state in {state.resolve()}")
    for name, value in answer.items():
        print(f"  {name}: {value if isinstance(value, str | int | float) else json.dumps(value)}")


@app.command()
def env(state: State = DEFAULT_STATE) -> None:
    """Print the lines a shell needs: `eval "$(python -m localcloud env)"`."""
    port, root = _port(state), root_key.of(_folder(state))
    print("unset AWS_PROFILE AWS_SESSION_TOKEN")
    for name, value in client_environment(port, root).items():
        print(f"export {name}={value}")


def client_environment(port: int, root: RootKey) -> dict[str, str]:
    """Return what cdk, aws and boto3 need to talk to the local cloud, as the account's root."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": root.access_key_id,
        "AWS_SECRET_ACCESS_KEY": root.secret_access_key,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


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
        float | None, typer.Option(help="Warning time; AWS and the facts say 120.", min=0)
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
    """Give pools room without end, whatever the facts say; quotas still hold."""
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
    seconds: Annotated[float, typer.Argument(help="How much longer than the facts say.", min=0)],
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
    """Say which faults last: pools that were changed, actions that fail, images that will, events and metrics that get
    lost, hosts that have their notice, hang, are cut off or unknown to Systems Manager."""
    faults = _ask(state, "GET", "/faults")
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
    """End the faults that last: pools have the capacity of the facts again, no call, image or snapshot is made to fail,
    events and metrics arrive, and hosts that were frozen or cut off go on."""
    _fault(state, "clear", _pool(pool, zone, market) if pool else {})


# ------------------------------------------------------------------------------------------------- the rest


def _pool(pool: str, zone: str, market: str) -> dict[str, str]:
    """A pool in one word (type/zone/market), or a type with a zone and a market after it."""
    parts = pool.split("/") if "/" in pool else [pool, zone, market]
    if len(parts) != 3 or not all(parts) or ("/" in pool and (zone, market) != ("*", "*")):
        _fail(
            f'{pool!r} is not a pool: it is written type/zone/market, for example "g6.xlarge/us-east-1a/spot".'
        )
    return dict(zip(("instance_type", "zone", "market"), parts, strict=True))


def _folder(state: Path) -> Path:
    """The state folder, which need not exist."""
    state = state.resolve()
    if state.exists() and not state.is_dir():
        _fail(f"{state} is a file. Name a folder with --state.")
    if state.exists() and not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        _fail(f"The state folder {state} belongs to another user. Name another with --state.")
    return state


def _prepared(state: Path) -> Path:
    """The state folder, in which a local cloud can live."""
    state = _folder(state)
    try:
        state.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    except OSError as error:
        _fail(f"The state folder {state} cannot be made: {error.strerror}. Name another with --state.")
    if state.stat().st_uid != os.geteuid():
        _fail(
            f"The state folder {state} belongs to another user. Nothing was started, because that user could read and "
            "change all that the local cloud holds. Name a folder of your own with --state."
        )
    state.chmod(PRIVATE)  # it may be older, or of a copy
    free = shutil.disk_usage(state).free
    if free < LEAST_SPACE:
        _fail(
            f"The disk of the state folder {state} has {free >> 20} MB left, too little to start with. "
            "Free some, or name a folder on another disk with --state."
        )
    return state


def _readable(facts: Path) -> Path:
    try:
        Facts.load(facts)
    except FactsError as fault:
        _fail(f"The facts in {facts} cannot be: {fault}")
    return facts.resolve()


def _up_detached(state: Path, port: int, facts: Path | None, listening: int) -> None:
    log, root = state / "server.log", root_key.of(state)
    command = [sys.executable, "-m", "localcloud.supervisor", str(state), str(port), str(listening)]
    log.touch()
    log.chmod(0o600)
    with log.open("ab") as output:
        child = subprocess.Popen(
            [*command, str(facts)] if facts else command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=[listening],
            cwd=Path(__file__).resolve().parent.parent,
        )
    begun, told = time.monotonic(), False
    while (waited := time.monotonic() - begun) < READY_SECONDS:
        if child.poll() is not None:
            _fail(f"The local cloud ended while it started. The end of {log}:\n{_tail(log)}")
        if _is_ready(port, root):
            print(f"The local cloud is up: http://127.0.0.1:{port}, state in {state}.")
            return
        if waited > PATIENT_SECONDS and not told:
            print(f"The local cloud still starts, after {waited:.0f} seconds; its log: {log}", flush=True)
            told = True
        time.sleep(0.1)
    supervisor.stop(state)
    _fail(f"The local cloud was not ready after {READY_SECONDS:.0f} seconds. The end of {log}:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL:])


def _is_ready(port: int, root: RootKey) -> bool:
    try:
        _request(port, root, "GET", "/status", None, seconds=5)
    except OSError:
        return False
    return True


def _port(state: Path) -> int:
    found = supervisor.running(_folder(state))
    if found is None:
        where = "" if state == DEFAULT_STATE else f" --state {shlex.quote(str(state))}"
        _fail(
            f"No local cloud is up on {state.resolve()}. `python -m localcloud up --detach{where}` starts one."
        )
    return found.port


def _fault(state: Path, kind: str, details: dict[str, Any]) -> None:
    answer = _ask(state, "POST", f"/faults/{kind}", {k: v for k, v in details.items() if v is not None})
    print(json.dumps(answer, indent=2))


def _ask(state: Path, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    port = _port(state)
    try:
        return _request(port, root_key.of(_folder(state)), method, path, body, seconds=30)
    except urllib.error.HTTPError as refusal:
        answer = json.loads(refusal.read() or b"{}")
        _fail(str(answer.get("error", refusal)))
    except OSError as error:
        _fail(f"The local cloud does not answer on port {port}: {error}. `down` and `up` again.")


def _request(
    port: int, root: RootKey, method: str, path: str, body: dict[str, Any] | None, seconds: float
) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/_localcloud{path}",
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": root.as_basic()},
        method=method,
    )
    # Never through a proxy that the environment names: this is this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=seconds) as reply:
        answer: dict[str, Any] = json.load(reply)
        return answer


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)
