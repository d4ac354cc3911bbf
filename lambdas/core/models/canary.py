"""Decide on canaries and shadows: their start, their end, and patrol's judgement of their figures. Pure.

A start or an end raises ModelRefused if the request cannot be done. Missing figures never count as healthy."""

from dataclasses import replace
from datetime import datetime, timedelta

from lambdas.core.models import registry
from lambdas.core.models.registry import Move, Wait
from trainyard.command_line import command_line
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.prediction_metrics import Figures
from trainyard.protocol.export import Conversion
from trainyard.protocol.ledger.models import CANARY, DEFAULT, SHADOW, Canary, ModelRow, ModelRows, MoveRow
from trainyard.protocol.requests import ModelRequest
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

MOST_MINUTES = 7 * 24 * 60
LEAST_PREDICTIONS = 5
"""A canary is judged by its errors from this number of requests on."""
LEAST_TIMED = 20
"""A canary is judged by its duration from this number of requests on."""
LEAST_SLOWER = 5.0
"""The least difference of medians in milliseconds. Small durations vary."""
MORE_ERRORS = 0.01
"""The difference of the shares of errors above which a canary is rolled back."""
SLOWER = 2.0
"""The ratio of the medians above which a canary is rolled back."""
MISSING = timedelta(minutes=15)
"""After this time without figures, patrol warns."""
LAG = timedelta(minutes=2)
"""The age at which the figures of a minute are complete in CloudWatch."""
PATROL = "patrol"


@dataclass(frozen=True)
class Continue:
    """The canary stays as it is."""


@dataclass(frozen=True)
class Warn:
    """The canary stays as it is, although it should be decided."""

    why: str


@dataclass(frozen=True)
class RollBack:
    why: str


@dataclass(frozen=True)
class Promote:
    why: str


Judgement = Continue | Warn | RollBack | Promote


def judge(canary: Canary, champion: int, own: Figures, others: Figures, now: datetime) -> Judgement:
    """Judge a canary by its figures and by the figures of the default version, `champion`."""
    if not own.predictions or not others.predictions:
        missing = canary.version if not own.predictions else champion
        if now - canary.started < MISSING:
            return Continue()
        return Warn(f"CloudWatch has no predictions of version {missing}, so the canary stays as it is")
    if own.predictions >= LEAST_PREDICTIONS and own.share > others.share + MORE_ERRORS:
        return RollBack(f"{_errors(canary.version, own)}, and {_errors(champion, others)}")
    if _is_slower(own, others):
        return RollBack(
            f"version {canary.version} takes {own.milliseconds:.0f} ms (median), and version {champion} "
            f"{others.milliseconds:.0f} ms"
        )
    if now < canary.until + LAG:
        return Continue()
    if own.predictions < LEAST_TIMED:
        found = format_count(round(own.predictions), "prediction")
        return Warn(f"version {canary.version} has only {found}, so the canary stays as it is")
    return Promote(f"canary: {_errors(canary.version, own)}, and {_errors(champion, others)}")


def _is_slower(own: Figures, others: Figures) -> bool:
    if own.predictions < LEAST_TIMED or own.milliseconds is None or others.milliseconds is None:
        return False
    more = own.milliseconds - others.milliseconds
    return own.milliseconds > SLOWER * others.milliseconds and more >= LEAST_SLOWER


def _errors(version: int, figures: Figures) -> str:
    found = format_count(round(figures.predictions), "request")
    return f"version {version} failed {round(figures.errors)} of {found} ({figures.share:.1%})"


def start(request: ModelRequest, rows: ModelRows, by: str, now: datetime) -> Move:
    """Start a canary or a shadow of the default version."""
    word, model = _word(request), request.model
    if not 1 <= request.percent <= 100:
        raise ModelRefused(
            f"percent: found {request.percent}; a {word} gets 1 to 100 percent of the requests"
        )
    if not 1 <= request.minutes <= MOST_MINUTES:
        raise ModelRefused(
            f"minutes: found {request.minutes}; a {word} lasts 1 to {MOST_MINUTES} minutes (7 days)"
        )
    found = registry.find_ready(request, rows)
    champion = rows.row.aliases.get(DEFAULT)
    if champion is None:
        line = command_line("versions", "set-default", found.label, "--model", model)
        raise ModelRefused(f"{model} has no default version to compare with; choose one: {line}")
    if champion == found.number:
        raise ModelRefused(f"version {found.shown} is the default of {model}; name another version")
    if found.lite is Conversion.NONE:
        raise ModelRefused(
            f"version {found.shown} of {model} needs a host with TensorFlow, and a {word} runs in the function for "
            "predictions"
        )
    if running := _running(rows.row, word):
        line = command_line("models", "canary", model, "--stop", *(["--shadow"] if word == SHADOW else []))
        raise ModelRefused(
            f"{model} has a {word}: version {running.version} until {running.until:%Y-%m-%d %H:%M} UTC; end it first: "
            f"{line}"
        )
    made = Canary(
        version=found.number,
        percent=request.percent,
        started=now,
        until=now + timedelta(minutes=request.minutes),
        by=by,
        request=request.request,
    )
    why = f"{request.percent} % for {format_count(request.minutes, 'minute')}"
    return _with(rows, word, made, champion, found.number, by, now, request.request, why)


def stop(request: ModelRequest, rows: ModelRows, by: str, now: datetime) -> Move:
    """End a canary or a shadow for a user."""
    word = _word(request)
    running = _running(rows.row, word)
    if running is None:
        raise ModelRefused(f"{request.model} has no {word}")
    return end(rows, word, by, now, request.request, "ended by a user")


def end(rows: ModelRows, word: str, by: str, now: datetime, request: str, why: str) -> Move:
    """End a canary or a shadow. The default version stays."""
    running = _running(rows.row, word)
    assert running, "it was found in these rows"
    champion = rows.row.aliases[DEFAULT]
    return _with(rows, word, None, running.version, champion, by, now, request, why)


def promote(rows: ModelRows, now: datetime, why: str) -> Move | Wait:
    """Let `default` name the canary's version, or let this wait for approval. The canary ends in both cases."""
    canary = rows.row.canary
    assert canary, "it was found in these rows"
    made = registry.propose(rows, DEFAULT, canary.version, canary.by, now, canary.request, why)
    return replace(made, row=replace(made.row, canary=None))


def describe_shadow(shadow: Canary, own: Figures) -> str:
    """Return the figures of a shadow at its end."""
    if not own.predictions:
        return "CloudWatch has no figures of it"
    answered = own.predictions - own.errors
    share = own.disagreed / answered if answered else 0.0
    return f"{_errors(shadow.version, own)}, {round(own.disagreed)} answers differ ({share:.1%})"


def _word(request: ModelRequest) -> str:
    return SHADOW if request.shadow else CANARY


def _running(row: ModelRow, word: str) -> Canary | None:
    return row.shadow if word == SHADOW else row.canary


def _with(
    rows: ModelRows,
    word: str,
    made: Canary | None,
    old: int,
    new: int,
    by: str,
    now: datetime,
    request: str,
    why: str,
) -> Move:
    row = registry.touch(rows)
    row = replace(row, shadow=made) if word == SHADOW else replace(row, canary=made)
    return Move(row=row, move=MoveRow(alias=word, old=old, new=new, by=by, at=now, request=request, why=why))
