"""Publish of version: make a checked version ready and move its alias, or refuse it with the reason.

A rule calls this function for executions that ended before their Publish."""

from dataclasses import replace

from lambdas import environment
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.models import Models
from lambdas.aws.dynamodb.write import Write
from lambdas.core.models import registry
from lambdas.core.models.registry import Move
from lambdas.core.run.recovery import Trouble
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.conclusion import NotConcluded
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import ConcludeInput
from lambdas.steps.observability import clock, logger
from trainyard.core.model.errors import ModelRefused, ServiceUnavailable
from trainyard.protocol.ledger.models import MOST_REASON, ModelRows, MoveRow, VersionRow, VersionState
from trainyard.protocol.requests import model_of
from trainyard.values.lazy import dataclass
from trainyard.values.text import printable

MOST_TRIES = 4
NEEDS = Needs(YardSettings, (may("use the ledger", "Query", "PutItem", "UpdateItem"),))


@dataclass(frozen=True, kw_only=True)
class Published:
    """The end of the request."""

    kind: VersionState
    reason: str
    model: str
    error: str = ModelRefused.__name__
    number: int | None = None
    label: str | None = None
    alias: str | None = None
    """The alias that names the version now."""
    old: str | None = None
    """The version that the alias named before, with its label."""


@entry_point
def handler(given: ConcludeInput) -> Published | NotConcluded:
    yard, model = environment.read(YardSettings), model_of(given.run) or ""
    for _ in range(MOST_TRIES):
        try:
            return _publish(yard, model, given)
        except AlreadyWrittenError:
            logger.info("another request has written %s", model)
    raise ServiceUnavailable(f"other requests have changed {model} at the same moment; this one is retried")


def _publish(yard: YardSettings, model: str, given: ConcludeInput) -> Published | NotConcluded:
    rows = Models(yard.table_name).read(model)
    made = rows.made_by(given.run) if rows else None
    if rows and made is None and given.cut_short:
        Ledger(yard.table_name).write(rows_of.next_model_row(registry.cut(rows, given.run)))
    if rows is None or made is None:
        return NotConcluded(reason=f"{given.run} has made no version")
    outcome, ledger = given.outcome, Ledger(yard.table_name)
    if made.state is not VersionState.MAKING:
        return _answer(rows, made, rows.moved_by(given.run))
    if outcome.kind not in ("agrees", "unchecked"):
        reason = outcome.reason or Trouble.caught(outcome.error or "", outcome.cause or "").reason
        refused = replace(made, state=VersionState.REFUSED, reason=printable(reason, MOST_REASON))
        ledger.write(_end(model, refused))
        return _answer(rows, refused, None)
    ready, moved = replace(made, state=VersionState.READY), registry.publish(rows, made, clock())
    ledger.write(_end(model, ready), *(rows_of.changes(moved) if moved else ()))
    return _answer(rows, ready, moved.move if isinstance(moved, Move) else None)


def _end(model: str, row: VersionRow) -> Write:
    """Return the write that ends the making of the version. Only the first of two calls succeeds."""
    values = {"state": row.state.value, "reason": row.reason}
    return rows_of.version_row(model, row.number, values, was=VersionState.MAKING)


def _answer(rows: ModelRows, row: VersionRow, moved: MoveRow | None) -> Published:
    model, old = rows.row.name, rows.find(str(moved.old)) if moved else None
    return Published(
        kind=row.state,
        reason=row.reason or f"version {row.shown} of {model} is {row.state}",
        model=model,
        number=row.number,
        label=row.label,
        alias=moved.alias if moved else None,
        old=old.shown if old else None,
    )
