"""Which worlds are tried, on all cores, and what came of each: the same request makes the same findings anywhere."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from simulation import detection, process, timeline
from simulation.faults import Fault, Kind, singles
from simulation.scenarios import SCENARIOS
from simulation.story import Story, tell
from simulation.timeline import Line
from simulation.trial import CLEAN_SEED, SIMULATOR, BadInputError, Finding, Trial, Violation
from simulation.world.world import BEGINNING, Entry

MOST_CPU_SECONDS = 120.0
"""Of one world: more is a circle, and broken."""
CHUNK = 8
"""Worlds that a worker takes at once."""
TRACE_VERSION = 1

Work = TypeVar("Work")
Answer = TypeVar("Answer")


# ------------------------------------------------------------------------------------------------------------ one world


class TooLong(BaseException):
    """A world has used its time. No `except Exception` on the way holds it."""


@dataclass
class Told:
    """A world's finding, and all that one may want to know beside it."""

    finding: Finding
    story: Story | None = None
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Retold:
    """A world that has happened twice. `same`: as it must be, byte for byte."""

    finding: Finding
    lines: Sequence[Line]
    same: bool


def digest_of_all(findings: Iterable[Finding]) -> str:
    """Of all worlds, in whatever order they came."""
    lines = sorted(f"{finding.trial} {finding.digest}" for finding in findings)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def differs(retold: Retold) -> Finding:
    """What is wrong with a world that was another the second time."""
    found = Violation(SIMULATOR, "a world was another one when it was told again", 0.0)
    return dataclasses.replace(retold.finding, violations=(*retold.finding.violations, found))


def tried(assembly: Path, trial: Trial, *, in_full: bool = False) -> Told:
    """Let the world of this trial happen. What it dies of is its finding too. `in_full`: with its timeline."""
    template = process.prepared(assembly)
    decided: list[timeline.Decision] = []
    try:
        with _limited_time():
            story = tell(
                template,
                SCENARIOS[trial.scenario],
                seed=trial.seed,
                faults=trial.faults,
                at_end=lambda yard: decided.extend(timeline.decisions(yard) if in_full else ()),
            )
        told = Told(found(trial, story), story, timeline.told(story.trace, decided) if in_full else [])
    except (Exception, TooLong) as error:  # noqa: BLE001 - whatever it is, it is the finding
        told = Told(Finding(trial, violations=(_crash(error),)))
    process.tidy()
    return told


def found(trial: Trial, story: Story) -> Finding:
    """The finding of a world that has come to its end."""
    broken = [
        Violation(str(each.promise), each.what, (each.at - BEGINNING).total_seconds())
        for each in story.broken
    ]
    only = trial.faults[0] if len(trial.faults) == 1 else None
    return Finding(
        trial,
        met=story.struck,
        violations=tuple(broken),
        outcome=story.outcome,
        recoveries=_recoveries(story.trace),
        seconds=story.virtual_seconds,
        cpu=story.cpu_seconds,
        detection=detection.detected(only, story.trace) if only else None,
        digest=digest(story.trace),
    )


def _recoveries(trace: Iterable[Entry]) -> int:
    """How often a run went on after its state Recover."""
    recovering: set[str] = set()
    count = 0
    for entry in trace:
        if entry.what == "enters Recover":
            recovering.add(entry.who)
        elif entry.what == "enters Pause" and entry.who in recovering:
            recovering.remove(entry.who)
            count += 1
    return count


def _crash(error: BaseException) -> Violation:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/site-packages/" not in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}, {ours[-1].name}" if ours else "nowhere"
    said = f"{MOST_CPU_SECONDS:.0f} s of CPU and no end" if isinstance(error, TooLong) else repr(error)
    return Violation(SIMULATOR, f"{said} (in {where})", 0.0)


@contextlib.contextmanager
def _limited_time() -> Iterator[None]:
    """Of CPU, so a busy machine is no reason."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


# ----------------------------------------------------------------------------------------------------------- the trace


def trace_lines(trace: Iterable[Entry]) -> Iterator[str]:
    """The trace as JSON, a line for each entry."""
    for entry in trace:
        line = {"at": entry.at.isoformat(), "who": entry.who, "what": entry.what, "details": entry.details}
        yield json.dumps(line, default=str, sort_keys=True)


def digest(trace: Iterable[Entry]) -> str:
    """Of every byte of the trace: equal for equal worlds."""
    found = hashlib.sha256()
    for line in trace_lines(trace):
        found.update(f"{line}\n".encode())
    return found.hexdigest()


def write_trace(path: Path, trial: Trial, trace: Sequence[Entry]) -> None:
    """JSON lines; the first says what it is a trace of."""
    head = {"trainyard trace": TRACE_VERSION, "of": str(trial), "digest": digest(trace)}
    path.write_text("".join(f"{line}\n" for line in (json.dumps(head), *trace_lines(trace))))


def read_trace(path: Path) -> tuple[str, list[str]]:
    """Which trial it is of, and its lines. Raises BadInputError for anything but a trace of this version."""
    try:
        head, *lines = path.read_text().splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read as a trace: {error}") from error
    try:
        said = json.loads(head)
        version, of = said["trainyard trace"], str(said["of"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{path} is no trace: its first line does not say so") from error
    if version != TRACE_VERSION:
        raise BadInputError(
            f"{path} is a trace of version {version}; this is version {TRACE_VERSION}: make it anew"
        )
    return of, lines


# ----------------------------------------------------------------------------------------------------- what is tried

Spaces = Mapping[str, tuple[Fault, ...]]
"""By scenario: every single fault at every place that its clean world passes."""


def space_of(story: Story) -> tuple[Fault, ...]:
    return tuple(singles(story.places))


def of_kinds(spaces: Spaces, kinds: Iterable[Kind]) -> Spaces:
    """What is left of them; a scenario without any such fault is left out."""
    wanted = set(kinds)
    left = {name: tuple(fault for fault in faults if fault.kind in wanted) for name, faults in spaces.items()}
    return {name: faults for name, faults in left.items() if faults}


def each_single(spaces: Spaces) -> list[Trial]:
    return [Trial(scenario, (fault,)) for scenario, faults in spaces.items() for fault in faults]


def sample(trials: Sequence[Trial], count: int, seed: int) -> list[Trial]:
    """So many of them, others for another seed, in their order."""
    if count >= len(trials):
        return list(trials)
    chance = random.Random(_number("sample", seed))
    return [trials[index] for index in sorted(chance.sample(range(len(trials)), count))]


def chosen(spaces: Spaces, seed: int) -> Trial:
    """Two or three faults at places of one scenario, and the seed of their world, all by this seed.

    Scenarios have the weight of their places; in one, each kind of fault is as likely as any other.
    """
    chance = random.Random(_number("choice", seed))
    indexes = {name: _index(faults) for name, faults in spaces.items()}
    weights = [sum(map(len, index.values())) for index in indexes.values()]
    scenario = chance.choices(list(indexes), weights)[0]
    places = indexes[scenario]
    faults: dict[str, Fault] = {}
    wanted = min(chance.choice((2, 2, 3)), sum(map(len, places.values())))
    while len(faults) < wanted:
        of_kind = places[chance.choice(list(places))]
        place = chance.choice(list(of_kind))
        fault = chance.choice(of_kind[place])
        faults.setdefault(f"{fault.kind} {place}", fault)
    return Trial(scenario, tuple(faults.values()), seed)


_INDEXES: dict[int, tuple[tuple[Fault, ...], dict[Kind, dict[str, list[Fault]]]]] = {}


def _index(faults: tuple[Fault, ...]) -> dict[Kind, dict[str, list[Fault]]]:
    """By kind and place. Made once."""
    if id(faults) not in _INDEXES:
        index: dict[Kind, dict[str, list[Fault]]] = {}
        for fault in faults:
            index.setdefault(fault.kind, {}).setdefault(fault.place, []).append(fault)
        _INDEXES[id(faults)] = faults, index
    return _INDEXES[id(faults)][1]


def _number(of: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{of}/{seed}".encode()).digest()[:8])


def smaller(trial: Trial) -> Iterator[Trial]:
    """The same world with fewer of its faults, the fewest first."""
    count = len(trial.faults)
    for bits in sorted(range(2**count - 1), key=lambda bits: (bits.bit_count(), bits)):
        yield trial.only(fault for number, fault in enumerate(trial.faults) if bits >> number & 1)


# --------------------------------------------------------------------------------------------------------- on all cores


class WorkerDiedError(Exception):
    """A process of ours was killed: which worlds were under way."""


class Cores:
    """Worker processes in which worlds happen; used as a context."""

    def __init__(self, assembly: Path, jobs: int | None = None) -> None:
        self.jobs = jobs or len(os.sched_getaffinity(0))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["simulation.campaign"])
        self._pool = ProcessPoolExecutor(
            self.jobs, mp_context=context, initializer=_begin, initargs=(assembly,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def clean(self, scenarios: Iterable[str]) -> dict[str, tuple[Finding, tuple[Fault, ...]]]:
        """The clean world of each, and the faults that its places allow."""
        names = list(scenarios)
        return dict(zip(names, self._all(_clean, names, chunk=1), strict=True))

    def findings(self, trials: Sequence[Trial], heard: Callable[[Sequence[Finding]], None]) -> list[Finding]:
        """In the order of the trials; `heard` is told of them as they come."""
        return self._all(_find, trials, heard=heard)

    def stories(self, findings: Sequence[Finding]) -> list[Retold]:
        """These worlds once more, in full."""
        return self._all(_retell, findings, chunk=1)

    def _all(
        self,
        function: Callable[[Work], Answer],
        works: Sequence[Work],
        *,
        heard: Callable[[Sequence[Answer]], None] = lambda _: None,
        chunk: int = CHUNK,
    ) -> list[Answer]:
        chunks = [works[start : start + chunk] for start in range(0, len(works), chunk)]
        futures: dict[Future[list[Answer]], int] = {
            self._pool.submit(_each, function, part): number for number, part in enumerate(chunks)
        }
        answers: dict[int, list[Answer]] = {}
        try:
            for future in as_completed(futures):
                answers[futures[future]] = future.result()
                heard(answers[futures[future]])
        except BrokenProcessPool as error:
            missing = [
                str(work) for number, part in enumerate(chunks) if number not in answers for work in part
            ]
            raise WorkerDiedError(
                f"a worker was killed; among the worlds under way: {'; '.join(missing[:CHUNK])}"
            ) from error
        return [answer for number in sorted(answers) for answer in answers[number]]


_ASSEMBLY: list[Path] = []


def _begin(assembly: Path) -> None:
    """Of a worker. Control-C is for the process that has the terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ASSEMBLY[:] = [assembly]


def _each(function: Callable[[Work], Answer], works: Sequence[Work]) -> list[Answer]:
    return [function(work) for work in works]


def _find(trial: Trial) -> Finding:
    return tried(_ASSEMBLY[0], trial).finding


def _clean(scenario: str) -> tuple[Finding, tuple[Fault, ...]]:
    told = tried(_ASSEMBLY[0], Trial(scenario, seed=CLEAN_SEED))
    return told.finding, space_of(told.story) if told.story else ()


def _retell(finding: Finding) -> Retold:
    told = tried(_ASSEMBLY[0], finding.trial, in_full=True)
    return Retold(finding, told.lines, told.finding.digest == finding.digest)
