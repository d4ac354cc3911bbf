"""Which worlds are tried, on all cores, and what came of each: the same request makes the same findings anywhere."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import multiprocessing
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from simulation import detection, timeline
from simulation.faults import EventFault, Fault, Kind, Place, Plan, has_its_turn, like_others, singles
from simulation.scenarios import SCENARIOS
from simulation.story import Story, follow
from simulation.timeline import Line
from simulation.trials import process
from simulation.trials.forks import AllTold, Forks, in_turn
from simulation.trials.process import MOST_CPU_SECONDS, TooLong
from simulation.trials.trial import CLEAN_SEED, SIMULATOR, BadInputError, Finding, Trial, Violation, parse
from simulation.world.world import BEGINNING, Entry

MOST_BRANCHES = 64
"""Of one world. More would cost less, and make who waits for the end of what goes on wait longer."""
MOST_IN_TURN = 16
"""Of worlds that have nothing in common: the more, the longer somebody waits to hear of them."""
WORTH_A_FORK = 90
"""So many places a world has passed when it has taken as long as a fork takes (25 ms): copies of the pages that both
write to, above all. What has less in common with others is told from its beginning."""
RECOVERS = {
    "train": "train: host host-1 after progress #2: dies",
    "servers": "servers: host host-2 after progress #2: dies",
}
"""A world of each workflow that trains in which a second attempt is needed."""
TRACE_VERSION = 1
IN_JSON = json.JSONEncoder(default=str, sort_keys=True).encode

Work = TypeVar("Work")
Answer = TypeVar("Answer")


# ------------------------------------------------------------------------------------------------------------ one world


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
    began = time.process_time()
    told = _followed(assembly, trial, Plan(trial.faults), in_full=in_full)
    told.finding = dataclasses.replace(told.finding, cpu=time.process_time() - began)
    process.tidy()
    return told


def branched(assembly: Path, trials: Sequence[Trial]) -> list[Finding]:
    """Of worlds of one scenario and seed, most of them forks of their clean world: what `tried` finds, for less."""
    _load(assembly, trials[0].scenario)
    forks = Forks[Finding](trials, WORTH_A_FORK)
    told: Told | None = None
    try:
        told = _followed(assembly, trials[0].only(()), forks)
    except AllTold:
        pass
    finally:
        if forks.asked:
            forks.answer(dataclasses.replace(told.finding, cpu=time.process_time()) if told else None)
    process.tidy()
    return [*_heard(forks.answers), *_in_turn(assembly, (*forks.early, *forks.left))]


def _in_turn(assembly: Path, trials: Sequence[Trial]) -> list[Finding]:
    """Of worlds that have little or nothing in common."""
    for scenario in {trial.scenario for trial in trials}:
        _load(assembly, scenario)
    return _heard(in_turn(trials, lambda trial: tried(assembly, trial).finding))


def _heard(answers: Mapping[Trial, Finding | int]) -> list[Finding]:
    return [_died(trial, answer) if isinstance(answer, int) else answer for trial, answer in answers.items()]


def _died(trial: Trial, code: int) -> Finding:
    said = f"its process ended with {code} and said nothing"
    return Finding(trial, violations=(Violation(SIMULATOR, said, 0.0),))


@functools.cache
def _load(assembly: Path, scenario: str) -> None:
    """What its worlds need: each fork would load it for itself."""
    tried(assembly, Trial(scenario))


def _followed(assembly: Path, trial: Trial, plan: Plan, *, in_full: bool = False) -> Told:
    """The world of this plan; its finding is of the faults that the plan has then."""
    template = process.prepared(assembly)
    decided: list[timeline.Decision] = []
    try:
        with process.limited():
            story = follow(
                template,
                SCENARIOS[trial.scenario],
                plan,
                seed=trial.seed,
                at_end=lambda yard: decided.extend(timeline.decisions(yard) if in_full else ()),
            )
        finding = found(trial.only(plan.faults), story)
        return Told(finding, story, timeline.told(story.trace, decided) if in_full else [])
    except (Exception, TooLong) as error:  # noqa: BLE001 - whatever it is, it is the finding
        return Told(Finding(trial.only(plan.faults), violations=(_crash(error),)))


def found(trial: Trial, story: Story) -> Finding:
    """The finding of a world that has come to its end."""
    broken = [
        Violation(str(each.promise), each.what, (each.at - BEGINNING).total_seconds())
        for each in story.broken
    ]
    only = trial.faults[0] if len(trial.faults) == 1 else None
    seen = detection.detected(only, story.trace) if only else None
    if seen and seen.late and trial.scenario in detection.TRAINING:
        broken.append(Violation(detection.IN_TIME, seen.how_late, seen.asked))
    return Finding(
        trial,
        met=story.struck,
        violations=tuple(broken),
        outcome=story.outcome,
        recoveries=_recoveries(story.trace),
        seconds=story.virtual_seconds,
        detection=seen,
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


# ----------------------------------------------------------------------------------------------------------- the trace


def trace_lines(trace: Iterable[Entry]) -> Iterator[str]:
    """The trace as JSON, a line for each entry."""
    for entry in trace:
        line = {"at": entry.at.isoformat(), "who": entry.who, "what": entry.what, "details": entry.details}
        yield IN_JSON(line)


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


@dataclass(frozen=True)
class Clean:
    """A scenario's world without faults: the faults that its places allow, and which of these are like others."""

    finding: Finding
    faults: tuple[Fault, ...] = ()
    like_others: frozenset[Place] = frozenset()


Spaces = Mapping[str, tuple[Fault, ...]]
"""By scenario: every single fault at every place that its clean world passes."""


def space_of(story: Story) -> tuple[Fault, ...]:
    return tuple(singles(story.places))


def of_kinds(spaces: Spaces, kinds: Iterable[Kind]) -> Spaces:
    """What is left of them; a scenario without any such fault is left out."""
    wanted = set(kinds)
    left = {name: tuple(fault for fault in faults if fault.kind in wanted) for name, faults in spaces.items()}
    return {name: faults for name, faults in left.items() if faults}


def its_own(spaces: Spaces) -> Spaces:
    """Of a scenario that begins, or ends, like another one the faults from the first place of its own up to the last,
    whatever their kind."""
    found = {}
    for name, faults in spaces.items():
        scenario = SCENARIOS[name]
        own = itertools.dropwhile(partial(_is_before, scenario.since), faults)
        found[name] = tuple(
            itertools.takewhile(partial(_is_before, scenario.until), own) if scenario.until else own
        )
    return found


def _is_before(place: str, fault: Fault) -> bool:
    return not fault.place.startswith(place)


def one_of_each(spaces: Spaces, clean: Mapping[str, Clean]) -> Spaces:
    """Without the faults at places that are like others, and those that are like others at their place."""
    return {
        name: tuple(
            each
            for each in faults
            if (each.kind, each.place) not in clean[name].like_others and has_its_turn(each)
        )
        for name, faults in spaces.items()
    }


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


@dataclass(frozen=True)
class Branches:
    """Worlds of one scenario and seed, or each of one of its own, which one worker takes."""

    trials: Sequence[Trial]

    def __str__(self) -> str:
        return "; ".join(map(str, self.trials))


def _branches(trials: Iterable[Trial]) -> Iterator[Branches]:
    of_one: dict[Trial, list[Trial]] = {}
    for trial in trials:
        of_one.setdefault(trial.only(()), []).append(trial)
    alone = [all_of_it[0] for all_of_it in of_one.values() if len(all_of_it) == 1]
    for all_of_it in of_one.values():
        if len(all_of_it) > 1:
            yield from map(Branches, _parts(all_of_it, MOST_BRANCHES))
    for part in _parts(alone, MOST_IN_TURN):
        yield Branches(part)


def _parts(trials: Sequence[Trial], most: int) -> Iterator[Sequence[Trial]]:
    return (trials[start : start + most] for start in range(0, len(trials), most))


class Cores:
    """Worker processes in which worlds happen; used as a context."""

    def __init__(self, assembly: Path, jobs: int | None = None) -> None:
        self.jobs = jobs or len(os.sched_getaffinity(0))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["simulation.trials.campaign"])
        self._pool = ProcessPoolExecutor(
            self.jobs, mp_context=context, initializer=_begin, initargs=(assembly,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def clean(self, scenarios: Iterable[str]) -> dict[str, Clean]:
        """The clean world of each."""
        names = list(scenarios)
        return dict(zip(names, self._all(_clean, names), strict=True))

    def late_news(self, scenarios: Iterable[str]) -> list[Trial]:
        """Worlds in which what a host said of an attempt that is over comes in the midst of the next: no single fault
        brings both about."""
        recovered = [RECOVERS[name] for name in scenarios if name in RECOVERS]
        return [trial for trials in self._all(_late_news, recovered) for trial in trials]

    def findings(self, trials: Sequence[Trial], heard: Callable[[Sequence[Finding]], None]) -> list[Finding]:
        """In the order of the trials; `heard` is told of them as they come."""
        parts = self._all(_find, list(_branches(trials)), heard)
        by_trial = {finding.trial: finding for part in parts for finding in part}
        return [by_trial[trial] for trial in trials]

    def stories(self, findings: Sequence[Finding]) -> list[Retold]:
        """These worlds once more, in full."""
        return self._all(_retell, findings)

    def _all(
        self,
        function: Callable[[Work], Answer],
        works: Sequence[Work],
        heard: Callable[[Answer], None] = lambda _: None,
    ) -> list[Answer]:
        futures = {self._pool.submit(function, work): number for number, work in enumerate(works)}
        answers: dict[int, Answer] = {}
        try:
            for future in as_completed(futures):
                answers[futures[future]] = future.result()
                heard(answers[futures[future]])
        except BrokenProcessPool as error:
            missing = [str(work) for number, work in enumerate(works) if number not in answers]
            raise WorkerDiedError(
                f"a worker was killed; among the worlds under way: {'; '.join(missing[: self.jobs + 1])}"
            ) from error
        return [answers[number] for number in sorted(answers)]


_ASSEMBLY: list[Path] = []


def _begin(assembly: Path) -> None:
    """Of a worker. Control-C is for the process that has the terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ASSEMBLY[:] = [assembly]


def _find(branches: Branches) -> list[Finding]:
    worlds = {trial.only(()) for trial in branches.trials}
    tells = branched if len(worlds) == 1 else _in_turn
    return tells(_ASSEMBLY[0], branches.trials)


def _clean(scenario: str) -> Clean:
    told = tried(_ASSEMBLY[0], Trial(scenario, seed=CLEAN_SEED))
    if told.story is None:
        return Clean(told.finding)
    return Clean(told.finding, space_of(told.story), like_others(told.story.places))


def _late_news(recovers: str) -> list[Trial]:
    first = parse(recovers)
    told = tried(_ASSEMBLY[0], first)
    places = space_of(told.story) if told.story else ()
    return [
        Trial(first.scenario, (*first.faults, fault))
        for fault in places
        if fault.kind is Kind.EVENT and fault.what == EventFault.VERY_LATE and "HostSignal" in fault.place
    ]


def _retell(finding: Finding) -> Retold:
    told = tried(_ASSEMBLY[0], finding.trial, in_full=True)
    return Retold(finding, told.lines, told.finding.digest == finding.digest)
