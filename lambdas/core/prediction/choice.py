"""Refusals of requests for versions that do not exist or cannot answer."""

from collections.abc import Iterable

from trainyard.command_line import command_line
from trainyard.core.prediction.http import HostNeededError, RefusedError, Status
from trainyard.protocol.export import Conversion
from trainyard.protocol.ledger.models import DEFAULT, ModelRow, VersionRow, VersionState
from trainyard.values.validation import did_you_mean

MOST_BYTES = 600 * 2**20
"""The most bytes of models that a process of the function keeps."""
ROW_SECONDS = 5.0
"""How long a process uses the row of a model or a version before it reads the row again."""


def unknown_model(model: str, known: Iterable[str]) -> RefusedError:
    names = [*known]
    return RefusedError(
        Status.NOT_FOUND,
        f"the yard has no model {model}; it has {_list(names)}{did_you_mean(model, names)}",
    )


def number_of(row: ModelRow, alias: str) -> int:
    """Return the version that the alias names. Raises RefusedError."""
    if alias in row.aliases:
        return row.aliases[alias]
    if alias == DEFAULT:
        line = command_line("versions", "set-default", "VERSION", "--model", row.name)
        raise RefusedError(
            Status.NOT_FOUND, f"{row.name} has no default version. Name a version, or choose one: {line}"
        )
    raise RefusedError(
        Status.NOT_FOUND, f"{row.name} has no alias {alias}; there are {_list([*row.aliases])}"
    )


def find(rows: Iterable[VersionRow], label: str) -> VersionRow | None:
    """Return the version with this label. A refused version leaves its label to a later one."""
    named = [each for each in rows if each.label == label]
    usable = [each for each in named if each.state is not VersionState.REFUSED]
    return next(reversed(usable or named), None)


def unknown_version(model: str, version: str, rows: Iterable[VersionRow]) -> RefusedError:
    shown = _list([each.shown for each in rows])
    return RefusedError(Status.NOT_FOUND, f"{model} has no version {version}; there are {shown}")


def check_ready(model: str, row: VersionRow, *, for_golden: bool = False) -> None:
    """Raise RefusedError if the version may not answer. Golden rows are answered before it is ready."""
    if row.state is VersionState.READY or (for_golden and row.state is VersionState.MAKING):
        return
    why = f": {row.reason}" if row.reason else ""
    line = command_line("models", "show", model)
    raise RefusedError(
        Status.NOT_READY,
        f"version {row.shown} of {model} is {row.state}{why}. Choose another version: {line}",
    )


def check_runs_here(model: str, number: int, how: Conversion, reason: str | None) -> None:
    """Raise RefusedError if LiteRT cannot run the version."""
    if how is Conversion.NONE:
        raise HostNeededError(
            number,
            f"version {number} of {model} needs a host with TensorFlow ({reason or 'it was not converted'}), and the "
            f"function runs only what LiteRT can. {command_line('serve', model)} starts such a host",
        )


def check_memory(model: str, number: int, size: int) -> None:
    """Raise RefusedError if a version is too large for the function."""
    if size > MOST_BYTES:
        raise RefusedError(
            Status.NO_MEMORY,
            f"version {number} of {model} has {size >> 20} MiB, and predict keeps at most {MOST_BYTES >> 20}. "
            f"{command_line('serve', model)} starts a host for it",
        )


def _list(names: list[str]) -> str:
    return ", ".join(sorted(names)) or "none"
