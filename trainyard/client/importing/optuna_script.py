"""A script for Optuna (https://optuna.readthedocs.io) as a study, as far as it is literal."""

import ast
from collections.abc import Mapping
from typing import Any

from trainyard.client.importing import study
from trainyard.client.importing.calls import UNKNOWN, arguments_of, assigned, call_name, value_of
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.foreign import Foreign
from trainyard.client.importing.search_space import (
    NO_HOSTS,
    Script,
    add_pruner,
    add_sampler,
    begin,
    calls_in,
    hours_of,
)

LAUNCHER = "Optuna"
SUGGESTIONS = {
    "suggest_float": ("name", "low", "high"),
    "suggest_int": ("name", "low", "high"),
    "suggest_categorical": ("name", "choices"),
    "suggest_uniform": ("name", "low", "high"),
    "suggest_loguniform": ("name", "low", "high"),
    "suggest_discrete_uniform": ("name", "low", "high", "q"),
}
"""The functions that draw a parameter, with their positional parameters."""
CALLS = {
    "create_study": ("storage", "sampler", "pruner", "study_name", "direction"),
    "optimize": ("func", "n_trials", "timeout", "n_jobs"),
}
SAMPLERS = {
    "TPESampler": "tpe",
    "CmaEsSampler": "cmaes",
    "RandomSampler": "random",
    "GridSampler": "grid",
    "BruteForceSampler": "grid",
}
PRUNERS = {
    "MedianPruner": ("median", "n_warmup_steps", ""),
    "SuccessiveHalvingPruner": ("successive_halving", "min_resource", ""),
    "HyperbandPruner": ("hyperband", "min_resource", "max_resource"),
    "NopPruner": ("none", "", ""),
}
KEYWORDS = {
    "create_study": {
        "storage": "the rows of a study are in the yard's table",
        "load_if_exists": "each submission is a new study",
        "directions": "a study has one metric",
    },
    "optimize": {
        "catch": "a trial whose program fails is a result that is worse than every other",
        "callbacks": "nothing runs between two trials",
        "gc_after_trial": "each trial is a process of its own",
        "show_progress_bar": "the page shows the trials",
    },
}
METRIC = "objective"
"""The metric of a script whose function returns an expression without a name."""


class _Suggestions(ast.NodeVisitor):
    """The calls that draw parameters, with the conditions around them."""

    def __init__(self, constants: Mapping[str, ast.expr]) -> None:
        self.found: list[tuple[ast.Call, dict[str, Any]]] = []
        self.returned: str | None = None
        self._constants, self._tests = constants, list[tuple[ast.expr, bool]]()
        self._drawn: dict[str, tuple[str, list[Any]]] = {}

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        for part, holds in ((node.body, True), (node.orelse, False)):
            self._tests.append((node.test, holds))
            for each in part:
                self.visit(each)
            self._tests.pop()

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        for part, holds in ((node.body, True), (node.orelse, False)):
            self._tests.append((node.test, holds))
            self.visit(part)
            self._tests.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            given = self._given(node.value)
            if given and isinstance(given.get("choices"), list):
                self._drawn[node.targets[0].id] = str(given.get("name")), given["choices"]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before = len(self.found)
        self.generic_visit(node)
        returns = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
        if len(self.found) > before and returns and isinstance(returns[-1], ast.Name):
            self.returned = returns[-1].id

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if (given := self._given(node)) is not None:
            self.found.append((node, {**given, "when": self._when()}))

    def _given(self, call: ast.Call) -> dict[str, Any] | None:
        names = SUGGESTIONS.get(call_name(call))
        if names is None:
            return None
        given = [*zip(names, call.args, strict=False), *arguments_of(call, self._constants)]
        return {"function": call_name(call)} | {name: value_of(each, self._constants) for name, each in given}

    def _when(self) -> dict[str, Any]:
        """Return the conditions: the values of other parameters, or the text of a condition under `?`."""
        found: dict[str, Any] = {}
        for test, holds in self._tests:
            match self._condition(test):
                case (name, values, choices):
                    left = [each for each in choices if (each in values) is holds]
                    found[name] = [each for each in left if name not in found or each in found[name]]
                case _:
                    found[UNKNOWN] = ast.unparse(test)
        return found

    def _condition(self, test: ast.expr) -> tuple[str, list[Any], list[Any]] | None:
        match test:
            case ast.Compare(left=ast.Name(id=variable), ops=[ast.Eq() | ast.In()], comparators=[right]):
                if variable in self._drawn:
                    name, choices = self._drawn[variable]
                    value = value_of(right, self._constants)
                    values = value if isinstance(value, list) else [value]
                    if all(each in choices for each in values):
                        return name, values, choices
        return None


def read(tree: ast.Module) -> Foreign | None:
    """Return the calls of a script, or None for a script that suggests nothing."""
    constants = dict(assigned(tree))
    visitor = _Suggestions(constants)
    visitor.visit(tree)
    if not visitor.found:
        return None
    script = Script(constants)
    script.values["parameters"] = [given for _, given in visitor.found]
    script.lines |= {("parameters", number): call.lineno for number, (call, _) in enumerate(visitor.found)}
    script.lines["parameters",] = visitor.found[0][0].lineno
    first: list[Any] = []
    for call in calls_in(tree):
        name = call_name(call)
        if name in CALLS:
            script.read(call, CALLS[name], name)
        elif name == "enqueue_trial" and call.args:
            script.lines["enqueue_trial", len(first)] = call.lineno
            first.append(script.value(call.args[0]))
        elif name == "report" and len(call.args) == 2:
            script.values["report"], script.lines["report",] = name, call.lineno
    script.values |= {"enqueue_trial": first, "returned": visitor.returned}
    return script.foreign()


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a script."""
    at = "optimize" if foreign.look("optimize") else "parameters"
    draft = begin(foreign, LAUNCHER, stem, foreign.take("create_study", "study_name"), at)
    foreign.note("parameters", reason=NO_HOSTS)
    _add_parameters(draft)
    reports = foreign.take("report")
    made = foreign.take("create_study", "sampler")
    if isinstance(made, dict) and class_of_grid(made):
        _use_grid(draft, made)
    add_sampler(draft, made, SAMPLERS, "tpe", "create_study", "sampler")
    pruner = foreign.take("create_study", "pruner")
    add_pruner(draft, pruner, PRUNERS, "median" if reports else "none", "create_study", "pruner")
    direction = class_of_direction(foreign.take("create_study", "direction"))
    metric = foreign.take("returned") or METRIC
    study.add_objective(
        draft, direction, metric, "create_study" if foreign.look("create_study") else "parameters"
    )
    hours = hours_of(foreign.take("optimize", "timeout"))
    study.add_limits(
        draft, foreign.take("optimize", "n_trials"), foreign.take("optimize", "n_jobs"), hours, at
    )
    _add_first(draft)
    foreign.take("optimize", "func")
    for call, reasons in KEYWORDS.items():
        foreign.take(call, "")
        for word, reason in reasons.items():
            foreign.leave(call, word, reason=reason)
    return draft


def class_of_direction(value: Any) -> str:
    """Return `maximize` or `minimize`, Optuna's default."""
    return "maximize" if "maximize" in str(value).lower() else "minimize"


def class_of_grid(made: dict[str, Any]) -> bool:
    return made.get("class") == "GridSampler"


def _use_grid(draft: Draft, made: dict[str, Any]) -> None:
    """Replace the parameters by the values of the grid."""
    grid = made.pop("argument 0", made.pop("search_space", None))
    if not isinstance(grid, dict):
        draft.origin.note("create_study", "sampler", reason="the grid is not literal; write choices")
        return
    for name, values in grid.items():
        study.parameters(draft).pop(f"args.{name}", None)
        study.add_choice(draft, name, values, "create_study", "sampler")


def _add_parameters(draft: Draft) -> None:
    for number, given in enumerate(draft.origin.take("parameters")):
        path = ("parameters", number)
        name, function = str(given.get("name", UNKNOWN)), given["function"]
        if name.startswith(UNKNOWN):
            draft.origin.note(
                *path, reason=f"its name `{name[1:][:60]}` is not literal; add it to study.parameters"
            )
            continue
        before = len(study.parameters(draft))
        _add_parameter(draft, name, function, given, path)
        if given["when"] and len(study.parameters(draft)) > before:
            _add_condition(draft, name, given["when"], path)
        for word in given.keys() - {"function", "when", "name", "low", "high", "choices", "q", "step", "log"}:
            draft.origin.note(*path, reason=f"{word} has no counterpart")


def _add_parameter(
    draft: Draft, name: str, function: str, given: dict[str, Any], path: tuple[str, int]
) -> None:
    if function == "suggest_categorical":
        study.add_choice(draft, name, given.get("choices"), *path)
        return
    is_log = given.get("log") is True or function == "suggest_loguniform"
    if given.get("log") not in (None, True, False):
        draft.origin.note(*path, reason="its `log` is not literal; drawn evenly")
    study.add_interval(
        draft,
        name,
        given.get("low"),
        given.get("high"),
        *path,
        step=given.get("step", given.get("q")),
        is_log=is_log,
        is_whole=function == "suggest_int",
    )


def _add_condition(draft: Draft, name: str, when: dict[str, Any], path: tuple[str, int]) -> None:
    known = study.parameters(draft)
    if UNKNOWN in when:
        draft.origin.note(
            *path, reason=f"drawn if `{when[UNKNOWN][:60]}`; every trial has it, or write `when`"
        )
    found = {f"args.{above}": values for above, values in when.items() if above != UNKNOWN and values}
    usable = {above: values for above, values in found.items() if "choice" in known.get(above, {})}
    if usable:
        known[f"args.{name}"]["when"] = usable


def _add_first(draft: Draft) -> None:
    points = []
    for number, point in enumerate(draft.origin.take("enqueue_trial") or []):
        known = study.parameters(draft)
        items = point.items() if isinstance(point, dict) else ()
        fits = {f"args.{name}": value for name, value in items if f"args.{name}" in known}
        if (
            not fits
            or len(fits) < len(items)
            or any(str(value).startswith(UNKNOWN) for value in fits.values())
        ):
            draft.origin.note(
                "enqueue_trial", number, reason="it is not literal, or has other parameters; left out"
            )
        else:
            points.append(fits)
    study.put(draft, points, "first")
