"""An access error met while an event was handled: the run ends with it, as far as the role may still act."""

from datetime import datetime

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import attempt_row
from lambdas.core.run.outcome import ended_badly
from lambdas.core.run.records import WAITING
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts
from lambdas.steps.inputs import Denied
from lambdas.steps.observability import logger
from trainyard.core.model.errors import AccessDenied
from trainyard.protocol.ledger.attempt import TokenRow
from trainyard.values import serialization


def end_denied(ledger: Ledger, run: str, attempt: int, denied: AccessDenied, now: datetime) -> None:
    """Fail whoever waits, in whichever attempt, and note why for a state that begins to wait later or that runs out of
    time; where nobody waits yet, for this `attempt`.

    Each step may itself be what the role lacks, so one that is denied does not keep the others from happening;
    the caller raises the first denial in any case."""
    trouble = _trouble(denied)
    tokens = _tokens(ledger, run, attempt)
    for number in sorted({token.attempt for token in tokens}) or [attempt]:
        _note(ledger, run, number, denied, now)
    for token in tokens:
        try:
            states.fail(token.token, trouble)
        except AccessDenied as also:
            logger.error("nor may the task be failed: %s", also.reason)
            _go_on_to_fail(ledger, run, token, also, now)


def _note(ledger: Ledger, run: str, attempt: int, denied: AccessDenied, now: datetime) -> None:
    try:
        attempts.end_once(ledger, run, attempt, ended_badly(_trouble(denied), now))
    except AccessDenied as also:
        logger.error("nor may the ledger be written: %s", also.reason)


def _go_on_to_fail(ledger: Ledger, run: str, token: TokenRow, denied: AccessDenied, now: datetime) -> None:
    """Who may not fail a task may still end it: what comes next sees the denial, in the answer or in the ledger."""
    trouble = _trouble(denied)
    try:
        ledger.write(attempt_row(run, token.attempt, ended_badly(trouble, now)))
        states.succeed(token.token, serialization.to_json(Denied.of(trouble)))
    except AccessDenied as also:
        logger.error("nor may it be ended: %s", also.reason)


def _trouble(denied: AccessDenied) -> Trouble:
    return Trouble(error=AccessDenied.__name__, reason=denied.reason, final=True)


def _tokens(ledger: Ledger, run: str, attempt: int) -> list[TokenRow]:
    """The tokens that wait, by whichever way the role may read them; by the second, those of this attempt alone."""
    try:
        return list(ledger.waiting(run))
    except AccessDenied as also:
        logger.error("nor may the ledger be queried: %s", also.reason)
    waits = (*WAITING, "install", "test", "generalize", "pause", "capture")
    try:
        rows = [ledger.token(run, attempt, wait) for wait in waits]
    except AccessDenied as also:
        logger.error("nor may the ledger be read: %s", also.reason)
        return []
    return [row for row in rows if row is not None and row.answered is None]
