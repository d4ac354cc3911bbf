"""Judge the open canaries of models, and end or promote them. Shadows end when their time has passed."""

from collections.abc import Collection
from datetime import datetime

from lambdas.aws import prediction_metrics
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.models import Models
from lambdas.aws.dynamodb.write import Write
from lambdas.core.models import canary
from lambdas.core.models.canary import PATROL, Promote, RollBack, Warn
from lambdas.core.models.registry import Move
from lambdas.steps.observability import logger
from trainyard.core.model.prediction_metrics import Figures, Key
from trainyard.protocol.ledger.models import CANARY, DEFAULT, SHADOW, ModelRows


def review(table: str, yard: str, models: Collection[str], now: datetime) -> list[str]:
    """Judge the canaries of these models by their metrics, which one call reads. Return what users must know."""
    registry, ledger = Models(table), Ledger(table)
    found = {name: registry.read(name) for name in sorted(models)}
    for name in (name for name, rows in found.items() if rows is None or not _is_open(rows)):
        ledger.write(rows_of.no_canary_row(name))
    opened = {name: rows for name, rows in found.items() if rows and _is_open(rows)}
    asked = {key for rows in opened.values() for key in _keys(rows)}
    figures = prediction_metrics.read(yard, asked, now) if asked else {}
    return [said for rows in opened.values() for said in _review(ledger, rows, figures, now)]


def _is_open(rows: ModelRows) -> bool:
    return rows.row.canary is not None or rows.row.shadow is not None


def _keys(rows: ModelRows) -> list[Key]:
    """Return the versions whose figures are compared, each with the start of the comparison."""
    model, champion = rows.row.name, rows.row.aliases[DEFAULT]
    tried = [each for each in (rows.row.canary, rows.row.shadow) if each]
    return [(model, number, each.started) for each in tried for number in (each.version, champion)]


def _review(ledger: Ledger, rows: ModelRows, figures: dict[Key, Figures], now: datetime) -> list[str]:
    model, said = rows.row.name, []
    try:
        if rows.row.canary:
            said += _review_canary(ledger, rows, figures, now)
        elif (shadow := rows.row.shadow) and now >= shadow.until + canary.LAG:
            why = canary.describe_shadow(shadow, figures[model, shadow.version, shadow.started])
            ended = canary.end(rows, SHADOW, PATROL, now, shadow.request, why)
            ledger.write(*rows_of.move_rows(ended))
            said.append(f"the shadow of {model} ended: {why}")
    except AlreadyWrittenError:
        logger.info("a user has changed %s at the same moment; the next pass judges it", model)
    return said


def _review_canary(ledger: Ledger, rows: ModelRows, figures: dict[Key, Figures], now: datetime) -> list[str]:
    tried, model, champion = rows.row.canary, rows.row.name, rows.row.aliases[DEFAULT]
    assert tried, "the caller has found it"
    own, others = (figures[model, number, tried.started] for number in (tried.version, champion))
    judged = canary.judge(tried, champion, own, others, now)
    logger.info("canary of %s: %s", model, judged)
    writes: list[Write] = []
    match judged:
        case RollBack(why=why):
            ended = canary.end(rows, CANARY, PATROL, now, tried.request, f"rolled back: {why}")
            writes, said = rows_of.move_rows(ended), f"the canary of {model} was rolled back: {why}"
        case Promote(why=why):
            promoted = canary.promote(rows, now, why)
            state = "is the default" if isinstance(promoted, Move) else "waits for approval"
            writes, said = rows_of.changes(promoted), f"version {tried.version} of {model} {state}: {why}"
        case Warn(why=why):
            said = f"{model}: {why}"
        case _:
            return []
    if writes:
        ledger.write(*writes)
    return [said]
