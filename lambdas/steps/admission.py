"""The beginning of a run, whatever its kind. The ledger has one run of a name, and it is one execution's."""

from collections.abc import Mapping
from typing import Any

from lambdas.aws.ledger import AlreadyWrittenError, Ledger, Write, run_row
from lambdas.core.model import names, wire
from lambdas.core.run.records import RunRow
from lambdas.steps.observability import logger


def is_its_own(row: RunRow, event: Mapping[str, Any]) -> bool:
    """Whether the run is the execution's that the event speaks of; a rule's event does not say when that started."""
    started = event.get("started")
    return row.is_of(event["execution"], wire.instant(started) if started else None)


def taken(row: RunRow | None, event: Mapping[str, Any]) -> str | None:
    """Why this execution cannot have the run of its name; None where nobody has it yet, or it has it itself."""
    if row is None or is_its_own(row, event):
        return None
    return names.taken(row.run, row.execution_arn)


def write(ledger: Ledger, event: Mapping[str, Any], values: Mapping[str, Any], *rows: Write) -> str | None:
    """The run with these values, and its first rows; why not, where another execution of the name was faster."""
    run = str(event["run"])
    begun = {
        "state": "Admit",
        "attempt": 1,
        "created": wire.instant(event["started"]),
        "execution_arn": event["execution"],
        **values,
    }
    try:
        ledger.write(run_row(run, begun, unless="created"), *rows)
    except AlreadyWrittenError:
        logger.info("%s is in the ledger already", run)
        return taken(ledger.run(run), event)
    return None
