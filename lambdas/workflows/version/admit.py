"""Admit of version: do what a user requests of a model. For a new version, check its origin and give it a number; the
next states copy and check its files."""

from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from lambdas import environment
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.models import Models
from lambdas.core.models import origin, registry
from lambdas.core.models.registry import Move
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import model_origins
from lambdas.steps.entry_point import entry_point, parse
from lambdas.steps.inputs import AdmitInput, Answer
from lambdas.steps.model_origins import CheckedOrigin
from lambdas.steps.observability import clock, logger
from trainyard.command_line import command_line
from trainyard.core.model import model_names
from trainyard.core.model.errors import ModelRefused, Refused, ServiceUnavailable
from trainyard.protocol.export import RECORD
from trainyard.protocol.ledger.models import (
    CANARY,
    DEFAULT,
    SHADOW,
    ModelRows,
    MoveRow,
    Pending,
    VersionRow,
    VersionState,
)
from trainyard.protocol.requests import Act, ModelRequest
from trainyard.values.lazy import dataclass


class AdmitSettings(YardSettings):
    train_state_machine_arn: str


MOST_TRIES = 4
"""The most decisions about one request. If another request writes the model first, the next decision follows."""
NEEDS = Needs(
    AdmitSettings,
    (
        *model_origins.GRANTS,
        may("start executions", "train"),
        may("describe executions", "train"),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class UsersRequest:
    """The input of the execution."""

    request: ModelRequest
    by: str
    """The user, as verified by IAM."""
    operator: bool = False
    """True for the request of an operator on the model of another user."""


@dataclass(frozen=True, kw_only=True)
class VersionAdmitted(Answer):
    """The version has a number."""

    kind = "admitted"
    model: str
    number: int
    prefix: str
    """The folder of its origin."""


class Unprepared(Answer):
    """The version has a number. A run must prepare its SavedModel for predictions first."""

    kind = "unprepared"


@dataclass(frozen=True, kw_only=True)
class Changed(Answer):
    """The model is changed as requested."""

    kind: ClassVar[str] = "changed"
    model: str
    old: str | None = None
    """The version that the alias named before, with its label."""
    new: str | None = None
    waits: bool = False
    """True if the move waits for the approval of another user."""
    run: str | None = None
    """The run that serves the model."""


@entry_point
def handler(given: AdmitInput) -> VersionAdmitted | Unprepared | Changed | Refused:
    yard, asked = environment.read(AdmitSettings), parse(UsersRequest, given.input, of="version.admit")
    try:
        if asked.request.act is Act.VERSION:
            return _number(yard, asked)
        return _change(yard, asked, clock())
    except ModelRefused as refused:
        return Refused(ModelRefused.__name__, refused.reason)


def _number(yard: YardSettings, asked: UsersRequest) -> VersionAdmitted | Unprepared:
    """Check the origin and give the version the next number."""
    model, found = asked.request.model, None
    for _ in range(MOST_TRIES):
        rows = _read(yard, asked)
        if made := rows.made_by(asked.request.request):
            return _admitted(model, made, yard.bucket_name)
        label = registry.choose_label(asked.request, rows)
        if asked.request.alias:
            model_names.check_alias(asked.request.alias)
        found = found or model_origins.check_origin(yard, asked.request.origin)
        made = _version_of(asked, rows, label, found, yard.bucket_name)
        try:
            Ledger(yard.table_name).write(
                rows_of.next_model_row(registry.number(rows)), rows_of.new_version_row(model, made)
            )
        except AlreadyWrittenError:
            logger.info("another request has written %s", model)
            continue
        return _admitted(model, made, yard.bucket_name)
    raise _overtaken(model)


def _admitted(model: str, made: VersionRow, bucket: str) -> VersionAdmitted | Unprepared:
    if not made.signatures:
        return Unprepared(
            reason=f"{model} {made.shown} is prepared by a run, because {made.origin} has no {RECORD}"
        )
    return VersionAdmitted(
        reason=f"{model} {made.shown} is copied from {made.origin}",
        model=model,
        number=made.number,
        prefix=made.origin.removeprefix(f"s3://{bucket}/"),
    )


def _version_of(
    asked: UsersRequest, rows: ModelRows, label: str, found: CheckedOrigin, bucket: str
) -> VersionRow:
    request, record = asked.request, found.record
    row = VersionRow(
        number=rows.row.next,
        label=label,
        state=VersionState.MAKING,
        by=asked.by,
        at=clock(),
        request=request.request,
        origin=f"s3://{bucket}/{found.prefix}",
        alias=request.alias or None,
        size=found.size,
        metrics=found.metrics,
    )
    if record:
        row = replace(row, **origin.describe(record))
    return replace(row, **origin.lineage(found.run)) if found.run else row


def _change(yard: AdmitSettings, asked: UsersRequest, now: datetime) -> Changed:
    """Create a model, move an alias, retire a version, or serve it."""
    for _ in range(MOST_TRIES):
        try:
            if asked.request.act is Act.CREATE:
                return _create(yard, asked, now)
            if asked.request.act is Act.RETIRE:
                return _retire(yard, asked, now)
            if asked.request.act in (Act.CANARY, Act.END_CANARY):
                return _try(yard, asked, now)
            if asked.request.act is Act.SERVE:
                return _serve(yard, asked, now)
            return _move(yard, asked, now)
        except AlreadyWrittenError:
            logger.info("another request has written %s", asked.request.model)
    raise _overtaken(asked.request.model)


def _create(yard: YardSettings, asked: UsersRequest, now: datetime) -> Changed:
    model = asked.request.model
    model_names.check("model", model)
    rows = Models(yard.table_name).read(model)
    made = registry.create(asked.request, rows, asked.by, now)
    if rows is None:
        Ledger(yard.table_name).write(*rows_of.new_model_rows(made))
    return Changed(reason=f"{model} belongs to {made.owner}", model=model)


def _retire(yard: YardSettings, asked: UsersRequest, now: datetime) -> Changed:
    from lambdas.steps import served_hosts

    model, rows = asked.request.model, _read(yard, asked)
    registry.check_owner(rows, asked.by, operator=asked.operator)
    retired = registry.retire(asked.request, rows, asked.by)
    served_hosts.check_unused(yard, rows, retired.number, now)
    values = {"state": retired.state.value, "retired_by": retired.retired_by}
    Ledger(yard.table_name).write(
        rows_of.next_model_row(registry.touch(rows)), rows_of.version_row(model, retired.number, values)
    )
    return Changed(reason=f"version {retired.shown} of {model} is retired", model=model, old=retired.shown)


def _serve(yard: AdmitSettings, asked: UsersRequest, now: datetime) -> Changed:
    from lambdas.steps import served_hosts  # few requests start a host, and these imports cost time

    model, rows = asked.request.model, _read(yard, asked)
    row = served_hosts.start(yard, yard.train_state_machine_arn, asked.request, rows, asked.by, now)
    version = rows.find(str(row.number))
    assert version, "a served version has a row"
    return Changed(
        reason=f"{row.run} serves version {version.shown} of {model}",
        model=model,
        new=version.shown,
        run=row.run,
    )


def _move(yard: YardSettings, asked: UsersRequest, now: datetime) -> Changed:
    """Move an alias, reverse its last move, or approve one that waits. Every user may approve."""
    request, rows = asked.request, _read(yard, asked)
    if earlier := rows.moved_by(request.request):
        return _moved(rows, earlier)
    if waiting := next(
        (each for each in rows.row.pending.items() if each[1].request == request.request), None
    ):
        return _waits(rows, *waiting)
    if request.act is not Act.APPROVE:
        registry.check_owner(rows, asked.by, operator=asked.operator)
    if request.alias:
        model_names.check_alias(request.alias)
    decide = {
        Act.MOVE: registry.move,
        Act.ROLLBACK: registry.roll_back,
        Act.APPROVE: registry.approve,
    }[request.act]
    moved = decide(request, rows, asked.by, now)
    Ledger(yard.table_name).write(*rows_of.changes(moved))
    return _moved(rows, moved.move) if isinstance(moved, Move) else _waits(rows, moved.alias, moved.pending)


def _waits(rows: ModelRows, alias: str, pending: Pending) -> Changed:
    found = rows.find(str(pending.version))
    words = [rows.row.name, *(["--alias", alias] if alias != DEFAULT else [])]
    return Changed(
        reason=f"the move of {alias} to version {found.shown if found else pending.version} waits until "
        f"{pending.until:%Y-%m-%d %H:%M} UTC for the approval of another user: "
        f"{command_line('models', 'approve', *words)}",
        model=rows.row.name,
        waits=True,
    )


def _try(yard: YardSettings, asked: UsersRequest, now: datetime) -> Changed:
    """Start or end a canary or a shadow."""
    from lambdas.core.models import canary

    request, rows = asked.request, _read(yard, asked)
    word = SHADOW if request.shadow else CANARY
    if not (done := rows.moved_by(request.request)):
        registry.check_owner(rows, asked.by, operator=asked.operator)
        decide = canary.start if request.act is Act.CANARY else canary.stop
        moved = decide(request, rows, asked.by, now)
        listed = [rows_of.canary_row(request.model, now)] if request.act is Act.CANARY else []
        Ledger(yard.table_name).write(*rows_of.move_rows(moved), *listed)
        done = moved.move
    old, new = _shown(rows, done.old), _shown(rows, done.new)
    if request.act is Act.END_CANARY:
        said = f"the {word} of {request.model} ended; default names version {new}"
    elif request.shadow:
        said = f"version {new} of {request.model} is the shadow of version {old}: {done.why}"
    else:
        said = f"version {new} of {request.model} is the canary of version {old}: {done.why}"
    return Changed(reason=said, model=request.model, old=old, new=new)


def _shown(rows: ModelRows, number: int | None) -> str | None:
    return found.shown if (found := rows.find(str(number))) else None


def _moved(rows: ModelRows, made: MoveRow) -> Changed:
    old, new = _shown(rows, made.old), _shown(rows, made.new)
    instead = f" instead of version {old}" if old else ""
    return Changed(
        reason=f"{made.alias} of {rows.row.name} names version {new}{instead}",
        model=rows.row.name,
        old=old,
        new=new,
    )


def _read(yard: YardSettings, asked: UsersRequest) -> ModelRows:
    """Read the model. Raise ModelRefused if it is unknown, or if the execution of the request has ended."""
    models, model = Models(yard.table_name), asked.request.model
    found = models.read(model)
    if found is None:
        raise registry.unknown_model(model, models.list_names())
    registry.check_not_cut(asked.request, found)
    return found


def _overtaken(model: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"other requests have changed {model} at the same moment; this one is retried")
