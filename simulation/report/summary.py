"""The results of a campaign as numbers, for the terminal and the page."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from simulation import detection
from simulation.cases.case import Case, Finding, Group
from simulation.detection import Row, Visibility
from simulation.scenarios import NAMED

MOST_GROUPS = 30
"""The most groups in the terminal. The page has all."""


@dataclass(frozen=True)
class Count:
    """All worlds of a scenario with one kind of fault."""

    scenario: str
    kind: str
    worlds: int
    injected: int
    """Worlds that reached all of their faults."""
    broken: int
    recoveries: int
    median: float
    """The median of virtual seconds to the end."""
    cpu: float

    @property
    def held(self) -> int:
        return self.worlds - self.broken


def counts(findings: Iterable[Finding]) -> list[Count]:
    """Return a row for each scenario and kind, in the order of the scenarios."""
    by_kind: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault((finding.case.scenario, kind_of(finding)), []).append(finding)
    order = list(NAMED)
    return [
        _count(scenario, kind, found)
        for (scenario, kind), found in sorted(
            by_kind.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
        )
    ]


def kind_of(finding: Finding) -> str:
    faults = finding.case.faults
    if len(faults) == 1:
        return str(faults[0].kind)
    return f"{len(faults)} faults" if faults else "clean"


def _count(scenario: str, kind: str, findings: Sequence[Finding]) -> Count:
    return Count(
        scenario,
        kind,
        len(findings),
        sum(len(each.injected) == len(each.case.faults) for each in findings),
        sum(bool(each.violations) for each in findings),
        sum(each.recoveries for each in findings),
        statistics.median(each.seconds for each in findings),
        sum(each.cpu for each in findings),
    )


def count_table(rows: Sequence[Count]) -> Table:
    """Return the table at the end of a campaign."""
    table = Table(
        title="Results by scenario and kind of fault", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("scenario")
    table.add_column("kind of fault")
    for name in ("worlds", "all injected", "held", "broken", "recoveries", "median s"):
        table.add_column(name, justify="right")
    before = ""
    for row in rows:
        broken = Text(str(row.broken), style="bold red" if row.broken else "")
        name, before = (row.scenario if row.scenario != before else ""), row.scenario
        numbers = (row.worlds, row.injected, row.held)
        table.add_row(
            name, row.kind, *map(_number, numbers), broken, _number(row.recoveries), f"{row.median:,.0f}"
        )
    columns = [(row.worlds, row.injected, row.held, row.broken, row.recoveries) for row in rows]
    totals = [sum(column) for column in zip(*columns, strict=True)]
    table.add_section()
    table.add_row("all", "", *map(_number, totals), "", style="bold")
    return table


def _number(number: int) -> str:
    return f"{number:,}"


def detection_table(rows: Sequence[Row]) -> Table:
    title = "From a loss to the request for the next attempt (train; virtual seconds, medians)"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("fault")
    for name in ("worlds", "EC2", "run", "request", "longest without EC2", "limit"):
        table.add_column(name, justify="right")
    visibility: Visibility | None = None
    for row in rows:
        if row.visibility is not visibility:
            visibility = row.visibility
            table.add_row(Text(visibility, style="dim"))
        most = Text(f"{row.most:.1f}", style="" if row.held else "bold red")
        limit = f"{row.limit:.0f}" if row.limit else ""
        numbers = (f"{row.ec2:.1f}", f"+{row.noticed:.1f}", f"+{row.requested:.1f}")
        table.add_row(f"  {row.fault}", str(row.worlds), *numbers, most, limit)
    return table


def late_lines(rows: Sequence[Row]) -> list[Text]:
    """Return a line for each fault that exceeds its limit, with the command to replay it."""
    return [
        Text.assemble(
            (f"     {row.fault}: {row.most:.0f} s, more than the limit of {row.limit:.0f} s   ", "bold red"),
            (Case("train", (row.worst,)).command, "cyan"),
        )
        for row in rows
        if not row.held
    ]


def group_lines(groups: Sequence[Group]) -> list[Text]:
    """Return three lines for each group: the invariant, its cause, and the command to replay it."""
    lines = []
    for number, group in enumerate(groups[:MOST_GROUPS], 1):
        worlds = len(group.findings)
        head = Text.assemble(
            (f"{number:>3}. {group.invariant}", "bold red"),
            f" · {worlds:,} {'world' if worlds == 1 else 'worlds'} of {', '.join(group.scenarios)}",
        )
        lines += [
            head,
            Text(f"     {group.cause}"),
            Text(f"     {group.findings[0].case.command}", "cyan"),
        ]
    if len(groups) > MOST_GROUPS:
        lines.append(Text(f"     and {len(groups) - MOST_GROUPS} more on the page"))
    return lines


def detections(findings: Iterable[Finding]) -> list[Row]:
    """Return the detections of single faults of `train`."""
    single = (each for each in findings if each.case.scenario == "train" and len(each.case.faults) == 1)
    return detection.table(each.detection for each in single if each.detection)
