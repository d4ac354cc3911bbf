"""A denial that occurs while an event is handled. It ends the run as far as the role permits."""

from datetime import datetime

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import attempt_row
from lambdas.core.run.outcome import failure_update
from lambdas.core.run.records import WAITING
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts
from lambdas.steps.inputs import Denied
from lambdas.steps.observability import logger
from trainyard.core.model.errors import AccessDenied
from trainyard.protocol.ledger.attempt import TokenRow
from trainyard.values import serialization


def end_denied(ledger: Ledger, run: str, attempt: int, denied: AccessDenied, now: datetime) -> None:
    """Fail the waiting tasks of every attempt, and record the denial for states that wait later or time out. If no task
    waits yet, record it for `attempt`.

    The role may lack the permission for each of these steps, so a denied step does not prevent the others. The caller
    raises the first denial in any case."""
    trouble = _trouble(denied)
    tokens = _tokens(ledger, run, attempt)
    for number in sorted({token.attempt for token in tokens}) or [attempt]:
        _record(ledger, run, number, denied, now)
    for token in tokens:
        try:
            states.fail(token.token, trouble)
        except AccessDenied as also:
            logger.error("the task could not be failed either: %s", also.reason)
            _end_by_answer(ledger, run, token, also, now)


def _record(ledger: Ledger, run: str, attempt: int, denied: AccessDenied, now: datetime) -> None:
    try:
        attempts.end_once(ledger, run, attempt, failure_update(_trouble(denied), now))
    except AccessDenied as also:
        logger.error("the ledger could not be written either: %s", also.reason)


def _end_by_answer(ledger: Ledger, run: str, token: TokenRow, denied: AccessDenied, now: datetime) -> None:
    """End a task that the role may not fail. The next state finds the denial in the answer or in the ledger."""
    trouble = _trouble(denied)
    try:
        ledger.write(attempt_row(run, token.attempt, failure_update(trouble, now)))
        states.succeed(token.token, serialization.to_json(Denied.of(trouble)))
    except AccessDenied as also:
        logger.error("the task could not be ended either: %s", also.reason)


def _trouble(denied: AccessDenied) -> Trouble:
    return Trouble(error=AccessDenied.__name__, reason=denied.reason, final=True)


def _tokens(ledger: Ledger, run: str, attempt: int) -> list[TokenRow]:
    """Return the unanswered task tokens. If the role may not query the ledger, read the tokens of this attempt only."""
    try:
        return list(ledger.list_unanswered_tokens(run))
    except AccessDenied as also:
        logger.error("the ledger could not be queried either: %s", also.reason)
    waits = (*WAITING, "install", "test", "generalize", "pause", "capture")
    try:
        rows = [ledger.token(run, attempt, wait) for wait in waits]
    except AccessDenied as also:
        logger.error("the ledger could not be read either: %s", also.reason)
        return []
    return [row for row in rows if row is not None and row.answered is None]
