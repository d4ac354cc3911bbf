"""A script for Ray Tune (https://docs.ray.io/en/latest/tune/) as a study, as far as it is literal."""

import ast
from collections.abc import Iterator
from typing import Any

from trainyard.client.importing import study
from trainyard.client.importing.calls import UNKNOWN, assigned, call_name, value_of
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.foreign import Foreign
from trainyard.client.importing.search_space import (
    Script,
    add_gpus,
    add_pruner,
    add_sampler,
    begin,
    calls_in,
    class_of,
    hours_of,
)

LAUNCHER = "Ray Tune"
INTERVALS = {
    # name: is_log, is_whole, the upper end is left out
    "uniform": (False, False, False),
    "quniform": (False, False, False),
    "loguniform": (True, False, False),
    "qloguniform": (True, False, False),
    "randint": (False, True, True),
    "qrandint": (False, True, False),
    "lograndint": (True, True, True),
    "qlograndint": (True, True, False),
}
CHOICES = ("choice", "grid_search")
OTHERS = ("sample_from", "randn", "qrandn")
"""Functions without a counterpart."""
CALLS = {
    "Tuner": ("trainable",),
    "TuneConfig": (),
    "run": ("run_or_experiment",),
    "with_resources": ("trainable", "resources"),
    "RunConfig": (),
    "ScalingConfig": (),
}
SAMPLERS = {
    "OptunaSearch": "tpe",
    "HyperOptSearch": "tpe",
    "BasicVariantGenerator": "random",
}
SCHEDULERS = {
    "ASHAScheduler": ("successive_halving", "grace_period", ""),
    "AsyncHyperBandScheduler": ("successive_halving", "grace_period", ""),
    "HyperBandScheduler": ("hyperband", "", "max_t"),
    "MedianStoppingRule": ("median", "grace_period", ""),
    "FIFOScheduler": ("none", "", ""),
}
SETTINGS = ("TuneConfig", "run")
LEFT = {
    "reuse_actors": "hosts pass from trial to trial",
    "stop": "limits.hours limits one trial, and study.pruner stops it early",
    "local_dir": "results are kept in the yard's bucket",
    "storage_path": "results are kept in the yard's bucket",
    "checkpoint_config": "the folder of checkpoints is kept and restored by itself",
    "failure_config": "interrupted trials continue by themselves (limits.restarts)",
    "max_failures": "interrupted trials continue by themselves (limits.restarts)",
    "verbose": "the run's log holds what the program prints",
    "progress_reporter": "the page shows the trials",
    "resume": "each submission is a new study",
    "sync_config": "results are kept in the yard's bucket",
    "callbacks": "nothing runs between two trials",
}


def read(tree: ast.Module) -> Foreign | None:
    """Return the search space and the settings of a script, or None for a script without a search space."""
    constants = dict(assigned(tree))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ray.tune")
        for alias in node.names
    }
    script = Script(constants)
    space: dict[str, Any] = {}
    for name, value, line in _items(tree, imported, constants):
        taken = name if name not in space else f"{name} (line {line})"
        space[taken], script.lines["space", taken] = value, line
    if not any(isinstance(each, dict) and "function" in each for each in space.values()):
        return None
    script.values["space"] = space
    script.lines["space",] = min(line for path, line in script.lines.items() if path[0] == "space")
    for call in calls_in(tree):
        name = call_name(call)
        if name in CALLS and (name != "run" or _is_tune(call.func, imported)):
            script.read(call, CALLS[name], name)
            for key in ("param_space", "config"):
                script.values[name].pop(key, None)
    script.values["nested"] = [name for name in space if name not in {*_names(tree)}]
    return script.foreign()


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the texts and the keywords of a script."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) | ast.keyword(arg=str() as text):
                yield text


def _is_tune(function: ast.expr, imported: set[str]) -> bool:
    match function:
        case ast.Attribute(value=holder):
            return ast.unparse(holder).endswith("tune")
        case ast.Name(id=name):
            return name in imported
    return False


def _items(
    tree: ast.Module, imported: set[str], constants: dict[str, ast.expr]
) -> Iterator[tuple[str, Any, int]]:
    """Yield the name, the value and the line of each item of a search space. Items of a mapping in it are named
    `OUTER_INNER`."""

    def is_space(node: ast.expr) -> bool:
        return any(isinstance(each, ast.Call) and is_drawn(each) for each in ast.walk(node))

    def is_drawn(call: ast.Call) -> bool:
        return call_name(call) in (*INTERVALS, *CHOICES, *OTHERS) and _is_tune(call.func, imported)

    def pairs(node: ast.expr) -> list[tuple[str, ast.expr]]:
        match node:
            case ast.Dict(keys=keys, values=values):
                return [
                    (str(value_of(key, constants)) if key else f"**{ast.unparse(value)}", value)
                    for key, value in zip(keys, values, strict=True)
                ]
            case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
                return [(each.arg or f"**{ast.unparse(each.value)}", each.value) for each in keywords]
        return []

    def values(name: str, node: ast.expr) -> Iterator[tuple[str, Any, int]]:
        if isinstance(node, ast.Call) and is_drawn(node):
            given = {each.arg: value_of(each.value, constants) for each in node.keywords if each.arg}
            arguments = [value_of(each, constants) for each in node.args]
            yield name, {"function": call_name(node), "arguments": arguments, **given}, node.lineno
        elif found := pairs(node):
            for inner, each in found:
                yield from values(f"{name}_{inner}", each)
        else:
            yield name, value_of(node, constants), node.lineno

    seen: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Dict() | ast.Call() if id(node) not in seen and pairs(node) and is_space(node):
                seen |= {id(each) for each in ast.walk(node)}
                for name, each in pairs(node):
                    yield from values(name, each)
            case ast.Assign(targets=[ast.Subscript(slice=key)], value=ast.Call() as call) if is_drawn(call):
                yield from values(str(value_of(key, constants)), call)


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a script."""
    at = next((name for name in ("Tuner", "run") if foreign.look(name)), "space")
    settings = next((name for name in SETTINGS if foreign.look(name)), "TuneConfig")
    name = foreign.take("run", "name") or foreign.take("RunConfig", "name")
    draft = begin(foreign, LAUNCHER, stem, name, at)
    is_grid = _add_space(draft)
    _add_search(draft, settings, is_grid=is_grid)
    goal = {"max": "maximize", "min": "minimize"}.get(str(foreign.take(settings, "mode")), "")
    metric = foreign.take(settings, "metric")
    place = settings if foreign.look(settings) else at
    if not goal:
        foreign.note(place, reason="its mode is not literal; `minimize` stands for it")
    study.add_objective(draft, goal or "minimize", metric or "loss", place)
    samples = foreign.take(settings, "num_samples")
    if is_grid and isinstance(samples, int) and samples > 1:
        foreign.note(settings, "num_samples", reason="a grid tries each combination once")
    trials = None if is_grid else samples if samples is not None else 1
    if samples == -1:
        foreign.note(settings, "num_samples", reason="a study has at most 1000 trials")
        trials = None if is_grid else 1000
    hours = hours_of(foreign.take(settings, "time_budget_s"))
    study.add_limits(draft, trials, foreign.take(settings, "max_concurrent_trials"), hours, place)
    _add_resources(draft)
    for call in CALLS:
        for word in ("trainable", "run_or_experiment", "", "tune_config", "run_config"):
            foreign.take(call, word)
        for word, reason in LEFT.items():
            foreign.leave(call, word, reason=reason)
    return draft


def _add_space(draft: Draft) -> bool:
    """Add the search space. Return True if all its parameters form a grid."""
    grids = others = 0
    for name in draft.origin.take("nested") or []:
        draft.origin.note("space", name, reason=f"an item of a mapping; the program takes it as --{name}")
    for name, each in (draft.origin.take("space") or {}).items():
        path = ("space", name)
        if not isinstance(each, dict) or "function" not in each:
            _add_constant(draft, name, each, path)
            continue
        function, given = each["function"], each["arguments"]
        if function in OTHERS:
            draft.origin.note(*path, reason=f"tune.{function} has no counterpart; add it to study.parameters")
        elif function in CHOICES:
            values = given[0] if given else each.get("categories", each.get("values"))
            study.add_choice(draft, name, values, *path)
            grids, others = grids + (function == "grid_search"), others + (function != "grid_search")
        else:
            others += 1
            _add_interval(draft, name, function, {**each, "arguments": given}, path)
    if grids and others:
        draft.origin.note(
            "space", reason="grid_search and other functions together: each is drawn by the sampler"
        )
    return bool(grids) and not others


def _add_interval(
    draft: Draft, name: str, function: str, each: dict[str, Any], path: tuple[str, str]
) -> None:
    is_log, is_whole, is_open = INTERVALS[function]
    words = ("lower", "upper", "base" if function in ("loguniform", "lograndint") else "q")
    given = dict(zip(words, each["arguments"], strict=False)) | each
    low, high = given.get("lower"), given.get("upper")
    if is_open and isinstance(high, int):
        high -= 1
    step = given.get("q", 1 if is_whole else None)
    study.add_interval(draft, name, low, high, *path, step=step, is_log=is_log, is_whole=is_whole)


def _add_constant(draft: Draft, name: str, value: Any, path: tuple[str, str]) -> None:
    usable = isinstance(value, bool | int | float) or (
        isinstance(value, str) and not value.startswith(UNKNOWN)
    )
    if usable and study.NAME.fullmatch(name):
        draft.put(str(value) if isinstance(value, bool) else value, "program", "args", name)
    else:
        shown = str(value).removeprefix(UNKNOWN)[:60]
        draft.origin.note(*path, reason=f"`{shown}` is not a literal; add its value to program.args")


def _add_search(draft: Draft, settings: str, *, is_grid: bool) -> None:
    found = draft.origin.take(settings, "search_alg")
    if is_grid:
        study.put(draft, "grid", "sampler")
        if class_of(found):
            draft.origin.note(settings, "search_alg", reason="a grid draws nothing")
    else:
        add_sampler(draft, found, SAMPLERS, "random", settings, "search_alg")
    scheduler = draft.origin.take(settings, "scheduler")
    add_pruner(draft, scheduler, SCHEDULERS, "none", settings, "scheduler")


def _add_resources(draft: Draft) -> None:
    found = draft.origin
    for path in (("run", "resources_per_trial"), ("with_resources", "resources")):
        if (resources := found.take(*path)) is not None:
            add_gpus(draft, resources, *path)
            return
    if (scaling := found.take("ScalingConfig")) is not None:
        gpus = {"gpu": 1} if scaling.get("use_gpu") is True else None
        add_gpus(draft, gpus, "ScalingConfig")
        draft.hosts(scaling.get("num_workers", 1), "ScalingConfig")
        return
    add_gpus(draft, None, "space")
