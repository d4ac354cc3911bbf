"""Start the run that serves a version of a model, unless one runs."""

from datetime import datetime

from lambdas.aws import states
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.models import registry, serving
from lambdas.environment import YardSettings
from trainyard.core.jobfile import check
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.ledger.models import ModelRows, ServedRow
from trainyard.protocol.requests import ModelRequest
from trainyard.values.validation import InputFaults


def start(
    yard: YardSettings, machine: str, request: ModelRequest, rows: ModelRows, by: str, now: datetime
) -> ServedRow:
    """Return the row of the host that serves the version. A new start is written before its execution begins, so two
    requests start one run. Raises ModelRefused, or AlreadyWrittenError if another request was first."""
    model, ledger = rows.row.name, Ledger(yard.table_name)
    version = registry.find_named(request.version, rows)
    before = rows.served_as(version.number)
    run = ledger.run(before.run) if before else None
    row = serving.choose(request, rows, version, run, by, now)
    given = serving.input_of(model, version, row)
    if row is not before:
        faults = check.check(given["job"], source=f"a host for {model}", bucket=yard.bucket_name)
        if isinstance(faults, InputFaults):
            raise ModelRefused(faults.reason)
        ledger.write(rows_of.served_row(model, row))
    if row is not before or run is None:
        states.start(machine, row.run, given)
    return row
