"""The section `study` of a job file under construction: parameters, limits and the rules of its keys."""

import math
import re
from typing import Any

from trainyard.client.importing.calls import UNKNOWN
from trainyard.client.importing.draft import LIMITS, Draft
from trainyard.core.model.study import MOST_PARALLEL
from trainyard.core.model.study_fields import MOST_CHOICES, MOST_PARAMETERS
from trainyard.protocol.objective import SCALAR
from trainyard.protocol.trial import MOST_TRIALS

MOST_STUDY_HOURS = 720.0
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
NO_STEP = "numbers by order of magnitude have no step; a trial has any number between the ends"
NO_LOG = "whole numbers are drawn evenly, not by order of magnitude"


def put(draft: Draft, value: Any, *path: str) -> None:
    """Set a key of the section."""
    draft.put(value, "study", *path)


def add_pruner(draft: Draft, rule: str, start: Any, end: Any, *path: str | int) -> None:
    """Set the pruner, its first rung and the last epoch of a trial. Hyperband without a last epoch becomes median."""
    args = draft.job.get("program", {}).get("args")
    if (
        rule == "hyperband"
        and not _is_count(end)
        and not (isinstance(args, dict) and _is_count(args.get("epochs")))
    ):
        draft.origin.note(
            *path,
            reason="Hyperband needs the last epoch of a trial: write study.pruner: {rule: hyperband, end: N}",
        )
        rule = "median"
    rungs = {"start": start} if _is_count(start) and rule != "none" else {}
    rungs |= {"end": end} if _is_count(end) and rule == "hyperband" else {}
    put(draft, {"rule": rule, **rungs} if rungs else rule, "pruner")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def add_interval(
    draft: Draft,
    name: str,
    low: Any,
    high: Any,
    *path: str | int,
    step: Any = None,
    is_log: bool = False,
    is_whole: bool = False,
) -> None:
    """Add a parameter between two ends. `path` is its place in the other launcher's file."""
    low, high, step = _number(low), _number(high), _number(step)
    if not _has_room(draft, name, *path):
        return
    if low is None or high is None:
        draft.origin.note(*path, reason="its ends are not literal numbers; add it to study.parameters")
        return
    if low == high:
        _fix(draft, name, low, *path)
        return
    if low > high:
        draft.origin.note(*path, reason=f"begins with {low:g}, above {high:g}; add it to study.parameters")
        return
    if is_log and is_whole:
        draft.origin.note(*path, reason=NO_LOG)
    if is_log and low <= 0:
        draft.origin.note(*path, reason=f"drawn evenly: {low:g} has no order of magnitude")
        is_log = False
    ends: list[float] = [int(low), int(high)] if is_whole else [float(low), float(high)]
    kind = "integers" if is_whole else "log" if is_log else "range"
    if step and kind == "log":
        draft.origin.note(*path, reason=NO_STEP)
        step = None
    if step and not (is_whole and step == 1):
        parts = math.floor((ends[1] - ends[0]) / step + 1e-9)
        last = ends[0] + parts * step
        if parts < 1:
            draft.origin.note(*path, reason=f"its step {step:g} is longer than the interval; left out")
            step = None
        elif not math.isclose(last, ends[1]):
            draft.origin.note(*path, reason=f"ends at {last:g}, which steps of {step:g} reach")
            ends[1] = int(last) if is_whole else float(f"{last:.12g}")
    has_step = step and not (is_whole and step == 1)
    parameter = {kind: ends, **({"step": int(step) if is_whole else step} if has_step else {})}
    put(draft, parameter, "parameters", f"args.{name}")


def add_choice(draft: Draft, name: str, values: Any, *path: str | int) -> None:
    """Add a parameter with one of several values."""
    if not _has_room(draft, name, *path):
        return
    if not isinstance(values, list):
        draft.origin.note(*path, reason="its values are not literal; add it to study.parameters")
        return
    usable = [each for each in values if _is_value(each)]
    for each in values:
        if each not in usable:
            shown = str(each).removeprefix(UNKNOWN)[:40]
            draft.origin.note(*path, reason=f"{shown} cannot be a value of a parameter; left out")
    different = list({(type(each), each): each for each in usable}.values())
    for each in different[MOST_CHOICES:]:
        draft.origin.note(*path, reason=f"a choice has at most {MOST_CHOICES} values; {each} is left out")
    if len(different) > 1:
        put(draft, {"choice": different[:MOST_CHOICES]}, "parameters", f"args.{name}")
    elif different:
        _fix(draft, name, different[0], *path)
    else:
        draft.origin.note(*path, reason="it has no value; add it to study.parameters")


def add_objective(draft: Draft, goal: str, metric: Any, *path: str | int) -> None:
    """Set `maximize` or `minimize`."""
    if isinstance(metric, str) and re.fullmatch(SCALAR, metric, re.ASCII):
        put(draft, metric, goal)
        draft.origin.note(
            *path,
            reason=f"the program must print {metric}, or write it to metrics.json",
        )
    else:
        put(draft, "loss", goal)
        draft.origin.note(*path, reason=f"{metric} cannot name a metric; `loss` stands for it")


def add_limits(draft: Draft, trials: Any, parallel: Any, hours: float | None, *path: str | int) -> None:
    """Set the number of trials and the limits of the whole study. No other launcher limits its dollars."""
    count = _count(draft, trials, MOST_TRIALS, "trials", *path)
    put(draft, count, "trials")
    at_once = (
        _count(draft, parallel, min(MOST_PARALLEL, count or MOST_PARALLEL), "trials at once", *path) or 1
    )
    put(draft, at_once, "parallel")
    dollars = LIMITS.dollars * at_once
    put(draft, {"dollars": dollars}, "limits")
    draft.origin.note(
        *path,
        reason=f"all trials together cost at most ${dollars:g} (study.limits.dollars), and one trial "
        f"${LIMITS.dollars:g} (limits.dollars)",
    )
    if hours is not None and hours > 0:
        put(draft, min(MOST_STUDY_HOURS, round(hours, 4)), "limits", "hours")


def add_seed(draft: Draft, seed: Any) -> None:
    if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0:
        put(draft, seed % 2**32, "seed")


def parameters(draft: Draft) -> dict[str, Any]:
    """Return the parameters so far."""
    found: dict[str, Any] = draft.job.get("study", {}).get("parameters", {})
    return found


def _has_room(draft: Draft, name: str, *path: str | int) -> bool:
    if not NAME.fullmatch(name):
        draft.origin.note(
            *path, reason=f"{name!r:.60} cannot be the name of an argument; rename it in the program"
        )
        return False
    known = parameters(draft)
    if f"args.{name}" in known:
        draft.origin.note(*path, reason=f"the parameter {name} is there already; its first values count")
        return False
    if len(known) >= MOST_PARAMETERS:
        draft.origin.note(*path, reason=f"a study has at most {MOST_PARAMETERS} parameters; left out")
        return False
    return True


def _fix(draft: Draft, name: str, value: Any, *path: str | int) -> None:
    draft.put(value, "program", "args", name)
    draft.origin.note(*path, reason=f"it has one value, {value}: an argument of every trial")


def _count(draft: Draft, value: Any, most: int, what: str, *path: str | int) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        return None
    if value > most:
        draft.origin.note(*path, reason=f"{value} {what}; at most {most} are allowed")
    return min(value, most)


def _number(value: Any) -> float | None:
    """Return the number in a value, which SageMaker writes as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _is_value(value: Any) -> bool:
    if isinstance(value, str):
        return not value.startswith(UNKNOWN) and len(value) <= 1024
    return isinstance(value, bool) or (isinstance(value, int | float) and math.isfinite(value))
