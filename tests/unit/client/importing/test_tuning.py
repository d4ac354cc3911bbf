"""Searches of other launchers become studies: SageMaker's tuning jobs, and scripts for Optuna and Ray Tune."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.importing.samples import FILES, draft_of, job_of
from trainyard.client.errors import NotImportable
from trainyard.client.importing.kinds import faults_of, write


def test_a_tuning_job_of_sagemaker(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "tuning.json")
    assert job["study"] == {
        "maximize": "validation:accuracy",
        "parameters": {
            "args.lr": {"log": [1e-5, 0.1]},
            "args.momentum": {"range": [0.0, 0.99]},
            "args.units": {"integers": [16, 256]},
            "args.batch": {"choice": [32, 64]},
        },
        "sampler": "tpe",
        "pruner": "median",
        "trials": 40,
        "parallel": 4,
        "seed": 7,
        "limits": {"dollars": 80.0, "hours": 2.0},
    }
    assert (job["name"], job["limits"]) == ("digits-tune", {"hours": 1})
    assert job["program"]["args"] == {"epochs": 10, "activation": "relu"}
    for item in (
        "TuningJobCompletionCriteria",
        "WarmStartConfig",
        "AutoParameters[0]",
        "whole numbers are drawn evenly",
    ):
        assert item in notes


def test_a_tuner_of_sagemakers_sdk(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "tuner.py")
    study = job["study"]
    assert study["parameters"] == {
        "args.lr": {"log": [1e-5, 0.1]},
        "args.units": {"integers": [16, 256]},
        "args.batch": {"choice": [32, 64]},
    }
    assert (study["minimize"], study["trials"], study["parallel"]) == ("val_loss", 20, 3)
    assert job["data"] == {"train": "s3://sets/digits/"}
    assert "`make_range()` is not literal" in notes
    assert "Hyperband needs the last epoch of a trial" in notes
    assert study["pruner"] == "median"


def test_a_script_for_optuna(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "search.py")
    assert job["study"] == {
        "maximize": "accuracy",
        "parameters": {
            "args.lr": {"log": [1e-5, 0.1]},
            "args.optimizer": {"choice": ["sgd", "adam", "rmsprop"]},
            "args.units": {"integers": [16, 240], "step": 16},
            "args.momentum": {"range": [0.0, 0.99], "when": {"args.optimizer": ["sgd"]}},
            "args.dropout": {
                "range": [0.0, 0.5],
                "step": 0.1,
                "when": {"args.optimizer": ["adam", "rmsprop"]},
            },
        },
        "sampler": "tpe",
        "seed": 7,
        "pruner": {"rule": "median", "start": 5},
        "trials": 50,
        "parallel": 4,
        "limits": {"dollars": 80.0, "hours": 1.0},
        "first": [{"args.lr": 0.01, "args.optimizer": "adam"}],
    }
    assert (job["name"], job["program"]["command"]) == ("digits", ["python", "search.py"])
    for item in (
        "units_{layer}",
        "units > 20",
        "multivariate=True",
        "storage",
        "enqueue_trial[1]",
        "ends at 240",
    ):
        assert item in notes


def test_a_script_for_ray_tune(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "space.py")
    assert job["study"] == {
        "maximize": "val_acc",
        "parameters": {
            "args.lr": {"log": [1e-4, 0.1]},
            "args.batch": {"choice": [16, 32, 64]},
            "args.units": {"integers": [16, 256]},
            "args.dropout": {"range": [0.0, 0.5], "step": 0.1},
            "args.model_activation": {"choice": ["relu", "tanh"]},
        },
        "sampler": "tpe",
        "seed": 3,
        "pruner": {"rule": "successive_halving", "start": 2},
        "trials": 30,
        "parallel": 5,
        "limits": {"dollars": 100.0, "hours": 2.0},
    }
    assert job["program"]["args"] == {"epochs": 10}
    assert job["hardware"]["instance_types"][0] == "g4dn.xlarge"
    for item in ("space.decay", "--model_activation", "reduction_factor=4"):
        assert item in notes


SUGGEST = "def f(trial):\n    x = {}\n    return x\n"
CASES: list[tuple[str, dict[str, Any], str]] = [
    # one call, its parameter, part of the note
    ("trial.suggest_uniform('lr', 0, 1)", {"range": [0.0, 1.0]}, ""),
    ("trial.suggest_loguniform('lr', 1e-3, 1)", {"log": [1e-3, 1.0]}, ""),
    ("trial.suggest_discrete_uniform('lr', 0, 1, 0.25)", {"range": [0.0, 1.0], "step": 0.25}, ""),
    ("trial.suggest_float('lr', 0, 1, log=True)", {"range": [0.0, 1.0]}, "0 has no order of magnitude"),
    ("trial.suggest_float('lr', low=0.1, high=10 * 3)", {"range": [0.1, 30.0]}, ""),
    (
        "trial.suggest_int('lr', 1, 8, log=True)",
        {"integers": [1, 8]},
        "drawn evenly, not by order of magnitude",
    ),
    ("trial.suggest_int('lr', 1, 8, 2)", {"integers": [1, 8]}, ""),
    ("trial.suggest_float('lr', 0, 1, step=0.3)", {"range": [0.0, 0.9], "step": 0.3}, "ends at 0.9"),
    ("trial.suggest_float('lr', 0, 1, step=2)", {"range": [0.0, 1.0]}, "longer than the interval"),
    ("trial.suggest_float('lr', 1, 1)", {}, "it has one value, 1"),
    ("trial.suggest_float('lr', 2, 1)", {}, "begins with 2, above 1"),
    ("trial.suggest_float('lr', 0, best())", {}, "not literal numbers"),
    ("trial.suggest_float('lr', 0, float('inf'))", {}, "not literal numbers"),
    ("trial.suggest_float(*space)", {}, "is not literal"),
    ("trial.suggest_float('a b', 0, 1)", {}, "cannot be the name of an argument"),
    (
        "trial.suggest_categorical('lr', ['a', None, 'b', 'a'])",
        {"choice": ["a", "b"]},
        "None cannot be a value",
    ),
    ("trial.suggest_categorical('lr', [(1, 2), (3, 4)])", {}, "it has no value"),
    ("trial.suggest_categorical('lr', list(range(3)))", {}, "its values are not literal"),
    ("trial.suggest_categorical('lr', [True, False])", {"choice": [True, False]}, ""),
    ("trial.suggest_categorical('lr', ['yes', 'no', '1e-3'])", {"choice": ["yes", "no", "1e-3"]}, ""),
    ("tune.uniform(0, 1)", {"range": [0.0, 1.0]}, ""),
    ("tune.loguniform(1e-3, 1, 10)", {"log": [1e-3, 1.0]}, ""),
    ("tune.qloguniform(1e-3, 1, 1e-3)", {"log": [1e-3, 1.0]}, "have no step"),
    ("tune.randint(0, 8)", {"integers": [0, 7]}, ""),
    ("tune.qrandint(0, 8, 2)", {"integers": [0, 8], "step": 2}, ""),
    ("tune.lograndint(1, 8)", {"integers": [1, 7]}, "not by order of magnitude"),
    ("tune.choice(['a', 'b'])", {"choice": ["a", "b"]}, ""),
    ("tune.choice(names)", {}, "its values are not literal"),
    ("tune.grid_search([1, 2])", {"choice": [1, 2]}, ""),
    ("tune.randn(0, 1)", {}, "tune.randn has no counterpart"),
]


@pytest.mark.parametrize(("call", "parameter", "note"), CASES)
def test_each_function_has_its_parameter_or_a_note(
    call: str, parameter: dict[str, Any], note: str, tmp_path: Path
) -> None:
    text = SUGGEST.format(call) if call.startswith("trial") else f'tune.run(f, config={{"lr": {call}}})\n'
    draft = draft_of(tmp_path, "train.py", text)
    found = draft.job["study"].get("parameters", {}).get("args.lr", {})
    assert found == parameter
    assert note in " ".join(str(each) for each in draft.notes)
    if parameter:
        target = tmp_path / "imported.yaml"
        write(draft.text("Imported."), target, force=False)
        assert faults_of(target) == []
    else:
        assert any(each.line for each in draft.notes), "what is left out has its line"


@pytest.mark.parametrize(
    ("text", "study"),
    [
        ("create_study(sampler=GridSampler({'lr': [1, 2]}))",
         {"sampler": "grid", "parameters": {"args.lr": {"choice": [1, 2]}}}),
        ("create_study(sampler=samplers.RandomSampler(seed=2))", {"sampler": "random", "seed": 2}),
        ("create_study(sampler=samplers.GPSampler())", {"sampler": "tpe"}),
        ("create_study(pruner=pruners.NopPruner())", {"pruner": "none"}),
        ("create_study(pruner=pruners.HyperbandPruner(min_resource=3))", {"pruner": {"rule": "median", "start": 3}}),
        ("create_study(pruner=pruners.HyperbandPruner(min_resource=3, max_resource=27))",
         {"pruner": {"rule": "hyperband", "start": 3, "end": 27}}),
        ("s.optimize(f, 9, n_jobs=-1)", {"trials": 9, "parallel": 1}),
        ("s.optimize(f, n_trials=5000, n_jobs=80)", {"trials": 1000, "parallel": 50}),
    ],
)  # fmt: skip
def test_settings_of_optuna(text: str, study: dict[str, Any], tmp_path: Path) -> None:
    draft = draft_of(tmp_path, "train.py", SUGGEST.format("trial.suggest_int('lr', 1, 8)") + text + "\n")
    assert {key: draft.job["study"][key] for key in study} == study


def test_a_file_of_two_launchers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotImportable, match="several launchers: Optuna and Ray Tune"):
        draft_of(tmp_path, "a.py", FILES["search.py"] + FILES["space.py"])


def test_a_request_with_several_definitions_keeps_the_first_and_names_the_others(tmp_path: Path) -> None:
    text = FILES["tuning.json"].replace('"TrainingJobDefinition": {', '"TrainingJobDefinitions": [{', 1)
    text = text.replace('},\n "WarmStartConfig"', '}, {"DefinitionName": "b"}],\n "WarmStartConfig"', 1)
    draft = draft_of(tmp_path, "a.json", text)
    assert draft.job["hardware"]["instance_types"] == ["g5.xlarge"]
    assert "TrainingJobDefinitions[1]" in [note.item for note in draft.notes]
