"""Invariants of models: what a version is, what an alias names, and that each request gets one answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lambdas.core.prediction.choice import ROW_SECONDS
from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item
from simulation.aws.stepfunctions import Execution, Status
from simulation.exports import StandIn, digest_of
from simulation.faults import EventFault, PersonFault
from simulation.invariants.model import Invariant
from trainyard.core.prediction.agreement import find_difference
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN, LITE_MODEL, Conversion, Golden
from trainyard.protocol.ledger.models import DEFAULT, ModelRows, VersionRow, VersionState
from trainyard.protocol.predictions import VERSION_HEADER
from trainyard.protocol.requests import Act
from trainyard.values import serialization

if TYPE_CHECKING:
    from simulation.scenarios import Scenario
    from simulation.yard import Yard

PARTITION = "model#"
RESENT = (EventFault.LOST, EventFault.LATE, EventFault.VERY_LATE, EventFault.MUCH_TOO_LATE, EventFault.STORM)
"""Faults after which a user may send a request twice, so that the second one is rightly refused."""
USABLE = (VersionState.READY, VersionState.RETIRED)
MOVES = (Act.MOVE, Act.ROLLBACK)
Breaks = Callable[[Invariant, str], None]


def is_request(execution: Execution) -> bool:
    """Return True for an execution that changes a model."""
    return execution.machine.name.endswith("-version")


@dataclass
class Models:
    """Watches the models of a yard."""

    yard: Yard
    breaks: Breaks
    defaults: list[tuple[datetime, int]] = field(default_factory=list)
    """The versions that `default` named, with the time of each move."""

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
        default = rows.row.aliases.get(DEFAULT)
        if default is not None and (not self.defaults or self.defaults[-1][1] != default):
            self.defaults.append((self.yard.world.now, default))
        if key[1].startswith("version#"):
            row = next(each for each in rows.versions if f"{each.number:05d}" == key[1][-5:])
            if row.state is VersionState.READY and (wrong := _find_unfounded(self.yard, rows.row.name, row)):
                self.breaks(Invariant.VERSIONS, f"{key[0]}: version {row.shown} is ready, but {wrong}")

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
        for execution in filter(is_request, self.yard.runs()):
            self._check_answer(execution, models, is_survived=is_survived)
        self._check_predictions()
        if is_survived:
            self._check_expected(scenario, models)

    def _all_rows(self) -> dict[str, ModelRows | None]:
        listed = [str(row["sk"]) for row in self.yard.rows("models")]
        return {name: ModelRows.of(self.yard.rows(f"{PARTITION}{name}")) for name in listed}

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
        moves = [each for each in rows.moves if each.request == execution.name] if rows else []
        well = execution.status is Status.SUCCEEDED
        was_stopped = any(fault.what == PersonFault.STOPS_IT for fault in self.yard.plan.all_faults)
        if len(moves) > 1:
            self.breaks(Invariant.ONE_END, f"{execution.name} has moved an alias {len(moves)} times")
        if act is Act.VERSION and not was_stopped and well != (made is not None and made.state in USABLE):
            state = made.state if made else "missing"
            self.breaks(
                Invariant.ONE_END, f"{execution.name} is {execution.status}, but its version is {state}"
            )
        if act in MOVES and not was_stopped and well != (len(moves) == 1):
            self.breaks(
                Invariant.ONE_END,
                f"{execution.name} is {execution.status}, but has moved an alias {len(moves)} times",
            )
        if well or not is_survived:
            return
        resent = any(fault.what in RESENT for fault in self.yard.plan.all_faults)
        if not (resent and execution.error == "ModelRefused"):
            self.breaks(
                Invariant.SURVIVES,
                f"{execution.name} ({act}) is {execution.status} as {execution.error}, although only infrastructure "
                f"failed: {str(execution.cause)[:300]}",
            )

    def _check_predictions(self) -> None:
        """Check that each prediction came from a version that was the default a moment before."""
        for each in self.yard.model_users.predicted:
            if each.answer.get("statusCode") != 200:
                continue
            version = int(each.answer["headers"][VERSION_HEADER])
            begin = each.asked - timedelta(seconds=ROW_SECONDS)
            if version not in self._defaults_between(begin, each.answered):
                self.breaks(
                    Invariant.VERSIONS,
                    f"version {version} answered a request of {each.asked}, when it was not the default",
                )

    def _defaults_between(self, begin: datetime, end: datetime) -> set[int]:
        before = [number for at, number in self.defaults if at <= begin]
        return {*before[-1:], *(number for at, number in self.defaults if begin <= at <= end)}

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
        if scenario.default and scenario.default not in named:
            self.breaks(
                Invariant.SURVIVES, f"default names version {named}, and should name {scenario.default}"
            )


def _contradictions(rows: ModelRows) -> Iterator[str]:
    """Yield each contradiction between the rows of a model."""
    by_number = {each.number: each for each in rows.versions}
    for alias, number in rows.row.aliases.items():
        named = by_number.get(number)
        if named is None or named.state is not VersionState.READY:
            yield f"{alias} names version {number}, which is {named.state if named else 'missing'}"
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
