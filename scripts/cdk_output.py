"""Parser of `cdk deploy`'s output, line by line: completed stacks and failed resources. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainyard.values.quantities import format_count

ANSI = re.compile(r"\x1b\[[0-9;]*m")
DEPLOYING = re.compile(r"^\S+ \((?P<stack>[^)]+)\): deploying\.\.\. \[(?P<number>\d+)/(?P<count>\d+)\]")
DONE = re.compile(r"^\s*✅\s+\S+ \((?P<stack>[^)]+)\)(?P<same> \(no changes\))?")
EVENT = re.compile(
    r"^(?P<stack>[\w-]+) \|[^|]*\|[^|]*\| (?P<status>[A-Z_]+)\s*\| (?P<kind>[\w:]+)\s*\| (?P<rest>.*)$"
)
STACK_TYPE = "AWS::CloudFormation::Stack"
CANCELLED = "Resource creation cancelled"
"""CloudFormation's reason for resources that another failure cancelled."""


@dataclass(frozen=True)
class StackDone:
    """A completed stack. `changed` counts its created, changed and deleted resources."""

    name: str
    number: int
    count: int
    change: str
    changed: int

    def __str__(self) -> str:
        of = f"{self.number}/{self.count}"
        resources = f", {format_count(self.changed, 'resource')}" if self.changed else ""
        return f"{of:<9}  {self.name} {self.change}{resources}"


@dataclass(frozen=True)
class Failure:
    """A resource that CloudFormation could not create, change or delete, with its reason."""

    stack: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.stack}: {self.kind} {self.what}"


@dataclass
class Progress:
    """Progress of `cdk deploy`."""

    done: list[StackDone] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """Types of created, changed and deleted resources."""
    _numbers: dict[str, tuple[int, int]] = field(default_factory=dict)
    _changed: dict[str, dict[str, str]] = field(default_factory=dict)

    def read(self, line: str) -> StackDone | None:
        """Parse a line. Return the stack that it completes, or None."""
        text = ANSI.sub("", line).rstrip()
        if found := DEPLOYING.match(text):
            self._numbers[found["stack"]] = int(found["number"]), int(found["count"])
        elif found := EVENT.match(text):
            self._read_event(found)
        elif found := DONE.match(text):
            return self._finish(found["stack"], is_same=bool(found["same"]))
        return None

    def _read_event(self, event: re.Match[str]) -> None:
        stack, status, kind, rest = event["stack"], event["status"], event["kind"], event["rest"].strip()
        if status.endswith("_FAILED") and CANCELLED not in rest:
            self.failures.append(Failure(stack, kind, rest))
        if kind != STACK_TYPE and status.endswith("_COMPLETE") and not status.startswith("ROLLBACK"):
            self._changed.setdefault(stack, {})[rest] = status.partition("_")[0]
            self.kinds.add(kind)

    def _finish(self, stack: str, *, is_same: bool) -> StackDone:
        number, count = self._numbers.get(stack, (len(self.done) + 1, len(self.done) + 1))
        changed = self._changed.get(stack, {})
        kinds = set(changed.values())
        change = "unchanged" if is_same else "created" if kinds == {"CREATE"} else "updated"
        made = StackDone(stack, number, count, change, 0 if is_same else len(changed))
        self.done.append(made)
        return made


def describe_stacks(done: Sequence[StackDone]) -> str:
    """Return the numbers of created, updated and unchanged stacks: `7 created`."""
    counts = {each.change: 0 for each in done}
    for each in done:
        counts[each.change] += 1
    return ", ".join(f"{count} {change}" for change, count in counts.items())
