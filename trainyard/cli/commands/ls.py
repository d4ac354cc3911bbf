"""List the newest runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.runs import MOST, enumerate_words
from trainyard.command_line import command_line
from trainyard.core.model import ends

if TYPE_CHECKING:
    from trainyard.client import ListedRun

AGO = re.compile(r"(\d+)([mhdw])")
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
USUAL = 25


class State(StrEnum):
    """A state that `--state` selects. A running run is starting, training, recovering or saving."""

    RUNNING = "running"
    WAITING = "waiting"
    FINISHED = "finished"
    FAILED = "failed"
    REFUSED = "refused"
    STOPPED = "stopped"


@command("trainyard ls", "trainyard ls --failed --since 7d", "trainyard ls -a -n 200 -o json")
def ls(
    options: Options,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also list bakes, snapshots, and dev hosts.")
    ] = False,
    number: Annotated[int, typer.Option("-n", help="Maximum number of rows.", min=1, max=MOST)] = USUAL,
    user: Annotated[str | None, typer.Option("--user", help="Show only runs of this user.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY[=VALUE]", help="Show only runs with this label."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="7d|DAY", help="Show only runs started since then.")
    ] = None,
    study: Annotated[
        str | None, typer.Option("--study", metavar="STUDY", help="List the trials of this study.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Show only failed and refused runs.")] = False,
    state: Annotated[
        State | None,
        typer.Option(
            "--state",
            metavar="STATE",
            show_choices=False,
            help=f"Show only runs in this state: {', '.join(State)}.",
        ),
    ] = None,
) -> None:
    """List the newest runs and studies. A study is one line; --study lists its trials.

    An unknown user or label is an error. An empty list for another reason is not.
    """
    from dataclasses import asdict

    from trainyard.cli import runs
    from trainyard.cli.output import terminal

    now = datetime.now(UTC)
    chosen, yard = bool(user or label or failed or state or study), options.find()
    window: dict[str, Any] = {
        "since": moment(since, now) if since else None,
        "kind": None if everything else ("train", "study"),
    }
    study_id = runs.find(yard, study).id if study else None
    found = yard.list(
        **window,
        limit=number,
        wanted=lambda run: (
            run.study == study_id and is_selected(run, user, label or [], failed=failed, state=state)
        ),
    )
    if not found and (user or label):
        check_known(yard.list(**window, limit=MOST), user, label or [])
    if options.is_json:
        terminal.answer([asdict(run) for run in found])
        return
    terminal.table(columns(), [row(run, now) for run in found], [style(run) for run in found])
    if not found and (chosen or since) and not options.quiet:
        terminal.hint("No run matches.")
    elif not found and not options.quiet:
        terminal.hint(f"No runs. Next: {command_line('submit', 'JOB')}")


def moment(text: str, now: datetime) -> datetime:
    """Parse a duration before `now`, such as `12h` or `7d`, or a day. Raises BadParameter."""
    if found := AGO.fullmatch(text):
        return now - timedelta(**{UNITS[found[2]]: int(found[1])})
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"--since takes a duration like 12h, 7d or 2w, or a day like 2026-11-01, not {text!r}"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def is_selected(
    run: ListedRun, user: str | None, labels: Sequence[str], *, failed: bool, state: str | None = None
) -> bool:
    """Return True if the run has the user, the labels and the state."""
    if user and run.submitter != user:
        return False
    if failed and run.outcome in (None, "succeeded"):
        return False
    if state and state != name_state(run):
        return False
    return all(_has(run.labels, label) for label in labels)


def name_state(run: ListedRun) -> str:
    """Return the state of a run as `--state` names it."""
    if run.outcome:
        return ends.WORDS[run.outcome].lower()
    return State.WAITING if run.waiting else State.RUNNING


def check_known(listed: Sequence[ListedRun], user: str | None, labels: Sequence[str]) -> None:
    """Raise NothingFound if no run has the user or the label. The error lists the known ones."""
    from trainyard.client.errors import NothingFound

    users = sorted({run.submitter for run in listed if run.submitter})
    known = sorted({f"{key}={value}" for run in listed for key, value in run.labels.items()})
    if user and user not in users:
        raise NothingFound(
            f"{user} has submitted no run",
            f"the users with runs are {enumerate_words(users)}",
            command_line("ls"),
        )
    for label in labels:
        if not any(_has(run.labels, label) for run in listed):
            raise NothingFound(
                f"no run has the label {label}",
                f"the labels are {enumerate_words(known)}",
                command_line("ls"),
            )


def _has(known: Mapping[str, str], label: str) -> bool:
    key, sign, value = label.partition("=")
    return known.get(key) == value if sign else key in known


def columns() -> tuple[Any, ...]:
    from trainyard.cli.output.terminal import Column

    return (
        Column("RUN"),
        Column("STATE"),
        Column("STEP", 3, right=True),
        Column("LOSS", 2, right=True),
        Column("POOL", 5),
        Column("AGE", 1, right=True),
        Column("$", 4, right=True),
        Column("USER", 6),
    )


def row(run: ListedRun, now: datetime) -> tuple[str, ...]:
    from trainyard.values import floats
    from trainyard.values.quantities import dollars, span

    progress, search = run.progress, run.search
    money = (
        dollars(search.dollars)
        if search
        else (
            dollars(run.dollars)
            if run.dollars is not None
            else f"{dollars(run.price)}/h"
            if run.price
            else ""
        )
    )
    return (
        run.id,
        run.word,
        f"{search.reported}/{search.trials}" if search else progress.format_steps() if progress else "",
        floats.format_float(progress.loss, ".4g") if progress and progress.loss is not None else "",
        run.pool or "",
        span((now - run.created).total_seconds()),
        money,
        run.submitter or "",
    )


def style(run: ListedRun) -> str:
    styles = {"succeeded": "green", "failed": "red", "refused": "red", "stopped": "yellow"}
    if run.but:
        return "yellow"
    return styles.get(run.outcome or "", "" if run.outcome else "bold")
