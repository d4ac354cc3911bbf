"""Run unmodified programs (tests/e2e/scripts) that do not use Trainyard."""

from pathlib import Path
from typing import Any

from tests.e2e.published import script
from tests.e2e.runs import Runs
from trainyard.client.jobs.source import pack_folder

LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
SLOW_AT_FIRST: dict[str, Any] = {"pause": 5.0, "attempt": "${attempt}"}
"""Arguments whose first attempt takes minutes, long enough for a late interruption, and whose second is fast."""


def test_a_tutorial_on_several_workers_trains_unmodified(runs: Runs) -> None:
    job = script(
        runs,
        "tf_config_fit",
        cluster={"strategy": "multi_worker", "workers": 2},
        args={"model_dir": "${model}"},
        program={"environment": LEGACY, "expect": ["model"]},
    )
    run = runs.run(job)
    assert run.succeeded, run.why()
    assert "workers 2 accuracy 0.9" in run.log(attempt=1)
    runs.until_log(run, "worker-1", "workers 2 accuracy 0.9")
    assert "model/saved_model.pb" in run.keys


def test_the_same_with_keras_3_fails_and_its_run_warns_of_it(runs: Runs) -> None:
    job = script(runs, "tf_config_fit", cluster={"strategy": "multi_worker", "workers": 2})
    run = runs.run(job)
    assert run.summary["outcome"] == "failed"
    (warning,) = run.summary["warnings"]
    assert "tf_config_fit.py line" in warning
    assert 'TF_USE_LEGACY_KERAS: "1"' in warning


def test_a_tutorial_on_parameter_servers_trains_unmodified(runs: Runs) -> None:
    served = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
    run = runs.run(script(runs, "coordinator_fit", cluster=served))
    assert run.succeeded, run.why()
    assert "epoch 4 loss 0.000000" in run.log(attempt=1)
    with_gpu = [host for host in run.summary["hosts"] if host["type"] == "g6.xlarge"]
    assert (len(with_gpu), len(run.summary["hosts"])) == (2, 4), "chief and parameter server need no GPU"


def test_a_program_of_2017_trains_and_with_a_saver_of_its_own_goes_on_after_an_interruption(
    runs: Runs,
) -> None:
    names = ("ps_hosts", "worker_hosts", "job_name", "task_index")
    args = {name: f"${{{name}}}" for name in names} | {
        "train_dir": "${checkpoints}",
        "steps": 2000,
        **SLOW_AT_FIRST,
        "own_saver": True,
    }
    served = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1, "chief": "worker"}
    job = script(runs, "flags_2017", args=args, cluster=served, program={"expect": ["checkpoint"]})
    run = runs.in_mid_training(job)
    runs.cloud.fault("interrupt", runs.host_of(run, "chief"))
    runs.finish(run)
    assert run.succeeded, run.why()
    first, second = run.summary["attempts"]
    assert (first["ending"], len(run.summary["hosts"])) == ("interrupted", 4)
    assert second["from_step"] > 0
    assert "cost 0.000" in run.log(attempt=2) + run.log("worker-1", attempt=2)
    assert "checkpoint" in {key.rpartition("/")[2] for key in run.keys}


def test_checkpoints_on_the_disks_of_parameter_servers_are_no_checkpoints(runs: Runs) -> None:
    names = ("ps_hosts", "worker_hosts", "job_name", "task_index")
    args = {name: f"${{{name}}}" for name in names} | {"train_dir": "${checkpoints}", "steps": 1000}
    served = {"strategy": "parameter_server", "workers": 1, "parameter_servers": 1, "chief": "worker"}
    run = runs.run(script(runs, "flags_2017", args=args, cluster=served))
    assert run.succeeded, run.why()
    assert "a restart would begin from step 0" in run.log(attempt=1)
    assert runs.checkpoint_of(run) == 0


def test_a_keras_script_goes_on_where_its_own_backup_was(runs: Runs) -> None:
    args = {"backup": "${checkpoints}/backup", "epochs": 60, **SLOW_AT_FIRST}
    run = runs.in_mid_training(script(runs, "keras_alone", args=args))
    runs.cloud.fault("interrupt", runs.host_of(run, "chief"))
    runs.finish(run)
    assert run.succeeded, run.why()
    assert len(run.summary["attempts"]) == 2
    last = run.log(attempt=2).split("epochs run here: ")[1]
    assert int(last.split(",")[0]) < 60, "it started from the beginning"


def test_a_keras_script_that_tensorboard_watches_has_a_curve_and_progress(runs: Runs) -> None:
    """Keras' events count epochs and its printed lines steps; the job's pattern overrides both."""
    watched = script(runs, "keras_tensorboard", args={"logs": "${tensorboard}", "epochs": 6})
    printed = script(runs, "keras_tensorboard", args={"epochs": 6})
    printed["program"]["progress"] = (
        r"Epoch (?P<epoch>\d+)/(?P<steps>\d+)|accuracy: (?P<accuracy>[\d.]+) - loss: (?P<loss>[\d.]+)"
    )
    started = [runs.start(job) for job in (watched, printed | {"name": "keras-printed"})]
    for run, last in zip(started, (6 * 24, 6), strict=True):
        runs.finish(run)
        assert run.succeeded, run.why()
        assert run.summary["steps"]["done"] == last
        losses = [sample["loss"] for sample in run.latest_metrics["samples"]]
        steps = [sample["step"] for sample in run.latest_metrics["samples"]]
        assert steps == sorted(set(steps))
        assert (len(steps) >= 6, steps[-1]) == (True, last)
        assert 0 < losses[-1] < losses[0]
        assert run.latest_metrics["accuracy"] > 0.5
    assert any("tensorboard/train/events.out.tfevents" in key for key in started[0].keys)
    assert "Epoch 6/6" in [line.text for line in started[0].logs(role="chief", follow=True)]


THEIRS = """
import importlib
from pathlib import Path

for name in {names}:
    module = importlib.import_module(name)
    assert Path(module.__file__).is_relative_to(Path(__file__).parent), module.__file__

import tensorflow as tf
from trainyard.runtime import start

runtime = start()
one_each = runtime.strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1)))
print("hosts that agree:", int(runtime.strategy.experimental_local_results(one_each)[0]))
runtime.finish(0)
"""


def test_a_program_may_call_its_own_modules_as_ours_are_called(runs: Runs, tmp_path: Path) -> None:
    """The folders have no __init__.py, so a package of Trainyard on the path would hide them.

    tests/contract/agent/test_names.py covers packages and requirements.
    """
    folders, modules = ("training", "host", "runtime", "lambdas"), ("data", "utils", "programs")
    for folder in folders:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "inside.py").touch()
    for module in modules:
        (tmp_path / f"{module}.py").touch()
    names = (*(f"{folder}.inside" for folder in folders), *modules)
    (tmp_path / "mine.py").write_text(THEIRS.format(names=names))
    runs.yard.bucket.put("programs/theirs.tar.gz", pack_folder(tmp_path))
    job = runs.job("theirs", data=None, cluster={"strategy": "multi_worker", "workers": 2})
    job["program"] |= {"source": "s3://BUCKET/programs/theirs.tar.gz", "module": "mine", "args": None}
    run = runs.run(job)
    assert run.succeeded, run.why()
    assert "hosts that agree: 2" in run.log(attempt=1)
    runs.until_log(run, "worker-1", "hosts that agree: 2")
