"""Completion of what only the yard knows: quick, and without a word when it cannot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Yard

MOST = 50


def complete_runs(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of runs that begin like this, newest first. A yard that does not answer at once has none."""
    try:
        found = ["@last", *(run.id for run in _yard(context).list(limit=MOST))]
    except Exception:  # noqa: BLE001 - whatever is wrong, a person who presses Tab is not told of it
        return []
    return [each for each in found if each.startswith(incomplete)]


def complete_hosts(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the yard's hosts that begin like this."""
    try:
        found = [str(each["InstanceId"]) for each in _yard(context).instances()]
    except Exception:  # noqa: BLE001 - the same
        return []
    return [each for each in found if each.startswith(incomplete)][:MOST]


def complete_dev_hosts(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the yard's dev hosts that begin like this."""
    try:
        from trainyard.client.dev import hosts

        found = sorted({host.name for host in hosts.hosts(_yard(context))})
    except Exception:  # noqa: BLE001 - the same
        return []
    return [each for each in found if each.startswith(incomplete)]


def _yard(context: typer.Context) -> Yard:
    """The yard that is meant, which has no time."""
    from trainyard.cli.options import NAME
    from trainyard.client import Session, Yard

    said: dict[str, Any] = {**context.find_root().params, **context.params}
    options = Options(yard=said.get("yard"), profile=said.get("profile"), region=said.get("region"))
    told = options.completed(os.environ, Path.cwd(), Path.home())
    session = Session.of(profile=told.profile, region=told.region, patient=False)
    return Yard.find(told.yard or NAME, session=session)
