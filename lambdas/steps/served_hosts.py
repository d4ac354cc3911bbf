"""Start the run that serves a version of a model, unless one runs."""

from datetime import datetime

from lambdas.aws import states
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.models import registry, serving
from lambdas.environment import YardSettings
from trainyard.core.jobfile import check
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.ledger.models import ModelRows, ServedRow, VersionRow
from trainyard.protocol.requests import ModelRequest
from trainyard.values.validation import InputFaults


def start(
    yard: YardSettings, machine: str, request: ModelRequest, rows: ModelRows, by: str, now: datetime
) -> ServedRow:
    """Return the row of the host that serves the version. A new start is written before its execution begins, so two
    requests start one run. It is also a write of the model, so the version is not retired meanwhile. Raises
    ModelRefused, or AlreadyWrittenError if another request was first."""
    model, ledger = rows.row.name, Ledger(yard.table_name)
    version = registry.find_named(request.version, rows)
    before = rows.served_as(version.number)
    run = ledger.run(before.run) if before else None
    is_lost = before is not None and run is None and _is_lost(ledger, machine, model, version, before)
    row = serving.choose(request, rows, version, run, by, now, is_lost=is_lost)
    if row is not before:
        given = serving.input_of(model, version, row)
        faults = check.check(given["job"], source=f"a host for {model}", bucket=yard.bucket_name)
        if isinstance(faults, InputFaults):
            raise ModelRefused(faults.reason)
        ledger.write(rows_of.next_model_row(registry.touch(rows)), rows_of.served_row(model, row))
        states.start(machine, row.run, given)
    return row


def _is_lost(ledger: Ledger, machine: str, model: str, version: VersionRow, row: ServedRow) -> bool:
    """Start the execution of this row, unless it exists. Return True if it has ended before the ledger had a run."""
    if states.start(machine, row.run, serving.input_of(model, version, row)):
        return False
    return states.is_over(states.execution_of(machine, row.run)) and ledger.run(row.run) is None


def check_unused(yard: YardSettings, rows: ModelRows, number: int, now: datetime) -> None:
    """Raise ModelRefused if a host serves the version, or is about to."""
    row = rows.served_as(number)
    run = Ledger(yard.table_name).run(row.run) if row else None
    if row and serving.is_in_use(row, run, now):
        raise serving.in_use(rows, row)
