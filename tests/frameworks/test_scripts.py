"""Ten published scripts (tests/frameworks/scripts) continue after an interruption."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

from scripts.local_yard import Cloud
from tests.frameworks.waiting import SECONDS, until
from trainyard.client import Yard

SCRIPTS = Path(__file__).parent / "scripts"
MACHINE = {"instance_types": ["m7i.xlarge", "m6i.xlarge"], "market": "spot"}


@dataclass(frozen=True)
class Script:
    """A script. `continues` is the line of the second attempt with the number where it continues. `kept` names files
    that the user must have in the end."""

    continues: str
    kept: tuple[str, ...]
    shows: tuple[str, ...] = ("step", "loss")
    module: str = "train"
    args: dict[str, Any] = field(default_factory=dict)


NAMES: dict[str, Script] = {
    "keras_checkpoint": Script(
        r"Restoring from checkpoints/epoch-(\d+)", ("outputs/model.keras", "checkpoints/epoch-120.keras")
    ),
    "keras_backup": Script(r"first epoch here: (\d+)", ("final_model.h5", "history.csv")),
    "tf_loop": Script(
        r"Restored from ./ckpt/ckpt-\d+ at step (\d+)", ("ckpt/checkpoint", "export/1/saved_model.pb")
    ),
    "tf_cyclegan": Script(r"Latest checkpoint restored!! (\d+) epochs", ("checkpoints/train/checkpoint",)),
    "torch_steps": Script(r"resuming from checkpoints/\d{7}.pt at step (\d+)", ("checkpoints/0000600.pt",)),
    "torch_imagenet": Script(
        r"=> loaded checkpoint 'checkpoint.pth.tar' \(epoch (\d+)\)",
        ("checkpoint.pth.tar", "model_best.pth.tar"),
        module="main",
        args={"resume": "checkpoint.pth.tar"},
    ),
    "numpy_outputs": Script(r"continuing at (\d+)", ("outputs/state.npz", "outputs/final.npy")),
    "numpy_tqdm": Script(r"resuming at (\d+)", ("results/state.npz", "results/metrics.jsonl")),
    "lightning_last": Script(r"starts at epoch (\d+)", ("checkpoints/last.ckpt",)),
    "huggingface": Script(r"starts at global step (\d+)", ("results/final/model.safetensors",)),
}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_interrupted_it_continues_where_it_was_and_every_file_is_there(
    cloud: Cloud, yard: Yard, tmp_path: Path, name: str
) -> None:
    script = NAMES[name]
    run = yard.submit(job_of(name, script, tmp_path))
    until(run, lambda: any(key.startswith("outputs/") for key in run.keys))
    until(run, lambda: set(script.shows) <= (run.json("metrics.json") or {}).keys())
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    cloud.fault("interrupt", hosts[0]["instance"])
    run.wait(2 * SECONDS, every=0.5)
    assert run.succeeded, run.why()
    assert [attempt["ending"] for attempt in run.summary["attempts"]] == ["interrupted", "finished"]
    found = re.search(script.continues, run.log(attempt=2))
    assert found, run.log(attempt=2)
    assert int(found[1]) > 0, "it began again"
    steps = [sample["step"] for sample in run.latest_metrics["samples"]]
    assert steps == sorted(set(steps))
    assert steps[0] < steps[-1]
    run.fetch("everything", tmp_path / "got")
    outputs = tmp_path / "got" / "outputs"
    for kept in script.kept:
        assert (outputs / kept).exists(), sorted(map(str, outputs.rglob("*")))
    assert (name == "lightning_last") is any(path.is_symlink() for path in outputs.rglob("*"))


def job_of(name: str, script: Script, folder: Path) -> Path:
    """Write a job file beside a copy of the script."""
    copytree(SCRIPTS / name, folder / "src")
    program: dict[str, Any] = {"source": "./src", "module": script.module, "args": script.args}
    if (folder / "src" / "requirements.txt").exists():
        program |= {"requirements": "requirements.txt", "environment": {"OMP_NUM_THREADS": "1"}}
    job = {
        "name": name.replace("_", "-"),
        "program": program,
        "cluster": {"strategy": "single"},
        "hardware": MACHINE,
        "limits": {"hours": 1, "dollars": 2, "restarts": 3},
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return path
