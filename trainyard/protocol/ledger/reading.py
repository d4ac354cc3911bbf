"""Read rows of the ledger as their classes, or refuse them by name."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from trainyard.protocol.ledger.attempt import AttemptRow, TokenRow, WaitRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.launch_request import LaunchRequestRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.plan import Plan
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

Row = TypeVar("Row")
ROWS: Mapping[str, tuple[type, tuple[str, ...], str]] = {
    "host": (HostRow, ("instance",), "launched"),
    "attempt": (AttemptRow, ("attempt",), "launched"),
    "launch-request": (LaunchRequestRow, ("attempt", "candidate", "round"), "token"),
    "token": (TokenRow, ("attempt", "wait"), "token"),
    "wait": (WaitRow, ("attempt", "wait"), "since"),
}
"""The class, the fields in the sort key, and an attribute that every row of the class has, by the first word of the
sort key. A late update can write a part of a deleted row again; such a part lacks the attribute."""

FORMERLY = {"intent": "launch-request"}
"""Words that the last version wrote, with today's words."""


class UnreadableRowError(ValueError):
    """A row lacks a field, or has a field of a wrong type."""


@dataclass(frozen=True)
class RunRows:
    """All rows of a run, without its timeline."""

    run: RunRow | None
    """None before Admit has written the run."""
    planned: Mapping[str, Any] | None = None
    """The unparsed row of the plan. It is the largest row, and few readers need it."""
    hosts: Mapping[str, HostRow] = field(default_factory=dict)
    """The hosts by instance."""
    attempts: Mapping[int, AttemptRow] = field(default_factory=dict)
    launch_requests: tuple[LaunchRequestRow, ...] = ()
    tokens: Mapping[tuple[int, str], TokenRow] = field(default_factory=dict)
    """The tokens by attempt and wait."""
    waits: Mapping[tuple[int, str], WaitRow] = field(default_factory=dict)
    """The waits by attempt and wait."""

    @property
    def plan(self) -> Plan | None:
        """Return the plan, or None before the run has one."""
        return None if self.planned is None else read(Plan, self.planned)


def read(model: type[Row], row: Mapping[str, Any], **key: Any) -> Row:
    """Return the row with the fields of its key. Raise UnreadableRowError with each fault."""
    try:
        return serialization.from_json(model, {**row, **key} if key else row)
    except (TypeError, ValueError, AttributeError) as error:
        found = {name: serialization.to_json(value) for name, value in row.items()} | key
        faults = "; ".join(serialization.faults(model, found)) or str(error)
        raise UnreadableRowError(
            f"The ledger's row {row.get('pk', '')} {row.get('sk', '')} cannot be read as {model.__name__}: {faults}"
        ) from error


def run_of(row: Mapping[str, Any]) -> RunRow:
    """Return the row of a run, which may come from the index of runs."""
    return read(RunRow, row, run=str(row["pk"]).removeprefix("run#"))


def kind_of(row: Mapping[str, Any]) -> str:
    """Return the first word of the sort key, as today's version writes it."""
    word = str(row["sk"]).partition("#")[0]
    return FORMERLY.get(word, word)


def read_one(row: Mapping[str, Any]) -> Any:
    """Return a row of the class that its sort key names. The row of the run itself and its plan are not allowed."""
    _, *words = str(row["sk"]).split("#")
    kind = kind_of(row)
    model, names, _ = ROWS[kind]
    if len(words) != len(names):
        raise UnreadableRowError(
            f"The key {row['sk']} of the ledger does not have the fields {', '.join(names)}."
        )
    return read(model, row, **dict(zip(names, map(_number, words), strict=True)))


def read_all(run: str, rows: Iterable[Mapping[str, Any]]) -> RunRows:
    """Return the rows of a run by their kind. Rows of unknown kinds and pieces of deleted rows are left out."""
    own: RunRow | None = None
    planned: Mapping[str, Any] | None = None
    found: dict[str, dict[Any, Any]] = {kind: {} for kind in ROWS}
    for row in rows:
        kind = kind_of(row)
        if (
            kind == "run" and "created" in row
        ):  # A row without `created` is a part of a deleted row (see ROWS).
            own = read(RunRow, row, run=run)
        elif kind == "plan":
            planned = row
        elif kind in ROWS and ROWS[kind][2] in row:
            model = read_one(row)
            key = tuple(getattr(model, name) for name in ROWS[kind][1])
            found[kind][key if len(key) > 1 else key[0]] = model
    return RunRows(
        own,
        planned,
        hosts=found["host"],
        attempts=found["attempt"],
        launch_requests=tuple(found["launch-request"].values()),
        tokens=found["token"],
        waits=found["wait"],
    )


def _number(word: str) -> str | int:
    return int(word) if word.isdigit() else word
