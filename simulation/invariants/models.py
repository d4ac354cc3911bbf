"""Invariants of models: what a version is, what an alias names, and that each request gets one answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from lambdas.core.models.canary import PATROL
from lambdas.core.prediction.choice import ROW_SECONDS
from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item
from simulation.aws.stepfunctions import Execution, Status
from simulation.exports import TYPES, StandIn, digest_of
from simulation.faults import EventFault, PersonFault
from simulation.invariants.model import Invariant
from simulation.yard.models import MODEL, MOST_SUM, Predicted
from trainyard.core.prediction.agreement import find_difference
from trainyard.protocol import conversions, keys
from trainyard.protocol.export import GOLDEN, LITE_MODEL, Conversion, Golden
from trainyard.protocol.ledger.models import (
    CANARY,
    DEFAULT,
    SHADOW,
    ModelRows,
    MoveRow,
    VersionRow,
    VersionState,
)
from trainyard.protocol.predictions import VERSION_HEADER
from trainyard.protocol.requests import Act
from trainyard.values import serialization

if TYPE_CHECKING:
    from simulation.scenario import Scenario
    from simulation.yard import Yard

PARTITION = "model#"
RESENT = (EventFault.LOST, EventFault.LATE, EventFault.VERY_LATE, EventFault.MUCH_TOO_LATE, EventFault.STORM)
"""Faults after which a user may send a request twice, so that the second one is rightly refused."""
USABLE = (VersionState.READY, VersionState.RETIRED)
MOVES = (Act.MOVE, Act.ROLLBACK, Act.APPROVE)
OK = 200
EXPECTED = (404, 500)
"""The statuses before there is a default, and of a version with a fault."""
ROLLBACK = "rollback"
PREPARES_FOR_NOTHING = timedelta(minutes=10)
"""The longest time for which a run may prepare a version whose request has ended."""
Value = TypeVar("Value")
Breaks = Callable[[Invariant, str], None]


def is_request(execution: Execution) -> bool:
    """Return True for an execution that changes a model."""
    return execution.machine.name.endswith("-version")


@dataclass
class Models:
    """Watches the models of a yard."""

    yard: Yard
    breaks: Breaks
    answering: list[tuple[datetime, frozenset[int]]] = field(default_factory=list)
    """The versions that may answer requests to the default: the default and its canary, with the time of each
    change."""
    states: dict[int, list[tuple[datetime, VersionState]]] = field(default_factory=dict)
    """The states of each version, with the time of each change."""

    def look(self, key: Key, after: Item | None) -> None:
        """Check a write to the rows of a model."""
        if not key[0].startswith(PARTITION) or after is None:
            return
        rows = ModelRows.of(self.yard.rows(key[0]))
        if rows is None:
            self.breaks(Invariant.VERSIONS, f"{key} is written, but the model does not exist")
            return
        for each in _contradictions(rows):
            self.breaks(Invariant.VERSIONS, f"{key[0]}: {each}")
        canary, now = rows.row.canary, self.yard.world.now
        named = {rows.row.aliases.get(DEFAULT), canary.version if canary else None}
        _note(self.answering, now, frozenset(each for each in named if each is not None))
        for version in rows.versions:
            _note(self.states.setdefault(version.number, []), now, version.state)
        if key[1].startswith("version#"):
            row = next(each for each in rows.versions if f"{each.number:05d}" == key[1][-5:])
            if row.state is VersionState.READY and (wrong := _find_unfounded(self.yard, rows.row.name, row)):
                self.breaks(Invariant.VERSIONS, f"{key[0]}: version {row.shown} is ready, but {wrong}")

    def states_at(self, version: int, at: datetime) -> list[VersionState]:
        """Return the state of a version at a time."""
        return _values_between(self.states.get(version, []), at, at)

    def conclude(self, scenario: Scenario, *, is_survived: bool) -> None:
        """Check all requests, predictions and versions at the end."""
        models = {key: rows for key, rows in self._all_rows().items() if rows}
        for name, rows in models.items():
            for each in rows.versions:
                if each.state is VersionState.MAKING:
                    self.breaks(
                        Invariant.VERSIONS,
                        f"version {each.shown} of {name} is in making, but nothing makes it",
                    )
        for run in self.yard.runs():
            if wrong := self._find_lonely(run, models):
                self.breaks(Invariant.NO_ORPHAN, wrong)
        for execution in filter(is_request, self.yard.runs()):
            self._check_answer(execution, models, is_survived=is_survived)
        for made in self.yard.model_users.predicted:
            if wrong := self._find_wrong(made):
                self.breaks(Invariant.VERSIONS, f"a request of {made.asked}: {wrong}")
        if is_survived:
            self._check_expected(scenario, models)

    def _all_rows(self) -> dict[str, ModelRows | None]:
        listed = [str(row["sk"]) for row in self.yard.rows("models")]
        return {name: ModelRows.of(self.yard.rows(f"{PARTITION}{name}")) for name in listed}

    def _find_lonely(self, run: Execution, models: Mapping[str, ModelRows]) -> str | None:
        """Return what is wrong with a run that prepares a version: no version, or a run that outlives it."""
        request = conversions.request_of(run.name)
        if request is None:
            return None
        if not any(rows.made_by(request) for rows in models.values()):
            return f"{run.name} prepares no version"
        ended = [each.stopped for each in self.yard.runs() if each.name == request]
        after = (
            (run.stopped or self.yard.world.now) - (ended[0] or self.yard.world.now) if ended else timedelta()
        )
        return f"{run.name} ended {after} after its version" if after > PREPARES_FOR_NOTHING else None

    def _check_answer(
        self, execution: Execution, models: Mapping[str, ModelRows], *, is_survived: bool
    ) -> None:
        """Check that the end of an execution says what happened to the model."""
        if execution.status is Status.RUNNING:
            self.breaks(Invariant.ENDS_IN_TIME, f"{execution.name} is still in {execution.at}")
            return
        given = json.loads(execution.input)["request"]
        rows, act = models.get(given["model"]), Act(given["act"])
        made = rows.made_by(execution.name) if rows else None
        # patrol records the end of a canary under the request for it
        moves = [
            each
            for each in (rows.moves if rows else ())
            if each.request == execution.name and each.by != PATROL
        ]
        well = execution.status is Status.SUCCEEDED
        was_stopped = any(fault.what == PersonFault.STOPS_IT for fault in self.yard.plan.all_faults)
        if self.yard.model_users.is_to_be_refused(execution.name):
            if well:
                self.breaks(Invariant.VERSIONS, f"{execution.name} ({act}) was not refused")
            return
        if len(moves) > 1:
            self.breaks(Invariant.ONE_END, f"{execution.name} has moved an alias {len(moves)} times")
        is_made = made is not None and (made.state in USABLE or _is_refused_by_host(rows, made))
        if act is Act.VERSION and not was_stopped and well != is_made:
            state = made.state if made else "missing"
            self.breaks(
                Invariant.ONE_END, f"{execution.name} is {execution.status}, but its version is {state}"
            )
        if act in MOVES and not was_stopped and well != (len(moves) == 1):
            self.breaks(
                Invariant.ONE_END,
                f"{execution.name} is {execution.status}, but has moved an alias {len(moves)} times",
            )
        may_be_refused = self.yard.model_users.may_be_refused(execution.name)
        if well or not is_survived or (may_be_refused and execution.error == "ModelRefused"):
            return
        resent = any(fault.what in RESENT for fault in self.yard.plan.all_faults)
        if not (resent and execution.error == "ModelRefused"):
            self.breaks(
                Invariant.SURVIVES,
                f"{execution.name} ({act}) is {execution.status} as {execution.error}, although only infrastructure "
                f"failed: {str(execution.cause)[:300]}",
            )

    def _find_wrong(self, made: Predicted) -> str | None:
        """Return what is wrong with a prediction: its version, its values, or a failure without a fault."""
        status = made.answer.get("statusCode")
        if status != OK:
            is_expected = status in EXPECTED and self._may_fail(made)
            return None if self.yard.plan.all_faults or is_expected else f"it was answered by {made.answer}"
        version, begin = (
            int(made.answer["headers"][VERSION_HEADER]),
            made.asked - timedelta(seconds=ROW_SECONDS),
        )
        if version not in frozenset().union(*_values_between(self.answering, begin, made.answered)):
            return f"version {version} answered, and was neither the default nor its canary"
        if VersionState.READY not in _values_between(self.states[version], begin, made.answered):
            return f"version {version} answered, and was not ready"
        return self._find_difference(version, made)

    def _may_fail(self, made: Predicted) -> bool:
        """Return True before there is a default, and for rows that a version with a fault cannot compute."""
        has_default = any(_values_between(self.answering, made.asked, made.asked))
        return not has_default or sum(made.rows[0]) > MOST_SUM

    def _find_difference(self, version: int, made: Predicted) -> str | None:
        content = self.yard.s3.body(self.yard.bucket, f"{keys.version(MODEL, version)}{LITE_MODEL}") or b""
        expected = StandIn(content).answer("", TYPES, {"x": made.rows})["y"]
        found = json.loads(made.answer["body"])["predictions"]
        return None if found == expected else f"version {version} answered {found}, and not {expected}"

    def _check_expected(self, scenario: Scenario, models: Mapping[str, ModelRows]) -> None:
        """Check that the versions of the scenario exist, and that each run got the version that its job requests."""
        ready = {
            each.label
            for rows in models.values()
            for each in rows.versions
            if each.state is VersionState.READY
        }
        if missing := scenario.versions - ready:
            self.breaks(Invariant.SURVIVES, f"no version {', '.join(sorted(missing))} is ready")
        named = [rows.row.aliases.get(DEFAULT) for rows in models.values()]
        # the default of a job that is uploaded again is its second version
        is_once = all(fault.what != PersonFault.UPLOADS_AGAIN for fault in self.yard.plan.all_faults)
        if scenario.default and scenario.default not in named and is_once:
            self.breaks(
                Invariant.SURVIVES, f"default names version {named}, and should name {scenario.default}"
            )
        if scenario.rolled_back and not any(
            _is_rolled_back(each, scenario.rolled_back) for rows in models.values() for each in rows.moves
        ):
            self.breaks(
                Invariant.SURVIVES,
                f"patrol has not rolled back the canary {scenario.rolled_back} with the figures of both versions",
            )


def _is_rolled_back(move: MoveRow, version: int) -> bool:
    """Return True for patrol's rollback of this canary, if its reason has the figures of both versions."""
    both = (f"version {version} failed", f"version {move.new} failed")
    return (move.alias, move.old, move.by) == (CANARY, version, PATROL) and all(
        each in move.why for each in both
    )


def _note(values: list[tuple[datetime, Value]], now: datetime, value: Value) -> None:
    if not values or values[-1][1] != value:
        values.append((now, value))


def _values_between(values: Sequence[tuple[datetime, Value]], begin: datetime, end: datetime) -> list[Value]:
    """Return the values at any time from `begin` to `end`."""
    before = [value for at, value in values if at <= begin]
    return [*before[-1:], *(value for at, value in values if begin < at <= end)]


def _is_refused_by_host(rows: ModelRows | None, version: VersionRow) -> bool:
    """Return True for a version that was ready until its first host refused it."""
    return (
        version.state is VersionState.REFUSED
        and rows is not None
        and rows.served_as(version.number) is not None
    )


def _contradictions(rows: ModelRows) -> Iterator[str]:
    """Yield each contradiction between the rows of a model."""
    by_number = {each.number: each for each in rows.versions}
    for alias, number in rows.row.aliases.items():
        named = by_number.get(number)
        if named is None or not (named.state is VersionState.READY or _is_refused_by_host(rows, named)):
            yield f"{alias} names version {number}, which is {named.state if named else 'missing'}"
    for move in rows.moves if rows.row.approval else ():
        if move.why != ROLLBACK and move.alias not in (CANARY, SHADOW) and move.approved in (None, move.by):
            yield f"{move.alias} moved to version {move.new} without the approval of another user"
    usable = [each.label for each in rows.versions if each.state is not VersionState.REFUSED]
    yield from (f"two versions have the label {label}" for label in {*usable} if usable.count(label) > 1)
    if by_number and rows.row.next <= max(by_number):
        yield f"version {max(by_number)} exists, but the next number is {rows.row.next}"


def _find_unfounded(yard: Yard, model: str, row: VersionRow) -> str | None:
    """Return how the files of a ready version contradict its row or its golden rows; None if they do not."""
    folder = keys.version(model, row.number)
    bodies = {
        key.removeprefix(folder): yard.s3.body(yard.bucket, key) or b""
        for key in yard.s3.keys(yard.bucket, folder)
    }
    source = row.origin.removeprefix(f"s3://{yard.bucket}/")
    wanted = {key.removeprefix(source) for key in yard.s3.keys(yard.bucket, source)}
    if {path: digest_of(body) for path, body in bodies.items()} != row.manifest:
        return f"its folder has {sorted(bodies)} and its manifest names {sorted(row.manifest)}, or digests differ"
    if not wanted <= bodies.keys():
        return f"it lacks {sorted(wanted - bodies.keys())}"
    if row.lite is Conversion.NONE:
        return None
    golden = serialization.from_json(Golden, json.loads(bodies[GOLDEN]))
    for name, expected in golden.signatures.items():
        answers = StandIn(bodies[LITE_MODEL]).answer(name, row.signatures[name], expected.inputs)
        if difference := find_difference(expected.tensorflow, answers):
            return f"it differs from its golden rows: {difference}"
    return None
