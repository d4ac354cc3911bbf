"""The section `study` of a job file is read with every default, or refused with all of its faults."""
# ruff: noqa: E501 - one line a row

import json
from typing import Any

import pytest

from tests.support.job_files import SMALLEST, change_job
from tests.support.schemas import accepts
from tests.unit.core.builders import BUCKET
from tests.unit.core.jobfile.reference import schemas
from trainyard.core.jobfile import check, document, study_rules
from trainyard.core.jobfile.written import as_file
from trainyard.core.model.job import Job
from trainyard.core.model.study import Rule, Sampler, Study, Unit
from trainyard.core.model.study_fields import Point
from trainyard.protocol.objective import Goal, Objective
from trainyard.values import serialization
from trainyard.values.validation import InputFaults

JOB = next(json.loads(text) for path, text in schemas().items() if path.name == "job.schema.json")
SPACE: dict[str, Any] = {
    "args.lr": {"log": [1e-5, 0.1]},
    "args.units": {"integers": [16, 256], "step": 16},
    "args.optimizer": {"choice": ["sgd", "adam"]},
    "args.momentum": {"range": [0, 0.99], "when": {"args.optimizer": ["sgd"]}},
    "environment.MODE": {"choice": ["a", "b"]},
}


def file(parameters: dict[str, Any] = SPACE, **section: Any) -> dict[str, Any]:
    study = {"maximize": "accuracy", "parameters": parameters, "limits": {"dollars": 30}} | section
    return SMALLEST | {"study": {key: value for key, value in study.items() if value is not None}}


def job_of(given: dict[str, Any]) -> Job:
    found = check.check(given, source="x.yaml", bucket=BUCKET)
    assert isinstance(found, Job), found.reason
    return found


def study_of(given: dict[str, Any]) -> Study:
    study = job_of(given).study
    assert study
    return study


def faults_of(given: dict[str, Any]) -> dict[str, str]:
    found = check.check(given, source="x.yaml", bucket=BUCKET)
    assert isinstance(found, InputFaults)
    return {fault.path: fault.problem for fault in found.faults}


def test_a_study_has_defaults() -> None:
    study = study_of(file())
    assert (study.sampler, study_rules.trials_of(study), study.parallel) == (Sampler.TPE, 20, 1)
    assert (study.pruner.rule, study.pruner.by, study.pruner.start) == (Rule.MEDIAN, Unit.EPOCH, 4)
    assert study.objective == Objective(metric="accuracy", goal=Goal.MAXIMIZE)


def test_a_job_without_the_section_has_no_study() -> None:
    assert job_of(SMALLEST).study is None


def test_one_word_chooses_the_rule_of_early_stopping() -> None:
    assert study_of(file(pruner="none")).pruner.rule is Rule.NONE


@pytest.mark.parametrize(
    "given",
    [
        file(),
        file(pruner="none", first=[{"args.lr": 0.01}]),
        file({"args.n": {"integers": [1, 3]}}, sampler="grid"),
    ],
)
def test_the_schema_accepts_a_study_and_the_admitted_job_is_read_again(given: dict[str, Any]) -> None:
    assert accepts(JOB, given)
    admitted = job_of(given)
    written = serialization.to_json(admitted)
    assert serialization.from_json(Job, written) == admitted
    assert job_of(as_file(written)) == admitted


ONE = {"args.lr": {"range": [0, 1]}}


def one(**parameter: Any) -> dict[str, Any]:
    return file({"args.lr": parameter})


LR = "study.parameters.args.lr"
BAD = [
    # path of the fault, job file, part of the message
    ("study.parameters", file(parameters=None), "is missing; at least one parameter"),  # type: ignore[arg-type]
    ("study.parameters", file({}), "is missing; at least one parameter is required"),
    ("study.parameters", file({f"args.a{n}": {"range": [0, 1]} for n in range(31)}), "has 31 entries; up to 30"),
    ("study.limits.dollars", file(limits=None), "is missing; a number of dollars"),
    ("study.minimize", file(minimize="loss"), "cannot be combined with study.maximize"),
    ("study.maximize", file(maximize=None), "is missing; study.maximize or study.minimize is required"),
    ("study.maximize", file(maximize="val accuracy"), '"val accuracy" is not the name of a metric'),
    (f"{LR}.range", one(range=[1, 0]), "begins with 1, which is above 0; write [0, 1]"),
    (f"{LR}.range", one(range=[]), "found a list of 0; a list of two numbers"),
    (f"{LR}.range", one(range=[0, float("inf")]), "found the number inf; a list of two numbers"),
    (f"{LR}.range", one(range=[float("nan"), 1]), "found the number nan"),
    (f"{LR}.range", one(range=[0.5, 0.5]), "has one value, 0.5; write it into the job"),
    (f"{LR}.range", one(range="0 to 1"), 'found "0 to 1"; a list of two numbers'),
    (f"{LR}.log", one(log=[0, 1]), "found the number 0; a list of two numbers above 0"),
    (f"{LR}.log", one(log=[-1, 1]), "found the number -1; a list of two numbers above 0"),
    (f"{LR}.integers", one(integers=[1, 2.5]), "found the number 2.5; a list of two whole numbers"),
    (f"{LR}.step", one(range=[0, 1], step=0.3), "0.3 does not divide 0 to 1 into equal parts; end at 0.9"),
    (f"{LR}.step", one(range=[0, 1], step=2), "2 does not divide 0 to 1 into equal parts; write a smaller step"),
    (f"{LR}.step", one(integers=[1, 9], step=0.5), "found 0.5; a whole number is required with integers"),
    (f"{LR}.step", one(log=[0.1, 1], step=0.1), "is allowed with range and integers only, found log"),
    (LR, one(step=1), "has no values; one of range, log, integers, choice is required"),
    (LR, one(range=[0, 1], choice=[0, 1]), "has range and choice; one of"),
    (f"{LR}.choice", one(choice=[]), "found a list of 0; a list of 2 to 30 different values"),
    (f"{LR}.choice", one(choice=["a"]), "found a list of 1"),
    (f"{LR}.choice[1]", one(choice=["a", "a"]), '"a" is in the list twice'),
    (f"{LR}.rnage", one(rnage=[0, 1]), 'did you mean "range"?'),
    ("study.parameters.arg.lr", file({"arg.lr": {"range": [0, 1]}}), 'did you mean "args.lr"?'),
    ("study.parameters.env.A", file({"env.A": {"choice": ["a", "b"]}}), 'did you mean "environment.A"?'),
    ("study.parameters.lr", file({"lr": {"range": [0, 1]}}), 'did you mean "args.lr"?'),
    ("study.parameters.limits.hours", file({"limits.hours": {"range": [1, 2]}}), "is not args.NAME or environment.NAME"),
    ("study.parameters.secrets.KEY", file({"secrets.KEY": {"choice": ["a", "b"]}}), "names a secret"),
    ("study.parameters.environment.API_KEY", file({"environment.API_KEY": {"choice": ["a", "b"]}}), "looks like a secret"),
    ("study.parameters.environment.PATH", file({"environment.PATH": {"choice": ["a", "b"]}}), "cannot be set by a job"),
    ("study.parameters.args[0]", file({"args[0]": {"range": [0, 1]}}), "points into a list"),
    (f"{LR}.when.args.lr", one(range=[0, 1], when={"args.lr": [1]}), "refers to itself"),
    (f"{LR}.when.args.optimiser", file(SPACE | {"args.lr": {"range": [0, 1], "when": {"args.optimiser": ["sgd"]}}}), 'did you mean "args.optimizer"?'),
    (f"{LR}.when.args.units", file(SPACE | {"args.lr": {"range": [0, 1], "when": {"args.units": [16]}}}), "has no choice"),
    (f"{LR}.when.args.optimizer", file(SPACE | {"args.lr": {"range": [0, 1], "when": {"args.optimizer": ["rmsprop"]}}}), '"rmsprop" is not a value of its choice: sgd, adam'),
    ("study.parameters.args.a.when", file({"args.a": {"choice": [1, 2], "when": {"args.b": [1]}}, "args.b": {"choice": [1, 2], "when": {"args.a": [1]}}}), "is circular: it depends on args.b"),
    ("study.first[0].args.lr", file(first=[{"args.lr": 1}]), "found the number 1; a number from 1e-05 to 0.1 is allowed"),
    ("study.first[0].args.units", file(first=[{"args.units": 17}]), "in steps of 16 is allowed"),
    ("study.first[0].args.optimizer", file(first=[{"args.optimizer": "rmsprop"}]), "sgd or adam is allowed"),
    ("study.first[0].args.lrr", file(first=[{"args.lrr": 1}]), 'did you mean "args.lr"?'),
    ("study.first[1]", file(first=[{"args.lr": 0.1}, {}]), "an empty mapping"),
    ("study.first[0].args.momentum", file(first=[{"args.momentum": 0.5, "args.optimizer": "adam"}]), "has no effect in this point, which needs args.optimizer sgd"),
    ("study.sampler", file(sampler="bayes"), 'found "bayes"; allowed are tpe, cmaes, random, grid, none'),
    ("study.sampler", file({"args.o": {"choice": [1, 2]}}, sampler="cmaes"), "needs at least two parameters"),
    (LR, file(ONE, sampler="grid"), "has no step, so that a grid of it has no end"),
    ("study.sampler", file({"args.a": {"integers": [1, 40]}, "args.b": {"integers": [1, 26]}}, sampler="grid"), "the grid has more than 1000 points"),
    ("study.trials", file(trials=0), "found the number 0; a whole number from 1 to 1000"),
    ("study.trials", file(trials=1001), "found the number 1001"),
    ("study.parallel", file(trials=3, parallel=4), "found 4; the study has 3 trials: run at most 3 at once"),
    ("study.parallel", file({"args.o": {"choice": [1, 2]}}, sampler="grid", parallel=4), "the study has 2 trials"),
    ("study.limits.dollars", file(limits={"dollars": 5}), "found 5; one trial may cost 20 (limits.dollars)"),
    ("study.pruner", file(pruner="asha"), 'found "asha"; allowed are median, successive_halving, hyperband, none'),
    ("study.pruner.start", file(pruner={"start": 9}) | {"program": SMALLEST["program"] | {"args": {"epochs": 9}}}, "found 9; a trial has 9 epochs"),
    ("study.pruner.start", file(pruner={"start": 30}) | {"program": SMALLEST["program"] | {"args": {"epochs": 27}}}, "found 30; a trial has 27 epochs"),
    ("study.pruner.end", file(pruner="hyperband"), "is missing; hyperband needs the last epoch of a trial, because program.args has no number of epochs"),
    ("study.pruner.end", file(pruner={"rule": "hyperband", "by": "step"}), "is missing; hyperband needs the last step of a trial"),
    ("study.pruner.end", file(pruner={"rule": "hyperband", "end": 4}), "found 4; a number above start, 4, is required"),
    ("study.warm[1]", file(warm=["digits-1", "Digits"]), "\"Digits\" is not the id of a study"),
    ("study.warm", file(warm="digits-1"), "found \"digits-1\"; a list of up to 10 ids of studies is allowed"),
    ("study.keep", file(keep=0), "found the number 0; a whole number from 1 to 1000"),
    ("study.then.retrain.arg.epochs", file(then={"retrain": {"arg.epochs": 60}}, limits={"dollars": 40}), "did you mean \"args.epochs\"?"),
    ("study.then.retrain", file(then={"retrain": {"args.word": "${rnak}"}}, limits={"dollars": 40}), "the job refuses these values: program.args.word"),
    ("study.then.model", file(then={"model": "digits"}, limits={"dollars": 40}), "unknown key; allowed are retrain"),
    ("study.limits.dollars", file(then={"retrain": {"args.epochs": 60}}), "found 30; then.retrain reserves 20 (limits.dollars), and one trial may cost as much: give at least 40"),
    ("program.args", file() | {"program": SMALLEST["program"] | {"args": ["--lr", 1]}}, "is a list; parameters of a study need args by name"),
    ("objective", file() | {"objective": {"metric": "loss", "goal": "minimize"}}, "is not allowed with a study"),
    ("checkpoints.resume", file() | {"checkpoints": {"resume": "digits-1"}}, "is not allowed with a study"),
    ("after.image", file() | {"after": {"image": "always"}}, "is not allowed with a study, found always"),
    ("after.hosts", file() | {"after": {"hosts": "stop"}, "hardware": {"market": "on_demand"}}, "is not allowed with a study"),
    ("pool.keep", file() | {"pool": {"keep": 1}}, "is not allowed with a study"),
    ("policy", file() | {"policy": {"grace_minutes": 5}}, "is not allowed with a study"),
    ("cluster.workers", file() | {"cluster": {"workers": {"min": 1, "max": 2}}}, "unequal hosts make unequal trials"),
    ("study.parameters.args.word", file({"args.word": {"choice": ["${rnak}", "b"]}}), "the job refuses"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "given", "message"), BAD, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_fault_of_a_study_is_named_with_its_path(path: str, given: dict[str, Any], message: str) -> None:
    faults = faults_of(given)
    assert message in faults[path]


TOGETHER: dict[str, Any] = SMALLEST | {
    "program": SMALLEST["program"] | {"args": {"epochs": 9}},
    "checkpoints": {"resume": "digits-1"},
    "after": {"image": "always"},
    "cluster": {"workers": {"min": 1, "max": 2}},
    "study": {
        "maximize": "accuracy",
        "minimize": "loss",
        "parameters": {
            "args.reversed": {"range": [1, 0]},
            "args.empty": {"range": []},
            "args.infinite": {"range": [0, float("inf")]},
            "args.nan": {"range": [float("nan"), 1]},
            "args.one": {"range": [0.5, 0.5]},
            "args.zero": {"log": [0, 1]},
            "args.below": {"log": [-1, 1]},
            "args.step": {"range": [0, 1], "step": 0.3},
            "args.none": {"choice": []},
            "args.twice": {"choice": ["a", "a"]},
            "arg.lr": {"range": [0, 1]},
            "limits.hours": {"range": [1, 2]},
            "secrets.KEY": {"choice": ["a", "b"]},
            "args[0]": {"range": [0, 1]},
            "args.itself": {"choice": [1, 2], "when": {"args.itself": [1]}},
            "args.round": {"choice": [1, 2], "when": {"args.circle": [1]}},
            "args.circle": {"choice": [1, 2], "when": {"args.round": [1]}},
            "args.number": {"range": [0, 1], "when": {"args.units": [16]}},
            "args.other": {"range": [0, 1], "when": {"args.kind": ["c"]}},
            "args.word": {"choice": ["${rnak}", "b"]},
            "args.units": {"integers": [16, 256], "step": 16},
            "args.kind": {"choice": ["a", "b"]},
        },
        "first": [{"args.units": 512}, {"args.kind": "c"}],
        "pruner": {"start": 9},
        "trials": 3,
        "parallel": 4,
        "limits": {"dollars": 5},
        "warm": ["Digits"],
        "then": {"model": "digits"},
    },
}
"""A job file with every fault of a study that does not exclude another one."""
SENTENCES = {
    "study.minimize": "cannot be combined with study.maximize",
    "study.parameters.args.reversed.range": "begins with 1, which is above 0",
    "study.parameters.args.empty.range": "found a list of 0",
    "study.parameters.args.infinite.range": "found the number inf",
    "study.parameters.args.nan.range": "found the number nan",
    "study.parameters.args.one.range": "has one value, 0.5",
    "study.parameters.args.zero.log": "a list of two numbers above 0",
    "study.parameters.args.below.log": "found the number -1",
    "study.parameters.args.step.step": "0.3 does not divide 0 to 1",
    "study.parameters.args.none.choice": "found a list of 0",
    "study.parameters.args.twice.choice[1]": '"a" is in the list twice',
    "study.parameters.arg.lr": 'did you mean "args.lr"?',
    "study.parameters.limits.hours": "is not args.NAME or environment.NAME",
    "study.parameters.secrets.KEY": "names a secret",
    "study.parameters.args[0]": "points into a list",
    "study.parameters.args.itself.when.args.itself": "refers to itself",
    "study.parameters.args.round.when": "is circular",
    "study.parameters.args.circle.when": "is circular",
    "study.parameters.args.number.when.args.units": "has no choice",
    "study.parameters.args.other.when.args.kind": '"c" is not a value of its choice: a, b',
    "study.parameters.args.word": 'the job refuses "${rnak}"',
    "study.first[0].args.units": "found the number 512; a number from 16 to 256",
    "study.first[1].args.kind": "a or b is allowed",
    "study.pruner.start": "found 9; a trial has 9 epochs",
    "study.parallel": "found 4; the study has 3 trials",
    "study.limits.dollars": "found 5; one trial may cost 20",
    "study.warm[0]": '"Digits" is not the id of a study',
    "study.then.model": "unknown key; allowed are retrain",
    "checkpoints.resume": "is not allowed with a study",
    "after.image": "is not allowed with a study, found always",
    "cluster.workers": "unequal hosts make unequal trials",
}
EXCLUDED = {
    "study.parameters": (None, "is missing; at least one parameter"),
    "study.maximize": (None, "is missing; study.maximize or study.minimize is required"),
    "study.trials": (1001, "found the number 1001; a whole number from 1 to 1000"),
    "study.sampler": ("bayes", 'found "bayes"; allowed are'),
}


def test_all_faults_are_reported_together_each_with_its_own_sentence() -> None:
    found = faults_of(TOGETHER)
    assert found.keys() == SENTENCES.keys()
    assert {path: sentence for path, sentence in SENTENCES.items() if sentence not in found[path]} == {}
    rest: dict[str, Any] = {path.partition(".")[2]: value for path, (value, _) in EXCLUDED.items()}
    found = faults_of(file(**rest))
    assert {
        path for path, (_, sentence) in EXCLUDED.items() if sentence in found.get(path, "")
    } == EXCLUDED.keys()


def test_corner_values_are_tried_although_the_job_has_other_faults() -> None:
    given = file({"args.word": {"choice": ["${rnak}", "b"]}}, trials=0) | {"labels": 5}
    assert {"study.trials", "labels", "study.parameters.args.word"} == faults_of(given).keys()


def test_an_unquoted_no_in_a_choice_is_a_fault() -> None:
    text = b"name: x\nprogram: {module: training.programs.digits}\nstudy: {maximize: a, parameters: {args.b: {choice: [yes, no]}}, limits: {dollars: 30}}"
    found = document.parse(text, source="x.yaml", what="a job file")
    assert isinstance(found, dict)
    assert 'write "yes" in quotes' in faults_of(found)["study.parameters.args.b.choice[0]"]


def test_hyperband_takes_the_epochs_of_the_program() -> None:
    given = file(pruner="hyperband") | {"program": SMALLEST["program"] | {"args": {"epochs": 27}}}
    assert study_of(given).pruner.end == 27


def test_without_a_sampler_the_points_of_the_user_are_the_trials() -> None:
    study = study_of(file(sampler="none", first=[{"args.lr": 0.01}, {"args.lr": 0.02}]))
    assert study_rules.trials_of(study) == 2
    assert study_rules.trials_of(study_of(file(sampler="none"))) == 20


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ({"args.a": {"integers": [1, 3]}, "args.b": {"range": [0, 0.3], "step": 0.1}}, 12),
        ({"args.a": {"choice": ["x", "y"]}, "args.b": {"integers": [1, 5], "when": {"args.a": ["x"]}}}, 6),
    ],
)
def test_a_grid_has_every_combination_once(parameters: dict[str, Any], count: int) -> None:
    study = study_of(file(parameters, sampler="grid"))
    points = study_rules.grid_points(study)
    assert len(points) == count == len({json.dumps(point, sort_keys=True) for point in points})
    assert study_rules.trials_of(study) == count
    assert all(study.parameters[path].allows(value) for point in points for path, value in point.items())


def test_a_trial_is_the_job_with_the_values_and_without_the_study() -> None:
    point: Point = {"args.lr": 0.01, "environment.MODE": "b"}
    document = study_rules.with_values(file() | {"labels": {"team": "x"}}, point)
    trial = job_of(document)
    assert trial.study is None
    assert (trial.program.args, trial.program.environment) == ({"lr": 0.01}, {"MODE": "b"})
    assert trial.labels == {"team": "x"}


def test_a_number_becomes_text_in_an_environment_variable() -> None:
    study = file({"environment.WIDTH": {"integers": [1, 8]}})
    assert job_of(study_rules.with_values(study, {"environment.WIDTH": 4})).program.environment == {
        "WIDTH": "4"
    }


def test_a_job_of_another_tool_is_led_to_the_keys_of_a_study() -> None:
    assert "study.trials" in faults_of(change_job(n_trials=5))["n_trials"]


def test_a_study_with_a_schedule_or_a_chain_is_refused_with_what_to_do_instead() -> None:
    chain = {"runs": ["first-1a2b3c4d"], "when": "end"}
    found = faults_of({**file(), "schedule": {"cron": "0 3 * * *"}, "start_after": chain})
    assert "trainyard submit FILE --detach" in found["schedule"]
    assert "trainyard submit FIRST && trainyard submit STUDY" in found["start_after"]
