"""Show the cost of a month's runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.runs import MOST, enumerate_words
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client import ListedRun
    from trainyard.client.inventory.overview import Budget

BAR = 30
PARTS = ("job", "user", "day")
BUDGET = ("counted", "monthly", "counted_at", "promised", "left")


@command(
    "trainyard cost",
    "trainyard cost --month 2026-10 --by user",
    "trainyard cost --by team",
    "trainyard cost --study digits --by day",
)
def cost(
    options: Options,
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="Month to show. Default: this month.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="job|user|day|LABEL", help="How to group the costs.")
    ] = "job",
    study: Annotated[
        str | None, typer.Option("--study", metavar="STUDY", help="Show only the trials of this study.")
    ] = None,
) -> None:
    """Show the cost of a month's runs, and the budget.

    Includes the savings by spot and the rest of the budget. For runs that have not ended, only the total includes the
    amount that patrol has counted. The cost of a study is the cost of its trials.
    """
    from dataclasses import asdict

    from trainyard.cli import runs as known_runs
    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.inventory import overview
    from trainyard.client.runs.spending import list_billed, sum_by
    from trainyard.values.quantities import dollars, format_count

    now = datetime.now(UTC)
    begin = month_of(month, now)
    end = (begin + timedelta(days=31)).replace(day=1)
    yard = options.find()
    study_id = known_runs.find(yard, study).id if study else None
    listed = list_billed(yard.list(since=begin, limit=MOST))
    runs = [run for run in listed if run.created < end and study_id in (None, run.study)]
    check_parts(runs, by)
    sums = sum_by(runs, by)
    budget = overview.budget_of(yard) if begin <= now < end else None
    if options.is_json:
        parts = [
            {
                "of": each.of,
                "runs": each.runs,
                "dollars": round(each.dollars, 6),
                "saved": round(each.saved, 6),
            }
            for each in sums
        ]
        known = asdict(budget) | {"left": budget.remaining} if budget else dict.fromkeys(BUDGET)
        terminal.answer({"month": f"{begin:%Y-%m}", "by": by, "parts": parts, **known})
        return
    most = max((each.dollars for each in sums), default=0.0) or 1.0
    rows = [
        (
            each.of,
            str(each.runs),
            dollars(each.dollars),
            dollars(each.saved),
            "█" * round(each.dollars / most * BAR),
        )
        for each in sums
    ]
    numbers = (Column("RUNS", 1, right=True), Column("$", right=True), Column("SAVED", 2, right=True))
    terminal.table((Column(by.upper()), *numbers, Column("", 3)), rows)
    total, saved = (sum(getattr(each, word) for each in sums) for word in ("dollars", "saved"))
    what = format_count(len(runs), "trial" if study else "run")
    summary = f"{dollars(total)} for {what}{f' of {study_id}' if study else ''} started in {begin:%B %Y}"
    terminal.console.print(f"{summary}; on demand {dollars(total + saved)}", markup=False)
    if budget and not study and not options.quiet:
        terminal.note(format_month(budget))


def format_month(budget: Budget) -> str:
    """Return the cost of all hosts of the month by patrol's last count. It may lag behind the bill of a short run."""
    from trainyard.values.quantities import dollars

    at = f" (counted at {budget.counted_at:%H:%M:%S} UTC)" if budget.counted_at else ""
    spent = f"All hosts of this month, including running ones: {dollars(budget.counted)}"
    return f"{spent}{format_remaining(budget)}{at}"


def format_remaining(budget: Budget) -> str:
    from trainyard.core.model.yard import promises
    from trainyard.values.quantities import dollars

    if budget.monthly is None:
        return "; the yard has no monthly budget (-c monthly_dollars)"
    also = f", {promises.describe_promises(budget.promised)} are promised" if budget.promised else ""
    left = dollars(budget.remaining or 0)
    return f" of {dollars(budget.monthly)}{also}; {left} left before new runs are refused"


def month_of(text: str | None, now: datetime) -> datetime:
    """Return the beginning of the month. Raises BadParameter."""
    try:
        found = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC) if text else now
    except ValueError:
        raise typer.BadParameter(f"--month takes a month like 2026-11, not {text!r}") from None
    return found.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def check_parts(runs: Sequence[ListedRun], by: str) -> None:
    """Raise NothingFound if `by` is a label that no run has."""
    from trainyard.client.errors import NothingFound

    labels = sorted({key for run in runs for key in run.labels})
    if runs and by not in (*PARTS, *labels):
        raise NothingFound(
            f"no run of this month has the label {by}",
            f"--by takes {', '.join(PARTS)}, or a label: {enumerate_words(labels)}",
            command_line("cost", "--by", "job"),
        )
