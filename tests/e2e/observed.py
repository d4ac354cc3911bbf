"""Describe a run in lines without IDs and times, so that runs on two clouds can be compared."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.base.calls import RETRYABLE

SUBSTITUTES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?"), "WHEN"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b(ami|subnet|snap|vol|fleet|sir|lt)-[0-9a-f]{8,17}\b"), r"\1-ID"),
    (re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"), "ADDRESS"),
    (re.compile(r"(metrics/\d{4}-)\d{8}T\d+"), r"\1WHEN"),
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
STOP_REASONS = ("asked", "peer", "interrupted")
"""Reasons to stop. Chance decides which of them a host reports first when the gang must leave."""
ROLE = re.compile(r"(?:^|-)([A-Za-z]+?)[0-9A-Fa-f]{8}(?:-|$)")

# ------------------------------------------------------------------------------------------------- what is not compared

INDEPENDENT_CALLERS = re.compile(r"patrol|notify|^root$|^arn:|^cdk-", re.IGNORECASE)
"""Callers that are independent of the run: patrol, users, and the deployment. Notify sends the notification of the end
at any time after it, so that its calls may count for the next run."""
PLATFORM_CALLS = re.compile(
    r"^(logs|lambda|sts|xray|ssmmessages|ec2messages|kms):|^ssm:UpdateInstanceInformation$"
)
"""Calls that Lambda, Step Functions and the agents of AWS make by themselves."""
POLLING_ROLES = ("Signal", "Host", "SignalRun", "DevHostAwaitHost")
"""Roles whose number of calls depends on the duration of a run: they report progress, save, upload logs, or poll."""
PROGRAM_ARGUMENTS = re.compile(r" job program args (?!steps)")
"""Arguments of the program. The simulated program has other ones."""
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
    "launch-request": ("token", "at", "answered"),
    "token": ("token", "stored", "answered"),
    "wait": ("since", "command", "image"),
    "plan": ("made", "image", "candidates"),
    "run": (
        "created", "month", "deadline", "ended", "execution_arn", "progress", "job", "args", "job_key",
        "image_id", "dollars", "saved_dollars",
    ),
}  # fmt: skip
"""Attributes whose values are times, IDs, or the progress of the training; only their names are compared."""
WORKING = "/working/"
"""Objects below this folder depend on the duration of programs, because hosts write them once a minute."""
IN_VALUES = ("tail", "step")
"""Keys within a value whose values vary."""
REPEATS = ("checkpointed", "ready")
"""Signals that a host repeats; repetitions are ignored.

`ready` for an attempt without the host is ignored, too, because chance decides whether the host still sends it.
"""


@dataclass(frozen=True)
class Difference:
    """A line that only one of the two clouds has."""

    aspect: str
    where: str
    line: str

    def __str__(self) -> str:
        return f"{self.aspect}: only {self.where}: {self.line}"


@dataclass(frozen=True)
class Seen:
    """Lines by aspect. The aspects `calls`, `rows`, `keys` and `documents` are sorted."""

    aspects: Mapping[str, list[str]]

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Seen:
        names = Names(run)
        aspects = {
            "states": [*run["states"], f"{run['status']} {run['error']}".strip()],
            "calls": sorted(_calls(run["calls"])),
            "rows": sorted(_row(row, names) for row in run["rows"]),
            "keys": sorted({names.of_key(key) for key in run["keys"] if WORKING not in key}),
            "documents": sorted({line for name, content in run["documents"].items()
                                 for line in _paths(names.plain(name), content)}),
        }  # fmt: skip
        return cls(aspects | _timelines(run["timeline"], names))

    def differences(self, simulated: Seen) -> list[Difference]:
        """Return the differences in the order of the aspects. A missing aspect is empty."""
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
    """Names that replace random IDs.

    A host has the name of its role in the attempt, otherwise in its first attempt. IDs decide which host becomes the
    chief.
    """

    def __init__(self, run: Mapping[str, Any]) -> None:
        self._run = str(run["run"])
        self._places: dict[int, dict[str, str]] = {}
        self._first: dict[str, str] = {}
        for key, document in sorted(run["documents"].items()):
            if key.endswith("/cluster.json"):
                attempt = int(document["attempt"])
                places = {host["instance"]: f"{host['role']}-{host['index']}" for host in document["hosts"]}
                self._places[attempt] = places
                for instance, name in places.items():
                    self._first.setdefault(instance, name if attempt == 1 else "a joining host")

    def plain(self, text: str, attempt: int | None = None) -> str:
        for instance, name in (self._first | self._places.get(attempt or 0, {})).items():
            text = text.replace(instance, name)
        text = re.sub(r"\bAROA\w+:", "", text)  # the ID of the role in the source of a signal
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
    """Return True for a caller that is independent of the run."""
    return INDEPENDENT_CALLERS.search(caller) is not None


def _calls(calls: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the calls except throttled and conflicting ones, which botocore repeats."""
    totals: Counter[tuple[str, str]] = Counter()
    for caller, counts in calls.items():
        if not is_background(caller):
            for action, times in counts.items():
                totals[_role(caller), action] += times
    for (role, action), times in totals.items():
        if not (PLATFORM_CALLS.search(action) or action.endswith(RETRYABLE)):
            yield f"{role} {action}" + ("" if role in POLLING_ROLES else f" x {times}")


def _role(caller: str) -> str:
    """Return `TrainLaunch` for `Trainyard-Training-TrainLaunchRoleAFDFF371-GYWT5IBYHDDI`."""
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
    """Return the lines by source and by host, because the order between two sources is random."""
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
    if row["event"] == "stopped" and reason in STOP_REASONS:
        reason = "asked to leave"
    if row["event"] in ("released", "retired"):
        reason = "; ".join(sorted(reason.split("; ")))
    return f"{row['event']}{attempt}: {reason} [{', '.join(sorted(row['detail'] or {}))}]"


def _paths(path: str, content: Any) -> Iterator[str]:
    """Yield each path in a JSON object with the type of its value."""
    if PROGRAM_ARGUMENTS.search(path):
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
    """Convert DynamoDB's numbers to JSON numbers, and parse JSON in texts."""
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
