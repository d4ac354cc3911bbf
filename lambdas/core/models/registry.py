"""Decide on requests about a model from its rows: names, numbers, and moves of aliases. Pure.

A decision raises ModelRefused if the request cannot be done."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from trainyard.command_line import command_line
from trainyard.core.model import model_names
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.ledger.models import (
    DEFAULT,
    ModelRow,
    ModelRows,
    MoveRow,
    Pending,
    VersionRow,
    VersionState,
)
from trainyard.protocol.requests import ModelRequest
from trainyard.values.lazy import dataclass
from trainyard.values.validation import any_of, did_you_mean

MOST_NAMED = 12
APPROVAL_TIME = timedelta(days=7)
"""How long a move waits for approval."""
MOST_CUT = 16
"""The most requests in `cut`. A request needs its place there for the longest time of Admit."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """An alias that moves: the next row of the model, and the row of the move."""

    row: ModelRow
    move: MoveRow


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A move that waits for the approval of another user: the next row of the model."""

    row: ModelRow
    alias: str

    @property
    def pending(self) -> Pending:
        return self.row.pending[self.alias]


def unknown_model(model: str, known: Iterable[str]) -> ModelRefused:
    names = sorted(known)
    there = f"it has {_name_some(names)}{did_you_mean(model, names)}" if names else "it has no model yet"
    return ModelRefused(
        f"the yard has no model {model}; {there}; create it with {command_line('models', 'create', model)}"
    )


def create(request: ModelRequest, rows: ModelRows | None, by: str, now: datetime) -> ModelRow:
    """Return the row of a new model. A repeated request returns the row that it wrote."""
    if request.approval not in (0, 1):
        raise ModelRefused(f"approval: found {request.approval}; wanted 0 or 1, the number of approvals")
    if rows is None:
        return ModelRow(
            name=request.model, owner=by, created=now, request=request.request, approval=request.approval
        )
    if rows.row.request == request.request:
        return rows.row
    raise ModelRefused(
        f"the model {request.model} exists; {rows.row.owner} created it on {rows.row.created:%Y-%m-%d}; choose another "
        "name, or add a version to it"
    )


def choose_label(request: ModelRequest, rows: ModelRows) -> str:
    """Return the label of a new version, which must be free: the requested one, or v with the number."""
    label = request.version or f"v{rows.row.next}"
    model_names.check("label", label)
    taken = rows.find(label)
    if taken is None or taken.state is VersionState.REFUSED:
        return label
    raise ModelRefused(
        f"the label {label} of {request.model} is taken by version {taken.number}, which is {taken.state}; "
        "choose another label"
    )


def check_owner(rows: ModelRows, by: str, *, operator: bool) -> None:
    """Check that the user may move the aliases of the model and retire its versions."""
    if operator or by == rows.row.owner:
        return
    raise ModelRefused(
        f"{rows.row.name} belongs to {rows.row.owner}; only {rows.row.owner} or an operator moves its aliases and "
        f"retires its versions, and you are {by}"
    )


def move(request: ModelRequest, rows: ModelRows, by: str, now: datetime) -> Move | Wait:
    """Let the alias name the version, or record that the move waits for approval."""
    found = find_ready(request, rows)
    alias = request.alias or DEFAULT
    if rows.row.aliases.get(alias) == found.number:
        raise ModelRefused(f"{alias} of {request.model} names version {found.shown} already")
    return propose(rows, alias, found.number, by, now, request.request, "set-default")


def roll_back(request: ModelRequest, rows: ModelRows, by: str, now: datetime) -> Move:
    """Reverse the last move of the alias."""
    alias = request.alias or DEFAULT
    if alias not in rows.row.aliases:
        raise _unknown_alias(alias, rows)
    last = next((each for each in reversed(rows.moves) if each.alias == alias), None)
    if last is None or last.old is None:
        raise ModelRefused(
            f"{alias} of {request.model} has named no version other than {rows.row.aliases[alias]}, so there is none "
            "to return to"
        )
    before = rows.find(str(last.old))
    if before is None or before.state is not VersionState.READY:
        state = before.state if before else "missing"
        raise ModelRefused(
            f"{alias} of {request.model} named version {last.old} before, which is {state}; name another one with "
            f"{command_line('versions', 'set-default', 'LABEL', '--model', request.model)}"
        )
    return move_alias(rows, alias, before.number, by, now, request.request, "rollback")


def retire(request: ModelRequest, rows: ModelRows, by: str) -> VersionRow:
    """Return the row of a retired version. Its files stay."""
    found = rows.find(request.version)
    if found is None:
        raise _unknown_version(request.version, rows)
    if found.state is VersionState.MAKING:
        raise ModelRefused(f"version {found.shown} of {request.model} is being made; wait until it is ready")
    if found.state is VersionState.REFUSED:
        raise ModelRefused(
            f"version {found.shown} of {request.model} is refused, so it answers no requests anyway"
        )
    if names := rows.uses_of(found.number):
        raise ModelRefused(
            f"version {found.shown} of {request.model} answers as {any_of(names)}; move the alias to another version "
            "first"
        )
    return replace(found, state=VersionState.RETIRED, retired_by=found.retired_by or by)


def publish(rows: ModelRows, made: VersionRow, now: datetime) -> Move | Wait | None:
    """Let the alias of a new version name it, if its user owns the model."""
    if made.alias is None or made.by != rows.row.owner:
        return None
    return propose(rows, made.alias, made.number, made.by, now, made.request, "new version")


def find_ready(request: ModelRequest, rows: ModelRows) -> VersionRow:
    """Return the version that the request names, which must be ready."""
    found = rows.find(request.version)
    if found is None:
        raise _unknown_version(request.version, rows)
    return _check_ready(found, rows)


def find_named(word: str | None, rows: ModelRows) -> VersionRow:
    """Return the version with this alias, label or number, which must be ready. Without a word, it is the default."""
    model, word = rows.row.name, word or DEFAULT
    found = rows.find(str(rows.row.aliases.get(word, word)))
    if found:
        return _check_ready(found, rows)
    if word == DEFAULT:
        line = command_line("versions", "set-default", "VERSION", "--model", model)
        raise ModelRefused(f"{model} has no default version; choose one: {line}")
    known = [*rows.row.aliases, *(each.label for each in rows.versions)]
    there = f"it has {_name_some(known)}" if known else "it has no version"
    raise ModelRefused(f"{model} has no alias or version {word}; {there}{did_you_mean(word, known)}")


def _check_ready(found: VersionRow, rows: ModelRows) -> VersionRow:
    if found.state is VersionState.READY:
        return found
    reason = f": {found.reason}" if found.reason else ""
    raise ModelRefused(
        f"version {found.shown} of {rows.row.name} is {found.state}{reason}; name a version that is ready"
    )


def _unknown_version(word: str, rows: ModelRows) -> ModelRefused:
    known = [each.shown for each in rows.versions]
    there = f"it has {_name_some(known)}" if known else "it has no version"
    labels = [each.label for each in rows.versions]
    return ModelRefused(f"{rows.row.name} has no version {word}; {there}{did_you_mean(word, labels)}")


def _unknown_alias(alias: str, rows: ModelRows) -> ModelRefused:
    known = sorted(rows.row.aliases)
    there = f"it has {_name_some(known)}" if known else "it has no alias"
    return ModelRefused(f"{rows.row.name} has no alias {alias}; {there}{did_you_mean(alias, known)}")


def touch(rows: ModelRows) -> ModelRow:
    """Return the next row of the model, with one more write."""
    return replace(rows.row, version=rows.row.version + 1)


def cut(rows: ModelRows, request: str) -> ModelRow:
    """Return the next row of the model once the execution of the request has ended early. A call of Admit may still
    run. Its write is overtaken by this row, and then it finds the request in `cut`."""
    return replace(touch(rows), cut=(*rows.row.cut, request)[-MOST_CUT:])


def check_not_cut(request: ModelRequest, rows: ModelRows) -> None:
    """Check that the execution of the request has not ended."""
    if request.request in rows.row.cut:
        raise ModelRefused(f"the execution of {request.request} has ended, so nothing was changed")


def number(rows: ModelRows) -> ModelRow:
    """Return the next row of the model once its next version has its number."""
    return replace(touch(rows), next=rows.row.next + 1)


def propose(
    rows: ModelRows, alias: str, number: int, by: str, now: datetime, request: str, why: str
) -> Move | Wait:
    """Move the alias, or record that the move waits if the model needs approval."""
    if not rows.row.approval:
        return move_alias(rows, alias, number, by, now, request, why)
    pending = Pending(version=number, by=by, at=now, until=now + APPROVAL_TIME, request=request, why=why)
    row = replace(touch(rows), pending={**rows.row.pending, alias: pending})
    return Wait(row=row, alias=alias)


def move_alias(
    rows: ModelRows,
    alias: str,
    number: int,
    by: str,
    now: datetime,
    request: str,
    why: str,
    approved: str | None = None,
) -> Move:
    """Return the move of an alias. A move of `default` ends its canary, because the comparison is void then."""
    row = replace(touch(rows), aliases={**rows.row.aliases, alias: number}, pending=_without(rows, alias))
    if alias == DEFAULT:
        shadow = rows.row.shadow
        row = replace(row, canary=None, shadow=None if shadow and shadow.version == number else shadow)
    old = rows.row.aliases.get(alias)
    made = MoveRow(
        alias=alias, old=old, new=number, by=by, at=now, request=request, why=why, approved=approved
    )
    return Move(row=row, move=made)


def _without(rows: ModelRows, alias: str) -> dict[str, Pending]:
    return {name: each for name, each in rows.row.pending.items() if name != alias}


def approve(request: ModelRequest, rows: ModelRows, by: str, now: datetime) -> Move:
    """Carry out a move that waits for approval, for a user other than the requester."""
    alias, model = request.alias or DEFAULT, request.model
    pending = rows.row.pending.get(alias)
    if pending is None:
        waiting = any_of(sorted(rows.row.pending)) if rows.row.pending else "none"
        raise ModelRefused(f"no move of {alias} of {model} waits for approval; moves that wait: {waiting}")
    again = command_line("versions", "set-default", str(pending.version), "--model", model)
    if pending.by == by:
        raise ModelRefused(
            f"{by} requested that {alias} of {model} names version {pending.version}, and another user must approve "
            f"it; ask one to run {command_line('models', 'approve', model)}"
        )
    if now > pending.until:
        raise ModelRefused(
            f"the request of {pending.by} expired on {pending.until:%Y-%m-%d %H:%M} without an approval; request it "
            f"again: {again}"
        )
    found = rows.find(str(pending.version))
    if found is None or found.state is not VersionState.READY:
        state = found.state if found else "missing"
        raise ModelRefused(f"version {pending.version} of {model} is {state} now; name another one: {again}")
    return move_alias(
        rows, alias, pending.version, pending.by, now, request.request, pending.why, approved=by
    )


def _name_some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[-MOST_NAMED:]) + more
