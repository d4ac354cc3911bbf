"""Invariants that are checked at every write to the ledger and to the bucket, and for the notifications of ended
runs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lambdas.aws.dynamodb.serialization import unpack
from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item
from simulation.faults import MISSING, Kind, PersonFault, RequestFault
from training.host.checkpoints.catalogue import Version
from trainyard.protocol import keys
from trainyard.protocol.trial import study_of

if TYPE_CHECKING:
    from simulation.yard import Yard

STATES: Mapping[str, tuple[str, ...]] = {
    "train": (
        *("Admit", "AwaitRuns", "Plan", "Launch", "AwaitHosts", "Train"),
        *("Generalize", "Capture", "Release", "Conclude"),
    ),
    "study": ("Admit", "Search", "Conclude"),
    "bake": (
        *("Admit", "Plan", "Launch", "Install", "Test", "Generalize"),
        *("Capture", "Publish", "Release", "Conclude"),
    ),
    "dev-host": ("Admit", "Plan", "Launch", "Await", "Release", "Conclude"),
    "snapshot": ("Admit", "Pause", "Stop", "Capture", "Fate", "Conclude"),
}
"""The states of one attempt in order, by kind of run."""
RISING: Mapping[str, tuple[str, ...]] = {
    "study": ("version",),
    "model": ("version", "next"),
    "attempt": ("reported", "checkpointed", "saved"),
    "host": ("ready", "stopped"),
}
"""Attributes that never decrease, by the first word of a row's key."""
FIXED: Mapping[str, tuple[str, ...]] = {
    "attempt": ("ending", "ended", "gang_ready", "started"),
    "host": ("launched",),
    "trial": ("values", "asked", "reported", "value"),
    "run": ("created", "notified"),
    "version": ("number", "label", "request", "origin", "by", "at"),
    "moved": ("alias", "new", "by", "at", "request"),
}
"""Attributes that never change once they are written."""
VERSION_STATES = {"making": 0, "ready": 1, "retired": 2, "refused": 3}
"""The order of the states of a version."""
DELETES = (PersonFault.DELETES_ROWS, RequestFault.ROWS_DELETED)


def find_regressions(key: Key, before: Item, after: Item) -> Iterator[str]:
    """Yield each fact that a write of this row took back."""
    kind = key[1].partition("#")[0]
    was, now = unpack(before), unpack(after)
    for name in RISING.get(kind, ()):
        if name in was and (name not in now or now[name] < was[name]):
            yield f"{name} was {was[name]} and is {now.get(name)}"
    for name in FIXED.get(kind, ()):
        if name in was and now.get(name) != was[name]:
            yield f"{name} was {was[name]} and is {now.get(name)}"
    same_stop = kind == "host" and was.get("stopped") == now.get("stopped")
    if same_stop and was.get("stopped_at") != now.get("stopped_at"):
        yield f"stopped_at was {was['stopped_at']} and is {now['stopped_at']}"
    same_token = kind == "token" and was.get("token") == now.get("token")
    if same_token and "answered" in was and "answered" not in now:
        yield "its task token is not marked as answered anymore"
    if kind == "version" and VERSION_STATES[was["state"]] > VERSION_STATES[now["state"]]:
        yield f"it was {was['state']} and is {now['state']}"
    if kind == "run":
        yield from _run_regressions(was, now)


def _run_regressions(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if {"kind", "state"} <= was.keys() and _phase(now) < _phase(was):
        yield f"it was in {_name_row(was)} and is in {_name_row(now)}"
    old, new = (row.get("progress") or {} for row in (was, now))
    if old and (new.get("attempt"), new.get("at")) < (old["attempt"], old["at"]):
        yield f"its progress was from {old['at']} and is from {new.get('at')}"


def _phase(row: Mapping[str, Any]) -> tuple[int, int]:
    return int(row.get("attempt") or 0), STATES[row["kind"]].index(row["state"])


def _name_row(row: Mapping[str, Any]) -> str:
    return f"{row['state']} of attempt {row.get('attempt')}"


class Claims:
    """The runs that each host belongs to, by the ledger."""

    def __init__(self) -> None:
        self._runs: defaultdict[str, set[str]] = defaultdict(set)

    def look(self, key: Key, after: Item | None) -> str | None:
        """Return a description if a host belongs to two runs at once."""
        kind, _, instance = key[1].partition("#")
        if kind != "host":
            return None
        runs = self._runs[instance]
        if after and "launched" in after and "ended" not in after:
            runs.add(key[0])
        else:
            runs.discard(key[0])
        return f"{instance} belongs to {' and '.join(sorted(runs))} at once" if len(runs) > 1 else None


def find_missing(yard: Yard, key: str) -> str | None:
    """Return what a checkpoint catalog names that is missing in the bucket; None if it is complete."""
    if not key.endswith("/checkpoints/latest.json"):
        return None
    version = Version.from_json(yard.read_json(key))
    own = key.removesuffix("latest.json")
    manifest = yard.read_json(version.manifest_key)
    if not version.key.startswith(own):
        return None
    if manifest is None:
        return f"{key} names {version.key}, which has no manifest"
    lacks = [name for _, _, _, name in manifest["files"].values() if not yard.versions(f"{own}{name}")]
    return f"{key} names {version.key}, but {lacks[0]} is missing" if lacks else None


def find_replaced_end(yard: Yard, key: str) -> str | None:
    """Return how a summary contradicts the summary that it replaces; None if it does not."""
    if not key.endswith("/summary.json"):
        return None
    first, *_, last = (json.loads(each.body or b"") for each in 2 * yard.versions(key))
    names = ("outcome", "error", "reason", "ended")
    new = [tuple(summary[name] for name in names) for summary in (first, last)]
    is_same_run = first["created"] == last["created"]
    return f"{key} had the end {new[0]}, and now has {new[1]}" if is_same_run and new[0] != new[1] else None


def find_stranger(yard: Yard, key: str) -> str | None:
    """Return the host that got credentials of a run it does not belong to; None if it belongs to the run."""
    if not key.startswith(keys.CREDENTIALS):
        return None
    instance, run = key.removesuffix(".json").rpartition(":")[2], yard.read_json(key).get("Run")
    row = yard.dynamodb.row(yard.template.table.name, f"run#{run}", f"host#{instance}") if run else None
    is_its = run is None or (row is not None and "launched" in row)
    return None if is_its else f"{instance} has credentials of {run} but does not belong to it"


def check_notifications(yard: Yard) -> Iterator[str]:
    """Yield each run whose end was not notified exactly once, and each trial whose end was.

    A function that dies while it sends, or whose answer is lost, may send again.
    """
    faults = yard.plan.injected
    if any(fault.what in (*DELETES, *MISSING) for fault in faults):
        return
    again = sum(
        fault.kind in (Kind.REQUEST, Kind.INVOCATION) and "conclude" in fault.point for fault in faults
    )
    sent = Counter(
        notification.subject.split()[1]
        for notification in yard.notifications.published
        if _reports_an_end(notification.subject)
    )
    for execution in yard.runs():
        row = yard.run_row(execution.name) or {}
        if row.get("kind") not in ("train", "study") or "trial" in row or "ended" not in row:
            continue
        count = sent[execution.name]
        if study_of(execution.name):
            if count:
                yield f"the trial {execution.name} has sent a notification"
        elif not 1 <= count <= 1 + again:
            yield f"{execution.name} has ended, with {count} notifications instead of one"


def _reports_an_end(subject: str) -> bool:
    return subject.startswith("Trainyard: ")
