"""Files of other launchers that search for the best parameters."""

import json
from typing import Any

TUNING: dict[str, Any] = {
    "HyperParameterTuningJobName": "digits-tune",
    "HyperParameterTuningJobConfig": {
        "Strategy": "Bayesian",
        "HyperParameterTuningJobObjective": {"Type": "Maximize", "MetricName": "validation:accuracy"},
        "ResourceLimits": {
            "MaxNumberOfTrainingJobs": 40,
            "MaxParallelTrainingJobs": 4,
            "MaxRuntimeInSeconds": 7200,
        },
        "ParameterRanges": {
            "ContinuousParameterRanges": [
                {"Name": "lr", "MinValue": "1e-5", "MaxValue": "0.1", "ScalingType": "Logarithmic"},
                {"Name": "momentum", "MinValue": "0", "MaxValue": "0.99", "ScalingType": "Auto"},
            ],
            "IntegerParameterRanges": [
                {"Name": "units", "MinValue": "16", "MaxValue": "256", "ScalingType": "Logarithmic"}
            ],
            "CategoricalParameterRanges": [
                {"Name": "batch", "Values": ["32", "64"]},
                {"Name": "activation", "Values": ["relu"]},
            ],
            "AutoParameters": [{"Name": "decay", "ValueHint": "0.1"}],
        },
        "TrainingJobEarlyStoppingType": "Auto",
        "RandomSeed": 7,
        "TuningJobCompletionCriteria": {"TargetObjectiveMetricValue": 0.99},
    },
    "TrainingJobDefinition": {
        "StaticHyperParameters": {
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"s3://code/digits/source.tar.gz"',
            "epochs": "10",
        },
        "AlgorithmSpecification": {"TrainingImage": "images/tf", "TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 100},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "EnableManagedSpotTraining": True,
    },
    "WarmStartConfig": {"WarmStartType": "TransferLearning"},
    "Tags": [{"Key": "team", "Value": "vision"}],
}
TUNER = """
from sagemaker.tensorflow import TensorFlow
from sagemaker.tuner import CategoricalParameter, ContinuousParameter, HyperparameterTuner, IntegerParameter

estimator = TensorFlow(entry_point="train.py", source_dir="code", instance_type="ml.g5.xlarge", instance_count=1)
ranges = {
    "lr": ContinuousParameter(1e-5, 0.1, scaling_type="Logarithmic"),
    "units": IntegerParameter(16, 256),
    "batch": CategoricalParameter([32, 64]),
    "other": make_range(),
}
tuner = HyperparameterTuner(
    estimator, "val_loss", ranges, objective_type="Minimize", max_jobs=20, max_parallel_jobs=3, strategy="Hyperband"
)
tuner.fit({"train": "s3://sets/digits/"})
"""
OPTUNA = """
import optuna

def objective(trial):
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    optimizer = trial.suggest_categorical("optimizer", ["sgd", "adam", "rmsprop"])
    units = trial.suggest_int("units", 16, 250, step=16)
    for layer in range(3):
        trial.suggest_int(f"units_{layer}", 4, 128, log=True)
    if optimizer == "sgd":
        momentum = trial.suggest_float("momentum", 0, 0.99)
    elif units > 20:
        dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    accuracy = train(lr)
    trial.report(accuracy, 1)
    return accuracy

study = optuna.create_study(
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=7, multivariate=True),
    pruner=optuna.pruners.MedianPruner(n_warmup_steps=5),
    study_name="Digits",
    storage="sqlite:///digits.db",
)
study.enqueue_trial({"lr": 0.01, "optimizer": "adam"})
study.enqueue_trial(best_of_last_week())
study.optimize(objective, n_trials=50, timeout=3600, n_jobs=4)
"""
RAY = """
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

space = {
    "lr": tune.loguniform(1e-4, 1e-1),
    "batch": tune.choice([16, 32, 64]),
    "units": tune.randint(16, 257),
    "dropout": tune.quniform(0.0, 0.5, 0.1),
    "epochs": 10,
    "model": {"activation": tune.choice(["relu", "tanh"])},
    "decay": tune.sample_from(lambda config: config.lr / 10),
}
tuner = tune.Tuner(
    tune.with_resources(train, {"cpu": 4, "gpu": 1}),
    param_space=space,
    tune_config=tune.TuneConfig(
        metric="val_acc", mode="max", num_samples=30, max_concurrent_trials=5, time_budget_s=7200,
        scheduler=ASHAScheduler(grace_period=2, reduction_factor=4), search_alg=OptunaSearch(seed=3),
    ),
)
"""
TUNING_FILES = {
    "tuning.json": json.dumps(TUNING, indent=1),
    "tuner.py": TUNER,
    "search.py": OPTUNA,
    "space.py": RAY,
}
