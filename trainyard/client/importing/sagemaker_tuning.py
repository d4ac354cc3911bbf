"""A CreateHyperParameterTuningJob request of SageMaker, or the call of its SDK's HyperparameterTuner, as a study.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateHyperParameterTuningJob.html
https://sagemaker.readthedocs.io/en/stable/api/training/tuner.html
"""

import ast
from collections.abc import Mapping
from typing import Any

from trainyard.client.importing import sagemaker, study
from trainyard.client.importing.calls import UNKNOWN, arguments_of, call_name, lines_of, value_of
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.foreign import ITEM, LIST, MAPPING, NUMBER, TEXT, Foreign, Keys

CONFIG = "HyperParameterTuningJobConfig"
DEFINITION, DEFINITIONS = "TrainingJobDefinition", "TrainingJobDefinitions"
STRATEGIES = {"bayesian": "tpe", "random": "random", "grid": "grid", "hyperband": "tpe"}
SCALE = "its scale was Auto; `log` instead of `range` draws by order of magnitude"
REVERSE = "drawn evenly: reverse logarithmic scales have no counterpart"
CRITERIA = "a study ends at its trials, hours or dollars"
WARM = "the trials of other tuning jobs do not count; study.first can begin with their best points"
AUTOTUNE = "nothing chooses ranges by itself; write study.parameters"
LEFT = {
    "WarmStartConfig": WARM,
    "Autotune": AUTOTUNE,
    "DefinitionName": "a study has one definition",
    f"{CONFIG}.TuningJobCompletionCriteria": CRITERIA,
    f"{CONFIG}.StrategyConfig": "study.pruner has the keys rule, by, start and end",
}
RANGES = ("IntegerParameterRanges", "ContinuousParameterRanges", "CategoricalParameterRanges")
SHAPES = {
    **dict.fromkeys((CONFIG, "HyperParameterTuningResourceConfig"), MAPPING),
    **dict.fromkeys(
        (f"{CONFIG}.ResourceLimits", f"{CONFIG}.ParameterRanges", "HyperParameterRanges"), MAPPING
    ),
    **dict.fromkeys((f"{CONFIG}.HyperParameterTuningJobObjective", "TuningObjective"), MAPPING),
    **{
        f"{at}.{name}": LIST
        for at in (f"{CONFIG}.ParameterRanges", "HyperParameterRanges")
        for name in RANGES
    },
    **{
        f"{at}.{name}.*": ITEM
        for at in (f"{CONFIG}.ParameterRanges", "HyperParameterRanges")
        for name in RANGES
    },
    **dict.fromkeys((f"{CONFIG}.ResourceLimits.*", f"{CONFIG}.RandomSeed"), NUMBER),
    **dict.fromkeys((f"{CONFIG}.Strategy", f"{CONFIG}.TrainingJobEarlyStoppingType"), TEXT),
}
"""The forms of the values of a tuning job. sagemaker.SHAPES has the forms of its training job."""
TUNER = "HyperparameterTuner"
POSITIONS = ("estimator", "objective_metric_name", "hyperparameter_ranges", "metric_definitions")
PARAMETERS = {
    "ContinuousParameter": ("min_value", "max_value", "scaling_type"),
    "IntegerParameter": ("min_value", "max_value", "scaling_type"),
    "CategoricalParameter": ("values",),
}
KEYWORDS = {
    "estimator": "",
    "metric_definitions": "the program must write the metric to metrics.json",
    "base_tuning_job_name": "",
    "warm_start_config": WARM,
    "completion_criteria_config": CRITERIA,
    "autotune": AUTOTUNE,
    "strategy_config": LEFT[f"{CONFIG}.StrategyConfig"],
    "hyperparameters_to_keep_static": "every argument of program.args stays the same",
}


def recognizes(foreign: Foreign) -> Keys | None:
    """Return the path of the first key of a request, or None."""
    return foreign.first("HyperParameterTuningJobName", CONFIG)


def unwrap(foreign: Foreign) -> Foreign:
    """Return the request with the keys of its training job at the top, as CreateTrainingJob has them."""
    at: Keys = (DEFINITION,)
    several = foreign.look(DEFINITIONS)
    if not foreign.mapping(DEFINITION) and isinstance(several, list) and several:
        at = (DEFINITIONS, 0)
        for number in range(1, len(several)):
            foreign.note(DEFINITIONS, number, reason="a study has one definition: the first one")
    inner = foreign.mapping(*at)
    names = {"StaticHyperParameters": "HyperParameters"}
    if "ResourceConfig" not in inner:
        names["HyperParameterTuningResourceConfig"] = "ResourceConfig"
    lifted = {names.get(key, key): value for key, value in inner.items()}
    rest = {key: value for key, value in foreign.values.items() if key != at[0] or not inner}
    lines = {path: line for path, line in foreign.lines.items() if path[: len(at)] != at}
    for path, line in foreign.lines.items():
        if path[: len(at)] == at and len(path) > len(at):
            first, *below = path[len(at) :]
            lines[names.get(str(first), first), *below] = line
    return Foreign({**rest, **lifted}, lines, foreign.notes)


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a request. Raise NotImportable if its program is inside a container image."""
    found = unwrap(foreign)
    found.leave_misshapen(SHAPES)
    draft = sagemaker.convert(found, stem)
    draft.name(found.take("HyperParameterTuningJobName"), stem)
    _add_ranges(draft)
    strategy = found.take(CONFIG, "Strategy") or "Bayesian"
    _add_strategy(draft, strategy, found.take(CONFIG, "TrainingJobEarlyStoppingType"), CONFIG, "Strategy")
    at = (
        ("TuningObjective",)
        if found.look("TuningObjective")
        else (CONFIG, "HyperParameterTuningJobObjective")
    )
    objective = found.take(*at) or {}
    goal = "minimize" if objective.get("Type") == "Minimize" else "maximize"
    study.add_objective(draft, goal, objective.get("MetricName"), *at)
    limits = found.take(CONFIG, "ResourceLimits") or {}
    seconds = limits.get("MaxRuntimeInSeconds")
    study.add_limits(
        draft,
        limits.get("MaxNumberOfTrainingJobs"),
        limits.get("MaxParallelTrainingJobs"),
        seconds / 3600 if seconds else None,
        CONFIG,
        "ResourceLimits",
    )
    study.add_seed(draft, found.take(CONFIG, "RandomSeed"))
    _add_instances(draft)
    for name, reason in LEFT.items():
        found.leave(*name.split("."), reason=reason)
    return draft


def _add_instances(draft: Draft) -> None:
    found, at = draft.origin, ("ResourceConfig", "InstanceConfigs")
    configs = found.take(*at)
    if isinstance(configs, list) and configs and not draft.job.get("hardware", {}).get("instance_types"):
        sagemaker.add_hosts(
            draft, [each.get("InstanceType") for each in configs], configs[0].get("InstanceCount"), at
        )
    found.leave(
        "ResourceConfig", "AllocationStrategy", reason="hardware.prefer decides which type is tried first"
    )


def _add_ranges(draft: Draft) -> None:
    found = draft.origin
    at: Keys = (CONFIG, "ParameterRanges")
    if not found.look(*at):
        at = ("HyperParameterRanges",)
    for kind in RANGES:
        for number, each in enumerate(found.take(*at, kind) or []):
            path, name = (*at, kind, number), str(each.get("Name", ""))
            if kind == "CategoricalParameterRanges":
                values = each.get("Values")
                plain = [sagemaker.unquote(value) for value in values] if isinstance(values, list) else None
                study.add_choice(draft, name, plain, *path)
            else:
                whole = kind == "IntegerParameterRanges"
                ends = each.get("MinValue"), each.get("MaxValue")
                _add_range(draft, name, ends, each.get("ScalingType"), path, is_whole=whole)
    autos = found.take(*at, "AutoParameters")
    for number, each in enumerate(autos if isinstance(autos, list) else []):
        found.note(*at, "AutoParameters", number, reason=f"{each} has no range; add it to study.parameters")


def _add_range(
    draft: Draft, name: str, ends: tuple[Any, Any], scale: Any, path: Keys, *, is_whole: bool
) -> None:
    word = str(scale or "Auto").removesuffix("_SCALING").lower()
    if word == "auto" and not is_whole:
        draft.origin.note(*path, reason=SCALE)
    if word == "reverselogarithmic":
        draft.origin.note(*path, reason=REVERSE)
    study.add_interval(draft, name, *ends, *path, is_log=word == "logarithmic", is_whole=is_whole)


def _add_strategy(draft: Draft, strategy: Any, early: Any, *path: str | int) -> None:
    word = str(strategy).lower()
    if word not in STRATEGIES:
        draft.origin.note(*path, reason=f"{strategy} has no counterpart; study.sampler is tpe")
    study.put(draft, STRATEGIES.get(word, "tpe"), "sampler")
    if word == "hyperband":
        draft.origin.note(*path, reason="Hyperband is the pruner, and study.sampler is tpe")
        at = (CONFIG, "StrategyConfig", "HyperbandStrategyConfig")
        first, last = (draft.origin.take(*at, word) for word in ("MinResource", "MaxResource"))
        study.add_pruner(draft, "hyperband", first, last, *path)
    elif str(early or "Off").lower() == "auto":
        study.put(draft, "median", "pruner")
    else:
        study.put(draft, "none", "pruner")


# --------------------------------------------------------------------------------------------------------------- tuner
def add_tuner(
    calls: list[ast.Call], constants: Mapping[str, ast.expr], values: dict[str, Any], lines: dict[Keys, int]
) -> None:
    """Add the keywords of the tuner, under `tuner`, to the keywords of its estimator."""
    made = [call for call in calls if call_name(call) == TUNER]
    for call in made[1:]:
        values[f"tuner in line {call.lineno}"] = ast.unparse(call)
        lines[f"tuner in line {call.lineno}",] = call.lineno
    for call in made[:1]:
        named = [*zip(POSITIONS, call.args, strict=False), *arguments_of(call, constants)]
        values["tuner"] = {name: value_of(each, constants) for name, each in named}
        lines["tuner",] = call.lineno
        for name, each in named:
            lines.update(lines_of(("tuner", name), each))
            if name == "hyperparameter_ranges":
                ranges = constants.get(each.id, each) if isinstance(each, ast.Name) else each
                values["tuner"][name] = _ranges_in(ranges, constants)
                lines.update(lines_of(("tuner", name), ranges))


def _ranges_in(node: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    """Return the ranges by name, each with its kind and its keywords."""
    if not isinstance(node, ast.Dict):
        return UNKNOWN + ast.unparse(node)
    found: dict[str, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        name = str(value_of(key, constants)) if key else f"**{ast.unparse(value)}"
        if isinstance(value, ast.Call) and (names := PARAMETERS.get(call_name(value))):
            given = [*zip(names, value.args, strict=False), *arguments_of(value, constants)]
            found[name] = {
                "kind": call_name(value),
                **{word: value_of(each, constants) for word, each in given},
            }
        else:
            found[name] = UNKNOWN + ast.unparse(value)
    return found


def convert_tuner(draft: Draft) -> None:
    """Add the section of a tuner to the job of its estimator."""
    found, at = draft.origin, "tuner"
    ranges = found.take(at, "hyperparameter_ranges")
    path = (at, "hyperparameter_ranges")
    if not isinstance(ranges, dict):
        found.note(*path, reason="the ranges are not literal; write study.parameters")
        ranges = {}
    for name, each in ranges.items():
        if not isinstance(each, dict):
            found.note(*path, name, reason=f"`{str(each)[1:61]}` is not literal; add it to study.parameters")
        elif each["kind"] == "CategoricalParameter":
            values = each.get("values")
            study.add_choice(draft, name, values if isinstance(values, list) else [values], *path, name)
        else:
            ends, whole = (each.get("min_value"), each.get("max_value")), each["kind"] == "IntegerParameter"
            _add_range(draft, name, ends, each.get("scaling_type"), (*path, name), is_whole=whole)
    early = found.take(at, "early_stopping_type")
    _add_strategy(draft, found.take(at, "strategy") or "Bayesian", early, at, "strategy")
    goal = str(found.take(at, "objective_type") or "Maximize").lower()
    metric = found.take(at, "objective_metric_name")
    study.add_objective(
        draft, "minimize" if goal == "minimize" else "maximize", metric, at, "objective_metric_name"
    )
    seconds = found.take(at, "max_runtime_in_seconds")
    hours = seconds / 3600 if isinstance(seconds, int | float) else None
    trials = found.take(at, "max_jobs") or 1
    study.add_limits(draft, trials, found.take(at, "max_parallel_jobs"), hours, at, "max_jobs")
    study.add_seed(draft, found.take(at, "random_seed"))
    name = found.take(at, "base_tuning_job_name")
    draft.name(name, draft.job.get("name"))
    if isinstance(tags := found.take(at, "tags"), list):
        pairs = [tag for tag in tags if isinstance(tag, dict)]
        draft.labels({str(tag.get("Key")): tag.get("Value") for tag in pairs}, at, "tags")
    found.take(at, "estimator")
    for word, reason in KEYWORDS.items():
        if reason:
            found.leave(at, word, reason=reason)
