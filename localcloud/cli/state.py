"""Checks of the state folder that a command names, and the error exit of commands."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from localcloud import supervisor
from localcloud.base.state import KEPT, has_other_format

LEAST_SPACE = 16 << 20
PRIVATE = 0o700
"""Mode of the state folder. It holds keys, objects and logs, so other users have no access."""

State = Annotated[Path, typer.Option("--state", help="Folder of all state, kept between restarts.")]
DEFAULT_STATE = Path(".localcloud")


def existing_state(state: Path) -> Path:
    """Return the state folder, which may be missing."""
    state = state.resolve()
    if state.exists() and not state.is_dir():
        fail(f"{state} is a file. Name a folder with --state.")
    if state.exists() and not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        fail(f"The state folder {state} belongs to another user. Name another with --state.")
    return state


def prepared_state(state: Path) -> Path:
    """Return the state folder, created and ready for a local cloud."""
    state = existing_state(state)
    try:
        state.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    except OSError as error:
        fail(f"The state folder {state} cannot be made: {error.strerror}. Name another with --state.")
    if state.stat().st_uid != os.geteuid():
        fail(
            f"The state folder {state} belongs to another user. Nothing was started, because that user could read and "
            "change all that the local cloud holds. Name a folder of your own with --state."
        )
    if has_other_format(state / KEPT):
        fail(
            f"Another version of the local cloud has written the state folder {state}. Nothing was started or changed, "
            "because this version cannot read it. "
            f"`python -m localcloud down --forget --state {shlex.quote(str(state))}` deletes it; or name another "
            "folder with --state."
        )
    state.chmod(PRIVATE)  # the folder may be older, or a copy
    free = shutil.disk_usage(state).free
    if free < LEAST_SPACE:
        fail(
            f"The disk of the state folder {state} has {free >> 20} MB left, too little to start with. "
            "Free some, or name a folder on another disk with --state."
        )
    return state


def port_of(state: Path) -> int:
    found = supervisor.running(existing_state(state))
    if found is None:
        where = "" if state == DEFAULT_STATE else f" --state {shlex.quote(str(state))}"
        fail(
            f"No local cloud is up on {state.resolve()}. `python -m localcloud up --detach{where}` starts one."
        )
    return found.port


def fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)
