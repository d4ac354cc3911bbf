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
from simulation.cases.findings import CaseRun, Rerun, add_difference, run_case
from simulation.faults import Fault, Kind
from simulation.report import page, screen, summary
from simulation.report.screen import console
from simulation.scenarios import NAMED, SCENARIOS
from simulation.timeline import Line
from simulation.world.clock import CLOCK

MOST_TIMELINES = 100
"""The most timelines on the page. The first world of each group always has one."""
TIMELINES_OF_A_GROUP = 5
BAD_INPUT, NOT_RUN, INTERRUPTED = 2, 3, 130

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass
class Options:
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


def _option(name: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name.lower()}", envvar=name, show_envvar=True, help=text
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
        str, _option("SCENARIO", f"Only these scenarios, separated by commas: {', '.join(NAMED)}.")
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
    settings = [f"{name}={shlex.quote(value)}" for name, value in given.items() if value]
    options = Options(
        scenarios=[case.check_scenario(name) for name in _split(scenario)] or list(SCENARIOS),
        kinds=[Kind(case.check_name(name, Kind, "kind of fault")) for name in _split(kind)] or list(Kind),
        seed=seed.strip(),
        seeds=_parse_number("SEEDS", seeds),
        first=_parse_number("FIRST", first, least=0),
        jobs=_parse_number("JOBS", jobs),
        sample=_parse_number("SAMPLE", sample),
        trace=Path(trace) if trace else None,
        file=Path(file) if file else None,
        detect=detect not in ("", "0"),
        alike=alike not in ("", "0"),
        command=" ".join(["make simulate", *settings]),
    )
    raise typer.Exit(_run(options))


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _parse_number(name: str, text: str, *, least: int = 1) -> int:
    """Return 0 if nothing is given. Raises BadInputError."""
    if not text.strip():
        return 0
    if not text.strip().isdecimal() or int(text) < least:
        raise BadInputError(f"{name}={text} is not a whole number of at least {least}")
    return int(text)


def _run(options: Options) -> int:
    if options.seed:
        return _replay(options)
    if options.trace:
        return _compare(options.trace)
    return _campaign(options)


def _assembly() -> Path:
    if not assembly.is_made():
        console.print("Synthesising the yard (once for these sources) ...")
    return assembly.find_assembly()


# ---------------------------------------------------------------------------------------------------------- a campaign


def _campaign(options: Options) -> int:
    file = _read_cases(options.file) if options.file else None
    folder = _assembly()
    began = time.monotonic()
    findings: list[Finding] = []
    timelines: dict[Case, Sequence[Line]] = {}
    stopped = False
    with Cores(folder, options.jobs) as cores:
        try:
            cases = file if file is not None else _choose_cases(options, cores, findings.extend)
            with screen.Bar(len(cases)) as bar:

                def report(found: Sequence[Finding]) -> None:
                    findings.extend(found)
                    bar.report(found)

                cores.findings(cases, report)
            reruns = _rerun_findings(cores, case.group_findings(findings))
            timelines = {each.finding.case: each.lines for each in reruns}
            changed = {each.finding.case: add_difference(each) for each in reruns if not each.same}
            findings = [changed.get(each.case, each) for each in findings]
        except KeyboardInterrupt:
            stopped = True
            console.print(f"\nStopped after {len(findings):,} worlds.")
    groups = case.group_findings(findings)
    wall = time.monotonic() - began
    screen.print_campaign(findings, groups, wall)
    title = "Trainyard, simulated"
    _write(
        options,
        page.Campaign(
            title, options.command, _commit(), datetime.now(UTC), wall, findings, groups, timelines
        ),
    )
    late = options.detect and any(not row.held for row in summary.detections(findings))
    if groups or late:
        return 1
    return INTERRUPTED if stopped else 0


def _choose_cases(options: Options, cores: Cores, report: Callable[[Sequence[Finding]], None]) -> list[Case]:
    """Return the cases that follow from the fault points of the clean worlds. Pass the findings of these to `heard`."""
    clean = cores.clean(["train"] if options.detect else options.scenarios)
    report([each.finding for each in clean.values()])
    kinds = [Kind.HOST, Kind.EVENT] if options.detect else options.kinds
    whole = {name: each.faults for name, each in clean.items()}
    spaces = selection.select_kinds(whole if options.seeds else selection.drop_shared(whole), kinds)
    if not spaces:
        broken = [
            f"{each.finding.case} broke: {each.finding.violations[0].what}"
            for each in clean.values()
            if each.finding.violations
        ]
        why = f" ({'; '.join(broken)})" if broken else ""
        raise BadInputError(
            f"{', '.join(options.scenarios)}: no fault point has a fault of kind {', '.join(kinds)}{why}"
        )
    if options.seeds:
        return [selection.choose_case(spaces, options.first + number) for number in range(options.seeds)]
    all_of_them = options.alike or options.detect
    singles = selection.list_singles(spaces if all_of_them else selection.drop_equivalent(spaces, clean))
    if Kind.EVENT in kinds and not options.detect:
        singles += cores.late_signals(spaces)
    return selection.sample(singles, options.sample, options.first) if options.sample else singles


def _read_cases(path: Path) -> list[Case]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"FILE={path} cannot be read: {error}") from error
    return [case.parse(line) for line in lines if line.strip() and not line.startswith("#")]


def _rerun_findings(cores: Cores, groups: Sequence[Group]) -> list[Rerun]:
    """Run the first world of each group again, then the second of each, up to MOST_STORIES."""
    turns = [
        [group.findings[turn] for group in groups if turn < len(group.findings)]
        for turn in range(TIMELINES_OF_A_GROUP)
    ]
    room = [each for turn in turns[1:] for each in turn][: max(0, MOST_TIMELINES - len(groups))]
    by_case = {each.case: each for each in [*turns[0], *room]}
    return cores.rerun(list(by_case.values()))


def _write(options: Options, about: page.Campaign) -> None:
    written = page.write_page(about, BUILD / "index.html")
    console.print(f"Page: {written.relative_to(ROOT)}")
    broken = dict.fromkeys(str(each.case) for each in about.findings if each.violations)
    texts = BUILD / "broken.txt"
    texts.write_text("".join(f"{each}\n" for each in broken))
    if broken:
        console.print(f"Replay the broken worlds: make simulate FILE={texts.relative_to(ROOT)}")
    if options.detect:
        table = BUILD / "detection.md"
        table.write_text(detection.markdown(summary.detections(about.findings)))
        console.print(f"Table for the docs: {table.relative_to(ROOT)}")


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"


# ----------------------------------------------------------------------------------------------------------- one world


def _replay(options: Options) -> int:
    """Replay the world of SEED."""
    if not options.seed.isdecimal():
        _check_text(options.seed)
    folder = _assembly()
    chosen = _choose_case(options, folder)
    case_run = _run_case(folder, chosen)
    screen.print_world(case_run)
    if options.trace and case_run.result:
        traces.write_trace(options.trace, chosen, case_run.result.trace)
        console.print(f"Trace: {options.trace}, {traces.digest(case_run.result.trace)}")
    if not case_run.finding.violations:
        return 0
    if len(chosen.faults) > 1:
        _print_smallest(folder, case_run.finding)
    return 1


def _check_text(seed: str) -> None:
    """Raise BadInputError unless the text is a case."""
    if ":" not in seed and seed.partition("@")[0] not in NAMED:
        raise BadInputError(
            f"SEED={seed} is neither a number nor a world: write `train: FAULT` as in the tables, "
            f"or one of {', '.join(NAMED)}"
        )
    case.parse(seed)


def _choose_case(options: Options, folder: Path) -> Case:
    if not options.seed.isdecimal():
        return case.parse(options.seed)
    spaces = selection.select_kinds(
        {name: _list_faults(folder, name) for name in options.scenarios}, options.kinds
    )
    if not spaces:
        raise BadInputError(
            f"{', '.join(options.scenarios)}: no fault point has a fault of kind {', '.join(options.kinds)}"
        )
    return selection.choose_case(spaces, int(options.seed))


def _list_faults(folder: Path, scenario: str) -> tuple[Fault, ...]:
    case_run = _run_case(folder, Case(scenario))
    return selection.list_faults(case_run.result) if case_run.result else ()


def _run_case(folder: Path, chosen: Case) -> CaseRun:
    """Run the case in this process, then restore the clock of the machine."""
    try:
        return run_case(folder, chosen, in_full=True)
    finally:
        CLOCK.leave()


def _print_smallest(folder: Path, broken: Finding) -> None:
    """Print the smallest subset of the faults that breaks one of the same invariants."""
    invariants = [each.invariant for each in broken.violations]
    for fewer in selection.list_subsets(broken.case):
        if _run_case(folder, fewer).finding.breaks(invariants):
            console.print(Text(f"Fewer faults break it too: {fewer.command}", "cyan"))
            return
    console.print(f"All {len(broken.case.faults)} faults are needed.")


def _compare(path: Path) -> int:
    """Compare the world of a trace with the trace, line by line."""
    text, before = traces.read_trace(path)
    chosen = case.parse(text)
    case_run = _run_case(_assembly(), chosen)
    if case_run.result is None:
        console.print(f"{chosen} does not end anymore: {case_run.finding.violations[0].what}")
        return 1
    now = list(traces.trace_lines(case_run.result.trace))
    for number, (then, line) in enumerate(zip(before, now, strict=False), 2):
        if then != line:
            console.print(f"{path} differs from line {number} on:\n  before {then}\n  now    {line}")
            return 1
    if len(before) != len(now):
        console.print(
            f"{path} has {len(before):,} entries, the world now has {len(now):,}; the shorter is a prefix of the longer"
        )
        return 1
    console.print(f"The same {len(now):,} entries: {chosen}")
    return 0


def run() -> int:
    """Run the command. Print one line for bad input. Treat SIGTERM as Ctrl-C, so that workers end with the command."""
    process.restart_as_needed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(typer.main.get_command(app).main(prog_name="make simulate", standalone_mode=False) or 0)
    except TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        code = BAD_INPUT
    except BadInputError as error:
        message, code = str(error), BAD_INPUT
    except (NotSynthesisedError, WorkerDiedError) as error:
        message, code = str(error), NOT_RUN
    except KeyboardInterrupt:
        message, code = "stopped", INTERRUPTED
    sys.stderr.write(f"simulate: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(run())
