"""`make simulate`: simulate every single fault, random combinations of faults, or one world with its timeline."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from typer import TyperException

from simulation import assembly, detection
from simulation.assembly import BUILD, ROOT, NotSynthesisedError
from simulation.cases import case, process, selection, traces
from simulation.cases.campaign import Cores, WorkerDiedError
from simulation.cases.case import BadInputError, Case, Finding, Group
from simulation.cases.findings import Retold, Told, differs, tried
from simulation.faults import Fault, Kind
from simulation.report import page, screen, summary
from simulation.report.screen import console
from simulation.scenarios import SCENARIOS
from simulation.timeline import Line
from simulation.world.clock import CLOCK

MOST_STORIES = 100
"""The most timelines on the page. The first world of each group always has one."""
STORIES_OF_A_GROUP = 5
BAD_INPUT, NOT_RUN, INTERRUPTED = 2, 3, 130

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass
class Asked:
    """The checked options of the command."""

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
    alike: bool
    command: str


def _option(name: str, words: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name.lower()}", envvar=name, show_envvar=True, help=words
    )
    return option


@app.command()
def main(
    seed: Annotated[
        str, _option("SEED", "Replay one world: a number of SEEDS, or its text from a table.")
    ] = "",
    seeds: Annotated[
        str,
        _option(
            "SEEDS",
            "Try this many random worlds with two or three faults each, instead of all single faults.",
        ),
    ] = "",
    first: Annotated[str, _option("FIRST", "First number of SEEDS.")] = "1",
    scenario: Annotated[
        str, _option("SCENARIO", f"Only these scenarios, separated by commas: {', '.join(SCENARIOS)}.")
    ] = "",
    kind: Annotated[
        str, _option("KIND", f"Only faults of these kinds, separated by commas: {', '.join(Kind)}.")
    ] = "",
    jobs: Annotated[str, _option("JOBS", "Number of worlds at a time. Default: one for each core.")] = "",
    sample: Annotated[
        str,
        _option(
            "SAMPLE", "Try a random sample of this many single faults. Another FIRST draws another sample."
        ),
    ] = "",
    file: Annotated[
        str, _option("FILE", "Try the worlds of this file, one per line, in the format of broken.txt.")
    ] = "",
    trace: Annotated[
        str,
        _option(
            "TRACE",
            "With SEED: write its trace to this file. Without SEED: check that the trace is still the same.",
        ),
    ] = "",
    detect: Annotated[
        str, _option("DETECT", "1: measure how soon losses are detected in train, and write detection.md.")
    ] = "",
    alike: Annotated[
        str,
        _option("ALIKE", "1: also try faults and fault points that are equivalent to others."),
    ] = "",
) -> None:
    """Simulate the yard on a model of AWS, with every single fault at every fault point of every scenario.

    Only one of several equivalent faults or fault points is tried, unless ALIKE=1.

    Exit codes: 1 if an invariant broke, 2 for bad input, 130 if interrupted. Results are in build/simulation/: the
    page (index.html), the broken worlds (broken.txt) and detection.md.
    """
    given = {"SEED": seed, "SEEDS": seeds, "SCENARIO": scenario, "KIND": kind, "SAMPLE": sample, "FILE": file}
    given |= {"FIRST": "" if first == "1" else first, "JOBS": jobs, "DETECT": detect, "ALIKE": alike}
    words = [f"{name}={shlex.quote(value)}" for name, value in given.items() if value]
    asked = Asked(
        scenarios=[case.known_scenario(name) for name in _words(scenario)] or list(SCENARIOS),
        kinds=[Kind(case.known(name, Kind, "kind of fault")) for name in _words(kind)] or list(Kind),
        seed=seed.strip(),
        seeds=_whole("SEEDS", seeds),
        first=_whole("FIRST", first, least=0),
        jobs=_whole("JOBS", jobs),
        sample=_whole("SAMPLE", sample),
        trace=Path(trace) if trace else None,
        file=Path(file) if file else None,
        detect=detect not in ("", "0"),
        alike=alike not in ("", "0"),
        command=" ".join(["make simulate", *words]),
    )
    raise typer.Exit(_do(asked))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(name: str, text: str, *, least: int = 1) -> int:
    """Return 0 if nothing is given. Raises BadInputError."""
    if not text.strip():
        return 0
    if not text.strip().isdecimal() or int(text) < least:
        raise BadInputError(f"{name}={text} is not a whole number of at least {least}")
    return int(text)


def _do(asked: Asked) -> int:
    if asked.seed:
        return _replay(asked)
    if asked.trace:
        return _compare(asked.trace)
    return _campaign(asked)


def _assembly() -> Path:
    if not assembly.is_made():
        console.print("Synthesising the yard (once for these sources) ...")
    return assembly.synthesised()


# ---------------------------------------------------------------------------------------------------------- a campaign


def _campaign(asked: Asked) -> int:
    file = _of_file(asked.file) if asked.file else None
    folder = _assembly()
    began = time.monotonic()
    findings: list[Finding] = []
    stories: dict[Case, Sequence[Line]] = {}
    stopped = False
    with Cores(folder, asked.jobs) as cores:
        try:
            cases = file if file is not None else _to_try(asked, cores, findings.extend)
            with screen.Bar(len(cases)) as bar:

                def heard(found: Sequence[Finding]) -> None:
                    findings.extend(found)
                    bar.heard(found)

                cores.findings(cases, heard)
            retold = _stories(cores, case.grouped(findings))
            stories = {each.finding.case: each.lines for each in retold}
            changed = {each.finding.case: differs(each) for each in retold if not each.same}
            findings = [changed.get(each.case, each) for each in findings]
        except KeyboardInterrupt:
            stopped = True
            console.print(f"\nStopped after {len(findings):,} worlds.")
    groups = case.grouped(findings)
    wall = time.monotonic() - began
    screen.say_campaign(findings, groups, wall)
    title = "Trainyard, simulated"
    _write(
        asked,
        page.Campaign(title, asked.command, _commit(), datetime.now(UTC), wall, findings, groups, stories),
    )
    late = asked.detect and any(not row.held for row in summary.detections(findings))
    if groups or late:
        return 1
    return INTERRUPTED if stopped else 0


def _to_try(asked: Asked, cores: Cores, heard: Callable[[Sequence[Finding]], None]) -> list[Case]:
    """Return the cases that follow from the fault points of the clean worlds. Pass the findings of these to `heard`."""
    clean = cores.clean(["train"] if asked.detect else asked.scenarios)
    heard([each.finding for each in clean.values()])
    kinds = [Kind.HOST, Kind.EVENT] if asked.detect else asked.kinds
    whole = {name: each.faults for name, each in clean.items()}
    spaces = selection.of_kinds(whole if asked.seeds else selection.its_own(whole), kinds)
    if not spaces:
        broken = [
            f"{each.finding.case} broke: {each.finding.violations[0].what}"
            for each in clean.values()
            if each.finding.violations
        ]
        why = f" ({'; '.join(broken)})" if broken else ""
        raise BadInputError(
            f"{', '.join(asked.scenarios)}: no fault point has a fault of kind {', '.join(kinds)}{why}"
        )
    if asked.seeds:
        return [selection.chosen(spaces, asked.first + number) for number in range(asked.seeds)]
    all_of_them = asked.alike or asked.detect
    singles = selection.each_single(spaces if all_of_them else selection.one_of_each(spaces, clean))
    if Kind.EVENT in kinds and not asked.detect:
        singles += cores.late_news(spaces)
    return selection.sample(singles, asked.sample, asked.first) if asked.sample else singles


def _of_file(path: Path) -> list[Case]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"FILE={path} cannot be read: {error}") from error
    return [case.parse(line) for line in lines if line.strip() and not line.startswith("#")]


def _stories(cores: Cores, groups: Sequence[Group]) -> list[Retold]:
    """Run the first world of each group again, then the second of each, up to MOST_STORIES."""
    turns = [
        [group.findings[turn] for group in groups if turn < len(group.findings)]
        for turn in range(STORIES_OF_A_GROUP)
    ]
    room = [each for turn in turns[1:] for each in turn][: max(0, MOST_STORIES - len(groups))]
    by_case = {each.case: each for each in [*turns[0], *room]}
    return cores.stories(list(by_case.values()))


def _write(asked: Asked, about: page.Campaign) -> None:
    written = page.written(about, BUILD / "index.html")
    console.print(f"Page: {written.relative_to(ROOT)}")
    broken = dict.fromkeys(str(each.case) for each in about.findings if each.violations)
    texts = BUILD / "broken.txt"
    texts.write_text("".join(f"{each}\n" for each in broken))
    if broken:
        console.print(f"Replay the broken worlds: make simulate FILE={texts.relative_to(ROOT)}")
    if asked.detect:
        table = BUILD / "detection.md"
        table.write_text(detection.markdown(summary.detections(about.findings)))
        console.print(f"Table for the docs: {table.relative_to(ROOT)}")


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "no commit"


# ----------------------------------------------------------------------------------------------------------- one world


def _replay(asked: Asked) -> int:
    """Replay the world of SEED."""
    if not asked.seed.isdecimal():
        _check_text(asked.seed)
    folder = _assembly()
    wanted = _wanted(asked, folder)
    told = _tried(folder, wanted)
    screen.tell(told)
    if asked.trace and told.story:
        traces.write_trace(asked.trace, wanted, told.story.trace)
        console.print(f"Trace: {asked.trace}, {traces.digest(told.story.trace)}")
    if not told.finding.violations:
        return 0
    if len(wanted.faults) > 1:
        _say_smallest(folder, told.finding)
    return 1


def _check_text(seed: str) -> None:
    """Raise BadInputError unless the text is a case."""
    if ":" not in seed and seed.partition("@")[0] not in SCENARIOS:
        raise BadInputError(
            f"SEED={seed} is neither a number nor a world: write `train: FAULT` as in the tables, "
            f"or one of {', '.join(SCENARIOS)}"
        )
    case.parse(seed)


def _wanted(asked: Asked, folder: Path) -> Case:
    if not asked.seed.isdecimal():
        return case.parse(asked.seed)
    spaces = selection.of_kinds({name: _space(folder, name) for name in asked.scenarios}, asked.kinds)
    if not spaces:
        raise BadInputError(
            f"{', '.join(asked.scenarios)}: no fault point has a fault of kind {', '.join(asked.kinds)}"
        )
    return selection.chosen(spaces, int(asked.seed))


def _space(folder: Path, scenario: str) -> tuple[Fault, ...]:
    told = _tried(folder, Case(scenario))
    return selection.space_of(told.story) if told.story else ()


def _tried(folder: Path, wanted: Case) -> Told:
    """Run the case in this process, then restore the clock of the machine."""
    try:
        return tried(folder, wanted, in_full=True)
    finally:
        CLOCK.leave()


def _say_smallest(folder: Path, broken: Finding) -> None:
    """Print the smallest subset of the faults that breaks one of the same invariants."""
    invariants = [each.invariant for each in broken.violations]
    for fewer in selection.smaller(broken.case):
        if _tried(folder, fewer).finding.breaks(invariants):
            console.print(Text(f"Fewer faults break it too: {fewer.command}", "cyan"))
            return
    console.print(f"All {len(broken.case.faults)} faults are needed.")


def _compare(path: Path) -> int:
    """Compare the world of a trace with the trace, line by line."""
    of, before = traces.read_trace(path)
    wanted = case.parse(of)
    told = _tried(_assembly(), wanted)
    if told.story is None:
        console.print(f"{wanted} does not end anymore: {told.finding.violations[0].what}")
        return 1
    now = list(traces.trace_lines(told.story.trace))
    for number, (then, line) in enumerate(zip(before, now, strict=False), 2):
        if then != line:
            console.print(f"{path} differs from line {number} on:\n  before {then}\n  now    {line}")
            return 1
    if len(before) != len(now):
        console.print(
            f"{path} has {len(before):,} entries, the world now has {len(now):,}; the shorter is a prefix of the longer"
        )
        return 1
    console.print(f"The same {len(now):,} entries: {wanted}")
    return 0


def run() -> int:
    """Run the command. Print one line for bad input. Treat SIGTERM as Ctrl-C, so that workers end with the command."""
    process.restart_as_needed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(typer.main.get_command(app).main(prog_name="make simulate", standalone_mode=False) or 0)
    except TyperException as error:
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        code = BAD_INPUT
    except BadInputError as error:
        said, code = str(error), BAD_INPUT
    except (NotSynthesisedError, WorkerDiedError) as error:
        said, code = str(error), NOT_RUN
    except KeyboardInterrupt:
        said, code = "stopped", INTERRUPTED
    sys.stderr.write(f"simulate: {said}\n")
    return code


if __name__ == "__main__":
    sys.exit(run())
