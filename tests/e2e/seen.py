"""A run in lines: as everybody can see it, without ids and instants, so that those of two clouds can be compared."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.base.calls import AGAIN

SUBSTITUTES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?"), "WHEN"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b(ami|subnet|snap|vol|fleet|sir|lt)-[0-9a-f]{8,17}\b"), r"\1-ID"),
    (re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"), "ADDRESS"),
    (re.compile(r"\bsteps? \d+"), "step N"),
    (re.compile(r"\b[\d.]+ (s|seconds|minutes|min)\b"), r"N \1"),
    (re.compile(r"checkpoints/\d{8}\b"), "checkpoints/STEP"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "COMMAND"),
    (
        re.compile(r"\b(RuntimeError: told to fail|ValueError: a fault of the program)\b"),
        "THE PROGRAM'S ERROR",
    ),
    (re.compile(r"The program's last lines:.*", re.DOTALL), "The program's last lines: ..."),
    (re.compile(r"^(checkpoints/STEP|model|tensorboard)/.*"), r"\1/*"),
]
TOLD_TO_LEAVE = ("asked", "peer", "interrupted")
"""Which of these a host says first when the gang is to leave is chance."""
ROLE = re.compile(r"(?:^|-)([A-Za-z]+?)[0-9A-Fa-f]{8}(?:-|$)")

# ------------------------------------------------------------------------------------------------- what is not compared

NOT_OF_THE_RUN = re.compile(r"patrol|^root$|^arn:|^cdk-", re.IGNORECASE)
"""Callers who would have asked without it: patrol, once a minute; people; the deployment."""
PLATFORMS_OWN = re.compile(
    r"^(logs|lambda|sts|xray|ssmmessages|ec2messages|kms):|^ssm:UpdateInstanceInformation$"
)
"""What Lambda, Step Functions and the agents of AWS ask of their own accord: no call of the product's."""
AS_OFTEN_AS_IT_LASTS = ("Signal", "Host", "SignalRun", "DevHostAwaitHost")
"""Roles whose calls are as many as a run says progress, saves checkpoints, brings its log away: signal's, the
host's own and that of its run; and who looks every few seconds whether a host is there."""
PROGRAMS_OWN = re.compile(r" job program args (?!steps)")
"""Arguments of the program: the simulated one has words of its own."""
VARIES: Mapping[str, tuple[str, ...]] = {
    "attempt": (
        "launched",
        "gang_ready",
        "started",
        "ended",
        "reported",
        "checkpointed",
        "from_step",
        "to_step",
        "hosts",
        "resumed",
    ),
    "host": ("launched", "ready", "ready_at", "address", "releasing", "ended", "warned", "stopped_at", "why"),
    "intent": ("token", "at", "answered"),
    "token": ("token", "stored", "answered"),
    "wait": ("since", "command", "image"),
    "plan": ("made", "image", "candidates"),
    "run": (
        "created", "month", "deadline", "ended", "execution_arn", "progress", "job", "job_key", "image_id", "dollars",
        "saved_dollars",
    ),
}  # fmt: skip
"""Attributes by row whose values are instants, ids, or what training has come to by then: compared by name alone."""
WHILE_IT_WORKS = "/working/"
"""What hosts leave in there depends on how long their programs take: they look once a minute."""
IN_VALUES = ("tail", "step")
"""What varies within a value."""
REPEATS = ("checkpointed", "ready")
"""What a host says again while a thing lasts: once is as good as twice. That it is ready for an
attempt in which it has no part is left out: whether it gets that far before it ends is chance."""


@dataclass(frozen=True)
class Difference:
    """A line that one of the two has alone."""

    aspect: str
    where: str
    line: str

    def __str__(self) -> str:
        return f"{self.aspect}: only {self.where}: {self.line}"


@dataclass(frozen=True)
class Seen:
    """Lines by aspect. Those of `calls`, `rows`, `keys` and `documents` have no order."""

    aspects: Mapping[str, list[str]]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Seen:
        names = Names(told)
        aspects = {
            "states": [*told["states"], f"{told['status']} {told['error']}".strip()],
            "calls": sorted(_calls(told["calls"])),
            "rows": sorted(_row(row, names) for row in told["rows"]),
            "keys": sorted({names.of_key(key) for key in told["keys"] if WHILE_IT_WORKS not in key}),
            "documents": sorted({line for name, content in told["documents"].items()
                                 for line in _paths(names.plain(name), content)}),
        }  # fmt: skip
        return cls(aspects | _timelines(told["timeline"], names))

    def differences(self, simulated: Seen) -> list[Difference]:
        """In the order of the aspects; an empty aspect is one that the other has not."""
        found: list[Difference] = []
        for aspect in [*self.aspects, *(each for each in simulated.aspects if each not in self.aspects)]:
            here, there = self.aspects.get(aspect, []), simulated.aspects.get(aspect, [])
            matcher = difflib.SequenceMatcher(a=here, b=there, autojunk=False)
            for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
                if tag != "equal":
                    found += [Difference(aspect, "on the local cloud", line) for line in here[a_from:a_to]]
                    found += [Difference(aspect, "in the simulator", line) for line in there[b_from:b_to]]
        return found


class Names:
    """Plain names for what each cloud names by chance. A host is called by its place in that attempt, else by that in
    its first one: which of two hosts becomes the chief follows from their ids."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._run = str(told["run"])
        self._places: dict[int, dict[str, str]] = {}
        self._first: dict[str, str] = {}
        for key, document in sorted(told["documents"].items()):
            if key.endswith("/cluster.json"):
                attempt = int(document["attempt"])
                places = {host["instance"]: f"{host['role']}-{host['index']}" for host in document["hosts"]}
                self._places[attempt] = places
                for instance, name in places.items():
                    self._first.setdefault(instance, name if attempt == 1 else "a newcomer")

    def plain(self, text: str, attempt: int | None = None) -> str:
        for instance, name in (self._first | self._places.get(attempt or 0, {})).items():
            text = text.replace(instance, name)
        text = re.sub(r"\bAROA\w+:", "", text)  # the id of its role, before a host
        text = re.sub(r"\bi-[0-9a-f]{8,17}\b", "HOST", text).replace(self._run, "RUN")
        for pattern, name in SUBSTITUTES:
            text = pattern.sub(name, text)
        return text

    def of_key(self, key: str) -> str:
        found = re.match(r"attempts/(\d+)/", key)
        return self.plain(key, int(found[1]) if found else None)

    def takes_part(self, instance: str, attempt: int) -> bool:
        return instance in self._places.get(attempt, {})


def is_background(caller: str) -> bool:
    """Whether it asks whatever this run does."""
    return NOT_OF_THE_RUN.search(caller) is not None


def _calls(calls: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Without those that met another one, or a rate: botocore asks again by itself."""
    totals: Counter[tuple[str, str]] = Counter()
    for caller, counts in calls.items():
        if not is_background(caller):
            for action, times in counts.items():
                totals[_role(caller), action] += times
    for (role, action), times in totals.items():
        if not (PLATFORMS_OWN.search(action) or action.endswith(AGAIN)):
            yield f"{role} {action}" + ("" if role in AS_OFTEN_AS_IT_LASTS else f" x {times}")


def _role(caller: str) -> str:
    """`TrainLaunch` of `Trainyard-Training-TrainLaunchRoleAFDFF371-GYWT5IBYHDDI`."""
    found = ROLE.search(caller)
    return (found[1] if found else caller).removesuffix("Role")


def _row(row: Mapping[str, Any], names: Names) -> str:
    kind = str(row["sk"]).partition("#")[0]
    varies = VARIES.get(kind, ())
    shown = [
        name if name in varies else f"{name}={names.plain(_text(value))}"
        for name, value in sorted(row.items())
        if name not in ("pk", "sk")
    ]
    key = re.sub(r"^host#.*", "host#", str(row["sk"]))
    return f"{key}: {', '.join(shown)}"


def _timelines(rows: Iterable[Mapping[str, Any]], names: Names) -> dict[str, list[str]]:
    """By source, and of hosts by host: between two sources the order is chance."""
    lines: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: str(row["sk"])):
        attempt, instance = int(row["attempt"] or 0), str(row["instance"])
        if row["event"] == "ready" and not names.takes_part(instance, attempt):
            continue
        source = names.plain(instance, attempt) if row["source"] == "host" else str(row["source"])
        mine, line = lines.setdefault(f"timeline of {source}", []), _event(row, names)
        if not (mine and mine[-1] == line and row["event"] in REPEATS):
            mine.append(line)
    return lines


def _event(row: Mapping[str, Any], names: Names) -> str:
    attempt = "" if row["attempt"] is None else f" (attempt {int(row['attempt'])})"
    reason = names.plain(str(row["reason"] or ""))
    if row["event"] == "stopped" and reason in TOLD_TO_LEAVE:
        reason = "told to leave"
    if row["event"] in ("released", "retired"):
        reason = "; ".join(sorted(reason.split("; ")))
    return f"{row['event']}{attempt}: {reason} [{', '.join(sorted(row['detail'] or {}))}]"


def _paths(path: str, content: Any) -> Iterator[str]:
    """Every place in a document, with the sort of value that it has there."""
    if PROGRAMS_OWN.search(path):
        return
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _paths(f"{path} {key}", value)
    elif isinstance(content, list) and content:
        for value in content:
            yield from _paths(f"{path}[]", value)
    else:
        sort = (
            "number"
            if isinstance(content, int | float) and not isinstance(content, bool)
            else type(content).__name__
        )
        yield f"{path}: {sort}"


def _text(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """DynamoDB's numbers as JSON has them, JSON in a text as what it says."""
    if isinstance(value, Mapping):
        return {str(key): key.upper() if key in IN_VALUES else _plain(each) for key, each in value.items()}
    if isinstance(value, str) and value.startswith("{"):
        return _plain(json.loads(value))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | bool):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number
