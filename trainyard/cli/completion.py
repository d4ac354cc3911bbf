"""Shell completion of IDs and names from the yard. It is quick, and silent about errors."""

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
    """Return the IDs of runs that begin with `incomplete`, newest first; none if the yard does not answer at once."""
    try:
        found = ["@last", *(run.id for run in _yard(context).list(limit=MOST))]
    except Exception:  # noqa: BLE001 - an error would disturb the line that the user is typing
        return []
    return [each for each in found if each.startswith(incomplete)]


def complete_hosts(context: typer.Context, incomplete: str) -> list[str]:
    """Return the IDs of the yard's hosts that begin with `incomplete`."""
    try:
        found = [str(each["InstanceId"]) for each in _yard(context).instances()]
    except Exception:  # noqa: BLE001 - the same
        return []
    return [each for each in found if each.startswith(incomplete)][:MOST]


def complete_dev_hosts(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the yard's dev hosts that begin with `incomplete`."""
    try:
        from trainyard.client.dev import hosts

        found = sorted({host.name for host in hosts.hosts(_yard(context))})
    except Exception:  # noqa: BLE001 - the same
        return []
    return [each for each in found if each.startswith(incomplete)]


def _yard(context: typer.Context) -> Yard:
    """Return the yard of the options typed so far, with a session that does not retry."""
    from trainyard.cli.options import NAME
    from trainyard.client import Session, Yard

    typed: dict[str, Any] = {**context.find_root().params, **context.params}
    options = Options(yard=typed.get("yard"), profile=typed.get("profile"), region=typed.get("region"))
    options = options.complete(os.environ, Path.cwd(), Path.home())
    session = Session.of(profile=options.profile, region=options.region, patient=False)
    return Yard.find(options.yard or NAME, session=session)
