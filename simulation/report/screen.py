"""Output in the terminal: the progress bar, the tables, and the timeline of a world."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from simulation import detection, timeline
from simulation.cases.campaign import digest_of_all
from simulation.cases.case import Finding, Group
from simulation.cases.findings import CaseRun
from simulation.report import summary
from simulation.scenarios import NAMED
from simulation.timeline import Line, Sort

PROGRESS_SECONDS = 15.0
"""Seconds between two lines of progress without a terminal."""
MOST_PRINTED = 20
"""The most broken worlds that are printed before the tables."""
STYLES = {
    Sort.FAULT: "bold red",
    Sort.BROKEN: "bold red",
    Sort.TROUBLE: "red",
    Sort.STATE: "cyan",
    Sort.DECISION: "italic",
    Sort.AWS: "dim",
}
BROKEN, FAINT = "bold red", "dim"

console = Console(highlight=False, markup=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 160  # a file has no width, but tables need one


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0:.1f} worlds/s")


class Bar:
    """A progress bar in a terminal, else a line every PROGRESS_SECONDS. It prints the first broken worlds at once."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._broken = total, 0, 0
        self._began = self._printed_at = time.monotonic()
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            _Speed(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=total, status="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, found: Sequence[Finding]) -> None:
        self._done += len(found)
        broken = [each for each in found if each.violations]
        for each in broken[: max(0, MOST_PRINTED - self._broken)]:
            console.print(f"broken: {each.case}: {each.violations[0].what}")
        self._broken += len(broken)
        status = f"{self._broken:,} broken" if self._broken else "0 broken"
        self._progress.update(self._task, completed=self._done, status=status)
        now = time.monotonic()
        if not console.is_terminal and now - self._printed_at >= PROGRESS_SECONDS:
            self._printed_at = now
            speed = self._done / (now - self._began)
            left = (self._total - self._done) / speed
            done = f"{self._done:,} of {self._total:,} worlds"
            console.print(f"{done}, {speed:.1f} a second, {left:,.0f} s left, {status}")


def print_campaign(findings: Sequence[Finding], groups: Sequence[Group], wall: float) -> None:
    """Print the tables, the violations, and a summary line."""
    console.print()
    console.print(summary.count_table(summary.counts(findings)))
    rows = summary.detections(findings)
    if rows:
        console.print()
        console.print(summary.detection_table(rows))
        for line in summary.late_lines(rows):
            console.print(line)
    console.print()
    for line in summary.group_lines(groups):
        console.print(line)
    worlds = len(findings)
    broken = sum(bool(each.violations) for each in findings)
    cpu = sum(each.cpu for each in findings) / max(worlds, 1)
    verdict = (
        f"{broken:,} broke an invariant ({len(groups):,} different causes)"
        if groups
        else "all invariants held"
    )
    console.print(
        f"\n{worlds:,} worlds in {wall:,.0f} s ({worlds / wall:.1f} a second, {cpu:.2f} s of CPU each): {verdict}"
    )
    console.print(f"Digest of all traces: {digest_of_all(findings)}", style=FAINT)


def print_world(case_run: CaseRun) -> None:
    """Print one world: its faults, its timeline and its result."""
    finding, case = case_run.finding, case_run.finding.case
    console.print(
        Text.assemble((case.scenario, "bold"), f": {NAMED[case.scenario].what} (world {case.seed})")
    )
    for fault in case.faults:
        injected = "" if fault in finding.injected else "  (the world did not reach this fault point)"
        console.print(Text.assemble("  ", (str(fault), "red"), (injected, FAINT)))
    console.print()
    for line in case_run.lines:
        console.print(_format_line(line))
    if case_run.lines:
        console.print(
            f"\n{finding.outcome}, {timeline.since_begin(finding.seconds)} of virtual time, {finding.cpu:.2f} s of CPU"
        )
    if detected := finding.detection:
        ec2 = (
            f" (EC2 noticed after {detected.ec2:.1f} s)"
            if detected.visibility is detection.Visibility.REPORTED
            else ""
        )
        parts = f"{detected.noticed:.1f} s until the run noticed{ec2}"
        console.print(
            f"From the fault to the request for the next attempt: {detected.requested:.1f} s; {parts}"
        )
    for violation in finding.violations:
        console.print(Text.assemble((f"Broken: {violation.invariant}", BROKEN), f": {violation.what}"))
    if not finding.violations:
        missed = [str(fault) for fault in case.faults if fault not in finding.injected]
        console.print(Text("All invariants held", "green"))
        if missed:
            console.print(Text(f"Not reached: {'; '.join(missed)}", BROKEN))


def _format_line(line: Line) -> Text:
    text = Text.assemble(
        (f"{timeline.since_begin(line.seconds):>9}  {line.clock}  ", FAINT),
        f"{line.who:<26.26}  ",
        (line.what, STYLES.get(line.sort, "")),
    )
    return text.append(f"  {line.why}", FAINT) if line.why else text
