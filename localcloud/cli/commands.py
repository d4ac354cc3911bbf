"""`python -m localcloud`: up, down, status, env, fault."""

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
from localcloud.cli.requests import ask, request
from localcloud.cli.state import DEFAULT_STATE, State, existing_state, fail, port_of, prepared_state

PATIENT_SECONDS, READY_SECONDS = 15.0, 600.0
"""Until a start that takes long is told of, and until it is given up: a busy machine is no reason."""
LOG_TAIL = 25

app = typer.Typer(
    help="AWS on this machine: an endpoint for cdk, aws and boto3, and hosts that really run. No account, no Docker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(fault, name="fault")


def main() -> None:
    """The command line's entry point."""
    app()


@app.command()
def up(
    state: State = DEFAULT_STATE,
    port: Annotated[int, typer.Option(help="Port of the endpoint on 127.0.0.1.", min=1, max=65535)] = 4566,
    detach: Annotated[bool, typer.Option("--detach", help="Return when it is ready; it runs on.")] = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="YAML laid over the shipped settings: prices, capacity, quotas, latencies.", exists=True
        ),
    ] = None,
) -> None:
    """Start the local cloud: the stacks, buckets, images and stopped instances of the last time are there."""
    state = prepared_state(state)
    settings = _readable(settings) if settings else None
    already = supervisor.running(state)
    if already:
        fail(
            f"It is already up on port {already.port} (state {state}). "
            f"`python -m localcloud env --state {shlex.quote(str(state))}` prints what a shell needs; `down` ends it."
        )
    if shortage := descriptors.shortage():
        typer.echo(shortage, err=True)
    try:
        listening = supervisor.listen(port)
        if detach:
            _up_detached(state, port, settings, listening.detach())
            return
        print(f"The local cloud listens on http://127.0.0.1:{port}. Ctrl-C ends it.")
        raise typer.Exit(supervisor.supervise(state, port, settings, listening))
    except supervisor.CannotStart as refusal:
        fail(str(refusal))


@app.command()
def down(
    state: State = DEFAULT_STATE,
    forget: Annotated[bool, typer.Option("--forget", help="Delete the state folder as well.")] = False,
) -> None:
    """End the local cloud and everything it started. Doing it twice is fine."""
    ended = supervisor.stop(existing_state(state))
    print("The local cloud is down." if ended else "Nothing was up.")
    if forget:
        shutil.rmtree(state, ignore_errors=True)


@app.command()
def status(
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,
) -> None:
    """Say whether it is up and what runs on it. Exits with 1 when it is not up."""
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
    """Print the lines a shell needs: `eval "$(python -m localcloud env)"`."""
    port, root = port_of(state), root_key.of(existing_state(state))
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


def _readable(settings: Path) -> Path:
    try:
        Settings.load(settings)
    except SettingsError as fault:
        fail(f"The settings in {settings} cannot be: {fault}")
    return settings.resolve()


def _up_detached(state: Path, port: int, settings: Path | None, listening: int) -> None:
    log, root = state / "server.log", root_key.of(state)
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
    begun, told = time.monotonic(), False
    while (waited := time.monotonic() - begun) < READY_SECONDS:
        if child.poll() is not None:
            fail(f"The local cloud ended while it started. The end of {log}:\n{_tail(log)}")
        if _is_ready(port, root):
            print(f"The local cloud is up: http://127.0.0.1:{port}, state in {state}.")
            return
        if waited > PATIENT_SECONDS and not told:
            print(f"The local cloud still starts, after {waited:.0f} seconds; its log: {log}", flush=True)
            told = True
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
