"""Output of `check` and `submit` before the run starts."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.ui import canned
from trainyard.cli.app import app
from trainyard.cli.commands.init import Example
from trainyard.cli.options import Options


@pytest.mark.parametrize("example", Example)
def test_what_init_writes_has_no_fault(tmp_path: Path, example: Example) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["init", str(tmp_path), "--example", example]).exit_code == 0
    done = runner.invoke(app, ["check", str(tmp_path / "job.yaml"), "-o", "json"])
    assert json.loads(done.stdout) == {
        "job": str(tmp_path / "job.yaml"),
        "ok": True,
        "faults": [],
        "warnings": [],
        "notes": [],
    }
    assert (tmp_path / ".trainyard" / "job.schema.json").is_file()


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("mine")
    done = CliRunner().invoke(app, ["init", str(tmp_path)])
    assert done.exit_code == 2
    assert (tmp_path / "job.yaml").read_text() == "mine"
    assert not (tmp_path / "src").exists()


def test_check_tells_every_fault_and_exits_with_three(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("name: X\nprogram: {module: 1}\nlimits: {hours: -1}\nlimit: 3\n")
    done = CliRunner().invoke(app, ["check", str(job)])
    assert done.exit_code == 3
    assert all(each in done.stderr for each in ("name:", "program.module:", "limits.hours:", "limit:"))
    said = json.loads(CliRunner().invoke(app, ["check", str(job), "-o", "json"]).stdout)
    assert (said["ok"], len(said["faults"])) == (False, 4)


def test_check_names_the_container_image_that_only_the_yard_can_read(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("name: x\nprogram: {container: nvcr.io/team/train:v1}\n")
    told = f"not checked: nvcr.io/team/train:v1 in its registry; trainyard plan {job} lets the yard read it"
    done = CliRunner().invoke(app, ["check", str(job), "-o", "json"])
    assert told in json.loads(done.stdout)["notes"][0]
    assert told in " ".join(CliRunner().invoke(app, ["check", str(job)]).stdout.split())


@pytest.mark.parametrize("words", [["--set", "limits.hours"], ["--set", "=1"], ["--set", "limits.hours=[1"]])
def test_a_change_that_cannot_be_read_is_a_fault_of_usage(tmp_path: Path, words: list[str]) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("name: x\nprogram: {module: training.programs.matmul}\n")
    assert CliRunner().invoke(app, ["check", str(job), *words]).exit_code == 2


def test_values_are_those_of_a_job_file(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("name: x\nprogram: {module: training.programs.matmul}\n")
    changes = [
        "--set",
        "limits.hours=.5",
        "--set",
        "hardware.instance_types=[g5.xlarge]",
        "--set",
        "args.size=2048",
    ]
    done = CliRunner().invoke(app, ["check", str(job), *changes])
    assert done.exit_code == 0
    assert "g5.xlarge; spot then on demand" in done.stdout
    assert "0.5 h" in done.stdout


FIT = """
import {keras}
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = {keras}.Sequential([])
    model.compile(loss="mse")
model.fit([1], epochs=3)
"""
TWO = "name: x\nprogram: {source: ./src, module: train}\ncluster: {strategy: multi_worker, workers: 2}\n"


def test_a_program_that_is_known_to_fail_is_refused_with_the_line_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/train.py").write_text(FIT.format(keras="tf.keras").replace("import tf.keras\n", ""))
    Path("my job.yaml").write_text(TWO)
    done = CliRunner().invoke(app, ["check", "my job.yaml"])
    assert done.exit_code == 3
    *_, step = done.stderr.splitlines()
    mend, _, force = step.removeprefix("Next: ").partition("; ")
    assert force == "--force runs it as it is"
    assert shlex.split(mend) == [
        "trainyard", "submit", "my job.yaml", "--set", 'program.environment.TF_USE_LEGACY_KERAS="1"'
    ]  # fmt: skip
    assert CliRunner().invoke(app, ["check", *shlex.split(mend)[2:]]).exit_code == 0
    said = json.loads(CliRunner().invoke(app, ["check", "my job.yaml", "-o", "json"]).stdout)
    assert (said["ok"], len(said["faults"])) == (False, 1)


@pytest.mark.parametrize(("force", "sends"), [((), False), (("--force",), True)])
def test_submit_sends_nothing_of_a_program_that_is_known_to_fail_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: tuple[str, ...], sends: bool
) -> None:
    cloud = canned.cloud()
    monkeypatch.setattr(Options, "find", lambda _: cloud.yard())
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/train.py").write_text(FIT.format(keras="tf.keras").replace("import tf.keras\n", ""))
    Path("job.yaml").write_text(TWO)
    done = CliRunner().invoke(app, ["submit", "--detach", "job.yaml", *force])
    assert (done.exit_code == 3) is not sends, done.stderr
    assert bool(cloud.calls["put_object"] + cloud.calls["list_objects_v2"]) is sends, done.stderr


def test_a_program_that_is_known_to_fail_and_imports_keras_itself_has_to_change(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text(FIT.format(keras="keras"))
    (tmp_path / "job.yaml").write_text(TWO)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "job.yaml")])
    assert done.exit_code == 3
    assert "Next: correct the program, and submit it again; --force runs it as it is" in done.stderr


def test_an_end_without_a_run_to_start_after_is_refused_before_anything_is_sent() -> None:
    done = CliRunner().invoke(app, ["submit", "job.yaml", "--when", "end"])
    assert done.exit_code == 2
    assert "--when needs --after RUN" in done.output
    assert "--set start_after.when=end" in done.output
