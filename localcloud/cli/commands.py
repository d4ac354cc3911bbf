"""`python -m localcloud`: up, down, status, env, fault, push."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from localcloud import supervisor
from localcloud.base import descriptors, root_key
from localcloud.base.context import REGION
from localcloud.base.root_key import RootKey
from localcloud.base.settings import Settings, SettingsError
from localcloud.cli.faults import fault
from localcloud.cli.images import push
from localcloud.cli.requests import ask, request
from localcloud.cli.state import DEFAULT_STATE, State, existing_state, fail, port_of, prepared_state
from localcloud.machine.python import functions_platform

SLOW_START_SECONDS, READY_SECONDS = 15.0, 600.0
"""Seconds until a slow start is reported, and until it is given up. Busy machines start slowly."""
LOG_TAIL = 25

app = typer.Typer(
    help="AWS on this machine: an endpoint for cdk, aws and boto3, and hosts with real processes. "
    "Needs no account and no Docker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(fault, name="fault")
app.command()(push)


def main() -> None:
    app()


@app.command()
def up(
    state: State = DEFAULT_STATE,
    port: Annotated[int, typer.Option(help="Port of the endpoint on 127.0.0.1.", min=1, max=65535)] = 4566,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; return when it is ready.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML file that overrides prices, capacity, quotas and latencies.", exists=True),
    ] = None,
) -> None:
    """Start the local cloud with the stacks, buckets, images and stopped instances of the last session."""
    state = prepared_state(state)
    settings = _readable(settings) if settings else None
    already = supervisor.running(state)
    if already:
        fail(
            f"The local cloud is already up on port {already.port} (state {state}). "
            f"`python -m localcloud env --state {shlex.quote(str(state))}` prints its variables; `down` stops it."
        )
    if shortage := descriptors.shortage():
        typer.echo(shortage, err=True)
    try:
        listening = supervisor.listen(port)
        if detach:
            _up_detached(state, port, settings, listening.detach())
            return
        print(f"The local cloud listens on http://127.0.0.1:{port}. Ctrl-C stops it.")
        raise typer.Exit(supervisor.supervise(state, port, settings, listening))
    except supervisor.CannotStart as refusal:
        fail(str(refusal))


@app.command()
def down(
    state: State = DEFAULT_STATE,
    forget: Annotated[bool, typer.Option("--forget", help="Delete the state folder as well.")] = False,
) -> None:
    """Stop the local cloud and everything in it."""
    ended = supervisor.stop(existing_state(state))
    print("The local cloud is down." if ended else "The local cloud was not up.")
    if forget:
        shutil.rmtree(state, ignore_errors=True)


@app.command()
def status(
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what runs on the local cloud. Exits with 1 if it is down."""
    port = port_of(state)
    answer = ask(state, "GET", "/status")
    if as_json:
        print(json.dumps(answer, indent=2))
        return
    print(f"up on http://127.0.0.1:{port}, state in {state.resolve()}")
    for name, value in answer.items():
        print(f"  {name}: {value if isinstance(value, str | int | float) else json.dumps(value)}")


@app.command()
def env(state: State = DEFAULT_STATE) -> None:
    """Print the shell variables for clients: `eval "$(python -m localcloud env)"`."""
    port, root = port_of(state), root_key.load_key(existing_state(state))
    print("unset AWS_PROFILE AWS_SESSION_TOKEN")
    for name, value in client_environment(port, root).items():
        print(f"export {name}={value}")


def client_environment(port: int, root: RootKey) -> dict[str, str]:
    """Return the variables with which cdk, aws and boto3 use the local cloud as the account's root."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": root.access_key_id,
        "AWS_SECRET_ACCESS_KEY": root.secret_access_key,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_FUNCTIONS_PLATFORM": functions_platform(),
    }


def _readable(settings: Path) -> Path:
    try:
        Settings.load(settings)
    except SettingsError as fault:
        fail(f"The settings file {settings} is invalid: {fault}")
    return settings.resolve()


def _up_detached(state: Path, port: int, settings: Path | None, listening: int) -> None:
    log, root = state / "server.log", root_key.load_key(state)
    command = [sys.executable, "-m", "localcloud.supervisor", str(state), str(port), str(listening)]
    log.touch()
    log.chmod(0o600)
    with log.open("ab") as output:
        child = subprocess.Popen(
            [*command, str(settings)] if settings else command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=[listening],
            cwd=Path(__file__).resolve().parents[2],
        )
    begun, reported = time.monotonic(), False
    while (waited := time.monotonic() - begun) < READY_SECONDS:
        if child.poll() is not None:
            fail(f"The local cloud ended while it started. The end of {log}:\n{_tail(log)}")
        if _is_ready(port, root):
            print(f"The local cloud is up: http://127.0.0.1:{port}, state in {state}.")
            return
        if waited > SLOW_START_SECONDS and not reported:
            print(f"The local cloud is still starting after {waited:.0f} s. Log: {log}", flush=True)
            reported = True
        time.sleep(0.1)
    supervisor.stop(state)
    fail(f"The local cloud was not ready after {READY_SECONDS:.0f} seconds. The end of {log}:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL:])


def _is_ready(port: int, root: RootKey) -> bool:
    try:
        request(port, root, "GET", "/status", None, seconds=5)
    except OSError:
        return False
    return True
