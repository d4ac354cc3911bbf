"""A case is one world to simulate: its scenario, faults and seed. A finding is the result of a case.

The text of a case can be copied: `train: FAULT + FAULT`, or `train@57: ...` if the seed of the world is not 1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulation.detection import Detection
from simulation.faults import Fault
from simulation.scenarios import NAMED

CLEAN_SEED = 1
SEPARATOR = " + "
SIMULATOR = "the simulator itself works"
"""The invariant that a world breaks if the code of the simulator itself raises."""


class BadInputError(Exception):
    """The input is invalid. The message says in one line what is valid."""


@dataclass(frozen=True)
class Case:
    scenario: str
    faults: tuple[Fault, ...] = ()
    seed: int = CLEAN_SEED

    def __str__(self) -> str:
        world = self.scenario if self.seed == CLEAN_SEED else f"{self.scenario}@{self.seed}"
        return f"{world}: {SEPARATOR.join(map(str, self.faults))}" if self.faults else world

    @property
    def command(self) -> str:
        """Return the command that replays the case."""
        text = str(self)
        return f"make simulate SEED='{text}'" if "'" not in text else f'make simulate SEED="{text}"'

    def only(self, faults: Iterable[Fault]) -> Case:
        """Return the same world with only these faults."""
        return Case(self.scenario, tuple(faults), self.seed)


@dataclass(frozen=True)
class Violation:
    invariant: str
    what: str
    """The observation."""
    seconds: float
    """Seconds since the beginning of the world."""


@dataclass(frozen=True)
class Finding:
    case: Case
    injected: tuple[Fault, ...] = ()
    """The faults that were injected. A world may end before it reaches the others."""
    violations: tuple[Violation, ...] = ()
    outcome: str = ""
    """The status of each run."""
    recoveries: int = 0
    """The number of new attempts of all runs."""
    seconds: float = 0.0
    """Virtual time until the last run ended."""
    cpu: float = 0.0
    detection: Detection | None = None
    digest: str = ""
    """The digest of the world's trace."""

    @property
    def succeeded(self) -> bool:
        return all("SUCCEEDED" in each for each in self.outcome.split("; ") if ": " in each)

    def breaks(self, invariants: Iterable[str]) -> bool:
        broken = {each.invariant for each in self.violations}
        return not broken.isdisjoint(invariants)


@dataclass(frozen=True)
class Group:
    """Violations of one invariant with one cause, the shortest case first."""

    invariant: str
    cause: str
    findings: Sequence[Finding]

    @property
    def scenarios(self) -> list[str]:
        return sorted({finding.case.scenario for finding in self.findings})

    @property
    def whats(self) -> list[str]:
        return sorted({fault.what for finding in self.findings for fault in finding.injected})


def parse(text: str) -> Case:
    """Parse the result of str(). Raises BadInputError."""
    world, _, faults = text.strip().partition(": ")
    name, _, seed = world.rstrip(": ").partition("@")
    if seed and not seed.isdecimal():
        raise BadInputError(f"{seed!r} is not a number: write the seed of a world as in train@57")
    scenario = check_scenario(name)
    try:
        parsed = tuple(Fault.parse(each) for each in faults.split(SEPARATOR) if each.strip())
    except ValueError as error:
        raise BadInputError(str(error)) from error
    return Case(scenario, parsed, int(seed or CLEAN_SEED))


def check_scenario(name: str) -> str:
    """Return the name. Raises BadInputError for an unknown scenario, and suggests similar ones."""
    return check_name(name, NAMED, "scenario")


def check_name(name: str, names: Iterable[str], kind: str) -> str:
    """Return `name` if it is in `names`. Raises BadInputError otherwise."""
    names = [str(each) for each in names]
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise BadInputError(f"unknown {kind} {name!r}: {hint}valid: {', '.join(names)}")


def group_findings(findings: Iterable[Finding]) -> list[Group]:
    """Group violations by invariant and cause, the most frequent first."""
    by_cause: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        for violation in finding.violations:
            by_cause.setdefault((violation.invariant, mask_ids(violation.what)), []).append(finding)
    groups = [
        Group(invariant, cause, sorted(found, key=lambda each: (len(each.case.faults), len(str(each.case)))))
        for (invariant, cause), found in by_cause.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.findings), group.invariant, group.cause))


INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?")
AWS_ID = re.compile(r"\b(i|ami|fleet|snap|vol|subnet|lt|sir|eni)-[0-9a-f]{6,17}\b")
RUN = re.compile(r"\b[a-z][\w-]*-[0-9a-f]{8}\b")
NUMBER = re.compile(r"(?<![\w.])\d+(\.\d+)?(?![\w.]*\w)")
LIST = re.compile(r"(HOST|IMAGE|N)( \(\w[\w-]*\))?(, \1( \(\w[\w-]*\))?)+")
IDS = {"i": "HOST", "ami": "IMAGE"}
LONGEST_CAUSE = 240


def mask_ids(text: str) -> str:
    """Replace runs, hosts, images, times and numbers in a text, so that equal causes compare equal."""
    text = INSTANT.sub("WHEN", text)
    text = AWS_ID.sub(lambda found: IDS.get(found[1], found[1].upper()), text)
    text = RUN.sub("RUN", text)
    text = NUMBER.sub("N", text)
    text = " ".join(LIST.sub(r"\1s", text).split())
    return text if len(text) <= LONGEST_CAUSE else f"{text[:LONGEST_CAUSE].rstrip()} ..."
