"""Decide on the host of a version: the running one, or a new run, and its job. Pure."""

from datetime import datetime, timedelta
from typing import Any

from trainyard.command_line import command_line
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.export import RECORD
from trainyard.protocol.ledger.models import ModelRows, ServedRow, VersionRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.requests import ModelRequest
from trainyard.protocol.serving import PROGRAM, ServeHow, Serves, arguments_of, name_job, name_run
from trainyard.values import serialization

MOST_IDLE_MINUTES = 1440
TO_BEGIN = timedelta(minutes=15)
"""The longest time from the row of a start until the ledger has its run."""


def choose(
    request: ModelRequest,
    rows: ModelRows,
    version: VersionRow,
    run: RunRow | None,
    by: str,
    now: datetime,
    *,
    is_lost: bool = False,
) -> ServedRow:
    """Return the row of the host that serves the version: the present row while its run is open, otherwise the row of
    the next start. `run` is the run that the present row names; None if the ledger does not have it yet, or never if
    the execution `is_lost`. Raises ModelRefused."""
    model, row = rows.row.name, rows.served_as(version.number)
    if row and not is_lost and (row.request == request.request or is_open(run)):
        if run and run.stopping:
            raise ModelRefused(
                f"{row.run} still serves version {version.shown} of {model}, and a user has stopped it; try again once "
                "it has ended"
            )
        return row
    how = request.serve or (row.how if row else None)
    if how is None:
        line = command_line("serve", model, "--version", version.label)
        raise ModelRefused(
            f"no host has served version {version.shown} of {model}, so its hardware is unknown; start one: {line}"
        )
    if not 0 < how.idle_minutes <= MOST_IDLE_MINUTES:
        raise ModelRefused(
            f"idle: found {how.idle_minutes:g} minutes; wanted more than 0 and at most {MOST_IDLE_MINUTES}"
        )
    start = row.start + 1 if row else 1
    return ServedRow(
        number=version.number,
        start=start,
        run=name_run(model, version.number, start),
        by=by,
        at=now,
        request=request.request,
        how=how,
    )


def is_open(run: RunRow | None) -> bool:
    """Return True if the run may serve now or later. A run that the ledger does not have yet is about to begin."""
    return run is None or (run.ended is None and run.cut_short is None)


def is_in_use(row: ServedRow, run: RunRow | None, now: datetime) -> bool:
    """Return True if the host of this row may answer now or later."""
    return is_open(run) and (run is not None or now - row.at < TO_BEGIN)


def in_use(rows: ModelRows, row: ServedRow) -> ModelRefused:
    """Return the refusal to retire a version that a host serves."""
    model, version = rows.row.name, rows.find(str(row.number))
    label = version.label if version else str(row.number)
    line = command_line("serve", "stop", model, "--version", label)
    return ModelRefused(
        f"{row.run} serves version {version.shown if version else row.number} of {model}; stop it first: {line}"
    )


def input_of(model: str, version: VersionRow, row: ServedRow) -> dict[str, Any]:
    """Return the input of the execution of train. Admit of train adds the data, because users cannot name it."""
    serves = Serves(model=model, number=version.number, submitter=row.by)
    return {"job": job_of(serves, version, row.how), "serves": serialization.to_json(serves)}


def job_of(serves: Serves, version: VersionRow, how: ServeHow) -> dict[str, Any]:
    """Return the job in the form of a job file, without its data."""
    hardware: dict[str, Any] = {"instance_types": [*how.instance_types]} if how.instance_types else {}
    if how.market:
        hardware["market"] = how.market
    record = version.manifest.get(RECORD)
    return {
        "name": name_job(serves.model),
        "program": {
            "module": PROGRAM,
            "args": arguments_of(serves, version.label, record, 60 * how.idle_minutes),
        },
        "hardware": hardware,
        "outputs": {"keep": False},
        "limits": {"hours": how.hours, "dollars": how.dollars},
    }
