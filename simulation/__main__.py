"""`make simulate`: every single fault, many by seed, or one world told as a story."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
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
from typer import TyperException

from simulation import assembly, campaign, detection, page, process, summary, timeline, trial
from simulation.assembly import BUILD, ROOT, NotSynthesised
from simulation.campaign import Cores, Told, WorkerDied
from simulation.faults import Kind
from simulation.scenarios import SCENARIOS
from simulation.timeline import Line, Sort
from simulation.trial import BadInput, Finding, Trial
from simulation.world.clock import CLOCK

SAID_EVERY = 15.0
"""Seconds, where no terminal shows a bar."""
MOST_STORIES = 100
"""On the page; each group has one at least."""
STYLES = {
    Sort.FAULT: "bold red",
    Sort.BROKEN: "bold red",
    Sort.TROUBLE: "red",
    Sort.STATE: "cyan",
    Sort.DECISION: "italic",
    Sort.AWS: "dim",
}

console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 160  # a file has no width, and tables need one
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass
class Asked:
    """What somebody typed, checked."""

    scenarios: list[str]
    kinds: list[Kind]
    seed: str
    seeds: int
    first: int
    jobs: int
    sample: int
    trace: Path | None
    file: Path | None
    detect: bool
    given: dict[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        words = (f"{name}={shlex.quote(value)}" for name, value in self.given.items())
        return " ".join(("make simulate", *words))


Text_ = Annotated[str, typer.Option()]


@app.command()
def main(
    seed: Annotated[
        str,
        typer.Option(
            envvar="SEED",
            help="Replay one world: a number of SEEDS, or the text of its faults as a table prints it.",
        ),
    ] = "",
    seeds: Annotated[
        str,
        typer.Option(
            envvar="SEEDS",
            help="So many worlds with two or three faults each, chosen by seed, instead of all single faults.",
        ),
    ] = "",
    first: Annotated[str, typer.Option(envvar="FIRST", help="Where SEEDS begin.")] = "1",
    scenario: Annotated[
        str, typer.Option(envvar="SCENARIO", help=f"Only these, with commas between: {', '.join(SCENARIOS)}.")
    ] = "",
    kind: Annotated[
        str,
        typer.Option(
            envvar="KIND", help=f"Only faults of these kinds, with commas between: {', '.join(Kind)}."
        ),
    ] = "",
    jobs: Annotated[str, typer.Option(envvar="JOBS", help="Worlds at a time; else one for each core.")] = "",
    sample: Annotated[
        str,
        typer.Option(envvar="SAMPLE", help="Only so many of the single faults, others for another FIRST."),
    ] = "",
    file: Annotated[
        str,
        typer.Option(
            envvar="FILE", help="Try the worlds of this file: a text on each line, as broken.txt has them."
        ),
    ] = "",
    trace: Annotated[
        str,
        typer.Option(
            envvar="TRACE",
            help="With SEED: write the world's trace there. Alone: is that trace still the same?",
        ),
    ] = "",
    detect: Annotated[
        str,
        typer.Option(
            envvar="DETECT",
            help="1: how soon losses of train are seen; writes build/simulation/detection.md.",
        ),
    ] = "",
) -> None:
    """Try the yard in a simulated AWS: without options, every single fault at every place of every scenario. Ends with 1
    where a promise broke, with 2 where the question was none. Writes build/simulation/index.html and broken.txt."""
    named = dict(seed=seed, seeds=seeds, first=first, scenario=scenario, kind=kind, jobs=jobs, sample=sample)
    named |= dict(file=file, trace=trace, detect=detect)
    given = {
        name.upper(): value for name, value in named.items() if value and (name, value) != ("first", "1")
    }
    asked = Asked(
        scenarios=[trial.known_scenario(name) for name in _words(scenario)] or list(SCENARIOS),
        kinds=[Kind(trial.known(name, Kind, "kind of fault")) for name in _words(kind)] or list(Kind),
        seed=seed.strip(),
        seeds=_whole("SEEDS", seeds),
        first=_whole("FIRST", first, least=0),
        jobs=_whole("JOBS", jobs),
        sample=_whole("SAMPLE", sample),
        trace=Path(trace) if trace else None,
        file=Path(file) if file else None,
        detect=detect not in ("", "0"),
        given=given,
    )
    raise typer.Exit(_do(asked))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(name: str, text: str, *, least: int = 1) -> int:
    """0 where nothing is given. Raises BadInput."""
    if not text:
        return 0
    if not text.strip().isdecimal() or int(text) < least:
        raise BadInput(f"{name}={text} is no whole number from {least}")
    return int(text)


def _do(asked: Asked) -> int:
    if asked.trace and not asked.seed:
        return _compare(asked.trace)
    if asked.seed:
        return _replay(asked)
    return _campaign(asked)


def _assembly() -> Path:
    if not assembly.is_made():
        console.print("The yard is synthesised first (about 20 s, once for these sources) ...")
    return assembly.synthesised()


# ------------------------------------------------------------------------------------------------------- a campaign


def _campaign(asked: Asked) -> int:
    began = time.monotonic()
    folder = _assembly()
    findings: list[Finding] = []
    with Cores(folder, asked.jobs) as cores:
        try:
            cleans, trials = _to_try(asked, cores)
            with _Bar(len(trials)) as bar:

                def heard(found: Sequence[Finding]) -> None:
                    findings.extend(found)
                    bar.heard(found)

                findings = [*cleans, *cores.findings(trials, heard)]
            groups = trial.grouped(findings)
            stories = _stories(cores, groups)
        except KeyboardInterrupt:
            console.print(f"\nStopped after {len(findings):,} worlds.")
            groups, stories = trial.grouped(findings), {}
    wall = time.monotonic() - began
    _say(findings, groups, wall)
    told = page.Campaign(
        "Trainyard, simulated", asked.command, _commit(), datetime.now(UTC), wall, findings, groups, stories
    )
    _write(asked, told)
    return 1 if groups else 0


def _to_try(asked: Asked, cores: Cores) -> tuple[list[Finding], list[Trial]]:
    """The clean worlds' findings, which are tried already, and what follows from them."""
    if asked.file:
        return [], _of_file(asked.file)
    clean = cores.clean(["train"] if asked.detect else asked.scenarios)
    for finding, _ in clean.values():
        for violation in finding.violations:
            console.print(
                Text(
                    f"{finding.trial} breaks without any fault: {violation.promise}: {violation.what}", "red"
                )
            )
    kinds = [Kind.HOST, Kind.EVENT] if asked.detect else asked.kinds
    spaces = campaign.of_kinds({name: faults for name, (_, faults) in clean.items()}, kinds)
    findings = [finding for finding, _ in clean.values()]
    if not spaces:
        raise BadInput(f"no place of {', '.join(asked.scenarios)} has a fault of {', '.join(asked.kinds)}")
    if asked.seeds:
        return findings, [campaign.chosen(spaces, asked.first + number) for number in range(asked.seeds)]
    singles = campaign.each_single(spaces)
    return findings, campaign.sample(singles, asked.sample, asked.first) if asked.sample else singles


def _of_file(path: Path) -> list[Trial]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    return [trial.parse(line) for line in lines if line.strip() and not line.startswith("#")]


def _stories(cores: Cores, groups: Sequence[trial.Group]) -> dict[Trial, list[Line]]:
    """The first of each group, then the second of each, as long as there is room."""
    by_turn = [
        finding.trial for turn in range(5) for group in groups for finding in group.findings[turn : turn + 1]
    ]
    firsts = {group.findings[0].trial for group in groups}
    wanted = list(dict.fromkeys([*firsts, *by_turn[:MOST_STORIES]]))
    return dict(zip(wanted, cores.stories(wanted), strict=True))


def _say(findings: Sequence[Finding], groups: Sequence[trial.Group], wall: float) -> None:
    console.print()
    console.print(summary.count_table(summary.counts(findings)))
    rows = summary.detections(findings)
    if rows:
        console.print()
        console.print(summary.detection_table(rows))
    console.print()
    for line in summary.group_lines(groups):
        console.print(line)
    broken = sum(bool(each.violations) for each in findings)
    cpu = sum(each.cpu for each in findings)
    console.print(
        f"\n{len(findings):,} worlds in {wall:,.0f} s ({len(findings) / wall:.1f} a second, {cpu / max(len(findings), 1):.2f} s of "
        f"CPU each): {'all promises held' if not groups else f'{broken:,} broke a promise, for {len(groups)} causes'}"
    )


def _write(asked: Asked, told: page.Campaign) -> None:
    written = page.written(told, BUILD / "index.html")
    broken = dict.fromkeys(str(each.trial) for each in told.findings if each.violations)
    (BUILD / "broken.txt").write_text("".join(f"{each}\n" for each in broken))
    console.print(f"Page: {written.relative_to(ROOT)}")
    if broken:
        console.print(f"Once more what broke: make simulate FILE={(BUILD / 'broken.txt').relative_to(ROOT)}")
    if asked.detect:
        path = BUILD / "detection.md"
        path.write_text(detection.markdown(summary.detections(told.findings)))
        console.print(f"Table for the docs: {path.relative_to(ROOT)}")


def _commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "no commit"


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0:.1f} worlds/s")


class _Bar:
    """A bar in a terminal, a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._broken, self._began = total, 0, 0, time.monotonic()
        self._said = self._began
        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            _Speed(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[broken]}"),
        )
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=total, broken="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def heard(self, found: Sequence[Finding]) -> None:
        self._done += len(found)
        self._broken += sum(bool(each.violations) for each in found)
        words = f"[red]{self._broken:,} broken" if self._broken else "none broken"
        self._progress.update(self._task, completed=self._done, broken=words)
        now = time.monotonic()
        if not console.is_terminal and now - self._said >= SAID_EVERY:
            self._said = now
            speed = self._done / (now - self._began)
            left = (self._total - self._done) / speed
            console.print(
                f"{self._done:,} of {self._total:,} worlds, {speed:.1f} a second, {left:,.0f} s left, {self._broken:,} broken"
            )


# ------------------------------------------------------------------------------------------------------- one world


def _replay(asked: Asked) -> int:
    folder = _assembly()
    wanted = _wanted(asked, folder)
    told = _tried(folder, wanted)
    _tell(told)
    if asked.trace and told.story:
        campaign.write_trace(asked.trace, wanted, told.story.trace)
        console.print(f"Trace: {asked.trace} ({campaign.digest(told.story.trace)[:16]})")
    if not told.finding.violations:
        return 0
    if len(wanted.faults) > 1:
        _say_smallest(folder, told.finding)
    return 1


def _wanted(asked: Asked, folder: Path) -> Trial:
    """Raises BadInput for what names no world."""
    if asked.seed.isdecimal():
        spaces = campaign.of_kinds({name: _space(folder, name) for name in asked.scenarios}, asked.kinds)
        return campaign.chosen(spaces, int(asked.seed))
    if ":" not in asked.seed and asked.seed.partition("@")[0] not in SCENARIOS:
        names = ", ".join(SCENARIOS)
        raise BadInput(
            f"SEED={asked.seed} is no number, and no world: write `train: FAULT` as the tables do, or one of {names}"
        )
    return trial.parse(asked.seed)


def _space(folder: Path, scenario: str) -> tuple[Any, ...]:
    told = _tried(folder, Trial(scenario))
    if told.story is None:
        raise BadInput(
            f"the clean world of {scenario} does not come to its end: {told.finding.violations[0].what}"
        )
    return campaign.space_of(told.story)


def _tried(folder: Path, wanted: Trial) -> Told:
    """In this process; the clock is ours again then."""
    try:
        return campaign.tried(folder, wanted, in_full=True)
    finally:
        CLOCK.leave()


def _tell(told: Told) -> None:
    finding = told.finding
    console.print(
        Text(str(finding.trial.scenario), "bold"),
        f"({SCENARIOS[finding.trial.scenario].what}), world {finding.trial.seed}",
    )
    for fault in finding.trial.faults:
        met = "" if fault in finding.met else "  (the world did not come to this place)"
        console.print(Text.assemble("  ", (str(fault), "red"), (met, "dim")))
    console.print()
    for line in told.lines:
        console.print(_in_words(line))
    console.print()
    console.print(
        f"{finding.outcome} after {timeline.since_begin(finding.seconds)} of virtual time; {finding.cpu:.2f} s of CPU"
    )
    if finding.detection:
        seconds = finding.detection
        console.print(
            f"The next attempt was asked for {seconds.asked:.1f} s after the fault, of which {seconds.seen:.1f} s until the run heard of it"
        )
    for violation in finding.violations:
        console.print(
            Text.assemble(("Broken: ", "bold red"), (violation.promise, "bold red"), f": {violation.what}")
        )
    if not finding.violations:
        console.print(Text("All promises held", "green"))


def _in_words(line: Line) -> Text:
    text = Text.assemble(
        (f"{timeline.since_begin(line.seconds):>9}  ", "dim"),
        (f"{line.clock}  ", "dim"),
        f"{line.who:<28.28}  ",
        (line.what, STYLES.get(line.sort, "")),
    )
    return text.append(f"  {line.why}", "dim") if line.why else text


def _say_smallest(folder: Path, broken: Finding) -> None:
    """The fewest of its faults that break one of the same promises."""
    promises = [each.promise for each in broken.violations]
    for fewer in campaign.smaller(broken.trial):
        if _tried(folder, fewer).finding.breaks(promises):
            console.print(f"Fewer faults break it too: make simulate SEED='{fewer}'")
            return
    console.print(f"It takes all {len(broken.trial.faults)} faults.")


def _compare(path: Path) -> int:
    """Whether the world of a trace is still the same, line by line."""
    of, lines = campaign.read_trace(path)
    wanted = trial.parse(of)
    told = _tried(_assembly(), wanted)
    if told.story is None:
        raise BadInput(f"{wanted} does not come to its end: {told.finding.violations[0].what}")
    now = list(campaign.trace_lines(told.story.trace))
    for number, (before, after) in enumerate(zip(lines, now, strict=False), 1):
        if before != after:
            console.print(
                f"{path} differs from line {number + 1}:\n  then {before}\n  now  {after}", markup=False
            )
            return 1
    if len(lines) != len(now):
        console.print(
            f"{path} has {len(lines):,} lines, the world has {len(now):,}: they agree as far as the shorter goes"
        )
        return 1
    console.print(f"The same: {len(now):,} lines of {wanted}", markup=False)
    return 0


def run() -> int:
    """One clear line for what cannot be done."""
    process.restart_as_needed()
    try:
        answer = typer.main.get_command(app).main(prog_name="make simulate", standalone_mode=False)
        return int(answer or 0)
    except TyperException as error:
        said = str(getattr(error, "message", error))
    except BadInput as error:
        said = str(error)
    except (NotSynthesised, WorkerDied) as error:
        Console(stderr=True, soft_wrap=True).print(Text(str(error)))
        return 3
    except KeyboardInterrupt:
        return 130
    sys.stderr.write(f"simulate: {said}\n")
    return 2


if __name__ == "__main__":
    sys.exit(run())
