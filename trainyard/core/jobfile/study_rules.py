"""The rules of the section `study` that concern several keys of a job file."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainyard.core.jobfile.rules import Written
from trainyard.core.model.job import Hosts, ImageWhen, Job
from trainyard.core.model.program import Scalar
from trainyard.core.model.study import Parameter, Pruner, Rule, Sampler, Study, Unit, is_multiple
from trainyard.core.model.study_fields import Point
from trainyard.protocol.trial import MOST_TRIALS
from trainyard.values.validation import Fault, any_of, did_you_mean, show_value

USUAL_TRIALS = 20
INTERVALS = ("range", "log", "integers")
KINDS = (*INTERVALS, "choice")
PARAMETERS = "study.parameters"


def check_study(job: Job, written: Written) -> None:
    """Add the faults of the section `study` and of its combination with the rest of the job."""
    study = job.study
    if study is None:
        return
    _check_metric(study, written)
    if not study.parameters:
        written.fault(
            PARAMETERS, "is missing; at least one parameter is required, as in args.lr: {range: [0.01, 1]}"
        )
    for path, parameter in study.parameters.items():
        _check_parameter(path, parameter, written)
        _check_when(path, study, written)
    _check_circles(study, written)
    for index, point in enumerate(study.first):
        _check_point(index, point, study, written)
    _check_amounts(job, study, written)
    _check_pruner(job, study.pruner, written)
    _check_retraining(job, study, written)
    _check_together(job, study, written)


def settle(job: Job) -> Job:
    """Fill in the last epoch of a trial, if its pruner needs it and the program's arguments have it."""
    study = job.study
    if study is None or study.pruner.rule is not Rule.HYPERBAND or study.pruner.end:
        return job
    epochs = _epochs_of(job) if study.pruner.by is Unit.EPOCH else None
    return replace(job, study=replace(study, pruner=replace(study.pruner, end=epochs)))


def _epochs_of(job: Job) -> int | None:
    """Return the number of epochs in the program's arguments, or None."""
    epochs = job.program.args.get("epochs") if isinstance(job.program.args, Mapping) else None
    return epochs if isinstance(epochs, int) and not isinstance(epochs, bool) else None


def is_active(parameter: Parameter, point: Point) -> bool:
    """Return True if a trial with these values has the parameter."""
    return all(
        above in point and any(point[above] == value for value in values)
        for above, values in parameter.when.items()
    )


def in_order(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the parameters so that each follows those that its `when` names. Circles are left out."""
    ordered: dict[str, Parameter] = {}
    for _ in parameters:
        ordered |= {path: each for path, each in parameters.items() if each.when.keys() <= ordered.keys()}
    return ordered


def grid_points(study: Study) -> list[Point]:
    """Return every combination of values, without combinations that differ only in parameters that they do not have."""
    ordered = in_order(study.parameters)
    points: list[Point] = [{}]
    for path, parameter in ordered.items():
        points = [
            {**point, **({path: value} if value is not None else {})}
            for point in points
            for value in (parameter.grid() if is_active(parameter, point) else (None,))
        ]
    return points


def trials_of(study: Study) -> int:
    """Return the number of trials of a study without faults."""
    if study.sampler is Sampler.GRID:
        return min(study.trials or MOST_TRIALS, len(grid_points(study)))
    if study.sampler is Sampler.NONE:
        return study.trials or len(study.first) or USUAL_TRIALS
    return study.trials or USUAL_TRIALS


def with_values(job: Mapping[str, Any], point: Point) -> dict[str, Any]:
    """Return the document of a job with the values of a point and without the section `study`."""
    trial = {key: value for key, value in job.items() if key != "study"}
    program = dict(trial.get("program") or {})
    for path, value in point.items():
        head, _, name = path.partition(".")
        text = str(value) if head == "environment" and not isinstance(value, bool) else value
        program[head] = {**(program.get(head) or {}), name: text}
    return trial | {"program": program}


def point_faults(point: Point, study: Study) -> Iterator[tuple[str, str]]:
    """Yield each fault of a point that a user has chosen: the path of the parameter, and the problem."""
    for path, value in point.items():
        parameter = study.parameters.get(path)
        if parameter is None:
            known = [*study.parameters]
            hint = did_you_mean(path, known)
            yield path, f"is not a parameter of this study; those are {any_of(known) or 'none'}{hint}"
        elif not parameter.allows(value):
            yield path, f"found {show_value(value)}; {_allowed(parameter)} is allowed"
        elif not is_active(parameter, point):
            needs = "; ".join(f"{above} {_one_of(values)}" for above, values in parameter.when.items())
            yield path, f"has no effect in this point, which needs {needs}"


def corner_points(study: Study) -> Iterator[tuple[str, Scalar, Point]]:
    """Yield each parameter with each of its lowest, highest or chosen values, and the point that contains it."""
    for path, parameter in study.parameters.items():
        above = {name: values[0] for name, values in parameter.when.items() if values}
        for value in parameter.corners():
            yield path, value, {**above, path: value}


def is_faulty(path: str, faults: Iterable[Fault]) -> bool:
    """Return True if one of the faults concerns this key, or a key inside it."""
    return any(re.match(rf"{re.escape(path)}(?:[.\[]|$)", fault.path) for fault in faults)


def _is_faulty(path: str, written: Written) -> bool:
    return is_faulty(path, written.faults)


def _check_metric(study: Study, written: Written) -> None:
    if study.maximize and study.minimize:
        written.fault("study.minimize", "cannot be combined with study.maximize; a study has one metric")
    if not (study.maximize or study.minimize) and not any(
        fault.path in ("study.maximize", "study.minimize") for fault in written.faults
    ):
        written.fault(
            "study.maximize", "is missing; study.maximize or study.minimize is required: the metric"
        )


def _check_parameter(path: str, parameter: Parameter, written: Written) -> None:
    here = f"{PARAMETERS}.{path}"
    if _is_faulty(here, written):
        return
    given = [kind for kind in KINDS if getattr(parameter, kind)]
    if len(given) > 1:
        written.fault(here, f"has {' and '.join(given)}; one of {any_of(KINDS)} is allowed")
    if not given:
        written.fault(here, f"has no values; one of {any_of(KINDS)} is required, as in {{range: [0, 0.9]}}")
    if parameter.step is None or len(given) != 1:
        return
    if given[0] not in ("range", "integers"):
        written.fault(f"{here}.step", f"is allowed with range and integers only, found {given[0]}")
        return
    assert parameter.interval
    low, high = parameter.interval
    if parameter.integers and not float(parameter.step).is_integer():
        written.fault(f"{here}.step", f"found {parameter.step:g}; a whole number is required with integers")
    elif not is_multiple(high - low, parameter.step):
        below = low + (high - low) // parameter.step * parameter.step
        hint = f"end at {below:g}" if below > low else "write a smaller step"
        written.fault(
            f"{here}.step", f"{parameter.step:g} does not divide {low:g} to {high:g} into equal parts; {hint}"
        )


def _check_when(path: str, study: Study, written: Written) -> None:
    for above, values in study.parameters[path].when.items():
        here = f"{PARAMETERS}.{path}.when.{above}"
        other = study.parameters.get(above)
        if above == path:
            written.fault(here, "refers to itself; name another parameter")
        elif other is None:
            known = [each for each in study.parameters if each != path]
            hint = did_you_mean(above, known)
            written.fault(
                here, f"is not a parameter of this study; those are {any_of(known) or 'none'}{hint}"
            )
        elif _is_faulty(f"{PARAMETERS}.{above}", written):
            continue
        elif not other.choice:
            written.fault(here, "has no choice; only a parameter with a choice decides about another")
        else:
            for value in values:
                if not other.allows(value):
                    written.fault(
                        here,
                        f"{show_value(value)} is not a value of its choice: {any_of([str(v) for v in other.choice])}",
                    )


def _check_circles(study: Study, written: Written) -> None:
    known = study.parameters.keys()
    lost = known - in_order(study.parameters).keys()
    circular = {
        path
        for path in lost
        if study.parameters[path].when.keys() <= known and path not in study.parameters[path].when
    }
    for path in sorted(circular):
        names = any_of(sorted(study.parameters[path].when))
        written.fault(f"{PARAMETERS}.{path}.when", f"is circular: it depends on {names}, which depends on it")


def _check_point(index: int, point: Point, study: Study, written: Written) -> None:
    sound = {path: value for path, value in point.items() if not _is_faulty(f"{PARAMETERS}.{path}", written)}
    for path, problem in point_faults(sound, study):
        written.fault(f"study.first[{index}].{path}", problem)


def _allowed(parameter: Parameter) -> str:
    if parameter.interval is None:
        return _one_of(parameter.choice or ())
    low, high = parameter.interval
    step = f" in steps of {parameter.spacing:g}" if parameter.spacing else ""
    return f"a number from {low:g} to {high:g}{step}"


def _one_of(values: tuple[Scalar, ...]) -> str:
    return " or ".join(str(value) for value in values) or "a value of its choice"


def _check_amounts(job: Job, study: Study, written: Written) -> None:
    dollars = study.limits.dollars
    if not _is_faulty("study.limits.dollars", written) and dollars < job.limits.dollars:
        written.fault(
            "study.limits.dollars",
            f"found {dollars:g}; one trial may cost {job.limits.dollars:g} (limits.dollars), so that none could "
            "start: raise it, or lower limits.dollars",
        )
    has_faults = _is_faulty(PARAMETERS, written)
    if study.sampler is Sampler.GRID and (has_faults or not _check_grid(study, written)):
        return
    if (
        not has_faults
        and study.sampler is Sampler.CMAES
        and sum(not p.choice and not p.when for p in study.parameters.values()) < 2
    ):
        written.fault(
            "study.sampler",
            "found cmaes, which needs at least two parameters with range, log or integers and without when; use tpe",
        )
    trials = trials_of(study)
    if study.parallel > trials and not _is_faulty("study.trials", written):
        written.fault(
            "study.parallel",
            f"found {study.parallel}; the study has {trials} trials: run at most {trials} at once",
        )


def _check_grid(study: Study, written: Written) -> bool:
    """Return True if the grid has a number of points that a study may have."""
    endless = [
        path for path, each in study.parameters.items() if each.interval and (each.log or not each.spacing)
    ]
    for path in endless:
        written.fault(
            f"{PARAMETERS}.{path}",
            "has no step, so that a grid of it has no end; give range with step, integers, or a choice",
        )
    if endless:
        return False
    most = 1
    for each in study.parameters.values():
        most *= each.grid_size
    if most > MOST_TRIALS and (most > 100 * MOST_TRIALS or len(grid_points(study)) > MOST_TRIALS):
        written.fault(
            "study.sampler",
            f"the grid has more than {MOST_TRIALS} points; up to {MOST_TRIALS} are allowed: enlarge a step, or draw "
            "points with random or tpe",
        )
        return False
    return True


def _check_pruner(job: Job, pruner: Pruner, written: Written) -> None:
    if pruner.rule is Rule.HYPERBAND:
        _check_end(pruner, written)
    epochs, gives = _epochs_of(job), written.value("study", "pruner")
    if pruner.rule is Rule.NONE or pruner.by is not Unit.EPOCH or not isinstance(gives, Mapping):
        return
    if epochs is not None and pruner.start >= epochs:
        written.fault(
            "study.pruner.start",
            f"found {pruner.start}; a trial has {epochs} epochs (program.args.epochs), so that no trial would stop "
            f"before its end: begin earlier, or write pruner: none",
        )


def _check_end(pruner: Pruner, written: Written) -> None:
    if _is_faulty("study.pruner", written):
        return
    if pruner.end is None:
        written.fault(
            "study.pruner.end",
            f"is missing; hyperband needs the last {pruner.by} of a trial, because program.args has no number of epochs"
            if pruner.by is Unit.EPOCH
            else "is missing; hyperband needs the last step of a trial",
        )
    elif pruner.end <= pruner.start:
        written.fault(
            "study.pruner.end", f"found {pruner.end}; a number above start, {pruner.start}, is required"
        )


def _check_retraining(job: Job, study: Study, written: Written) -> None:
    """Refuse a retraining whose dollars the study cannot reserve, or whose values name a secret."""
    values = study.then.retrain
    if values is None:
        return
    if any(path.startswith("args.") for path in values) and isinstance(job.program.args, list):
        written.fault("program.args", "is a list; then.retrain needs args by name, as in {epochs: 60}")
    for path in values:
        if path.removeprefix("environment.") in job.program.secrets and path.startswith("environment."):
            written.fault(f"study.then.retrain.{path}", "names a secret, whose value a study cannot set")
    least = 2 * job.limits.dollars
    if not _is_faulty("study.limits.dollars", written) and job.limits.dollars <= study.limits.dollars < least:
        written.fault(
            "study.limits.dollars",
            f"found {study.limits.dollars:g}; then.retrain reserves {job.limits.dollars:g} (limits.dollars), and one "
            f"trial may cost as much: give at least {least:g}, or lower limits.dollars",
        )


def _check_together(job: Job, study: Study, written: Written) -> None:
    """Refuse keys that a study sets by itself, and keys that make its trials unequal."""
    if isinstance(job.program.args, list) and any(path.startswith("args.") for path in study.parameters):
        written.fault("program.args", "is a list; parameters of a study need args by name, as in {lr: 0.1}")
    for path in study.parameters:
        if path.startswith("environment.") and path.removeprefix("environment.") in job.program.secrets:
            written.fault(f"{PARAMETERS}.{path}", "names a secret, whose value a study cannot draw")
    if job.objective:
        problem = (
            "is not allowed with a study: maximize or minimize of the study is the objective of its trials"
        )
        written.fault("objective", problem)
    if job.checkpoints.resume:
        written.fault(
            "checkpoints.resume", "is not allowed with a study: it would resume one run in each trial"
        )
    if job.after.image is not ImageWhen.NEVER:
        found = job.after.image
        written.fault(
            "after.image", f"is not allowed with a study, found {found}: each trial would make an image"
        )
    if job.after.hosts is Hosts.STOP:
        problem = "is not allowed with a study, found stop: the hosts of a study pass from trial to trial"
        written.fault("after.hosts", problem)
    if job.pool.keep:
        problem = "is not allowed with a study: the hosts of a study pass from trial to trial by themselves"
        written.fault("pool.keep", problem)
    if job.policy:
        written.fault("policy", "is not allowed with a study: no host outlives the study")
    if job.cluster.is_elastic:
        problem = "found min and max; one number is allowed with a study: unequal hosts make unequal trials"
        written.fault("cluster.workers", problem)
