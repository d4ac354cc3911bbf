"""Upgrade a yard during a run, whose old state machine calls the new functions."""

import json
import shutil
import subprocess
from pathlib import Path

from scripts.assembly import SOURCES
from scripts.local_yard import CHOICES, ROOT, client_environment
from tests.e2e.runs import Runs
from trainyard import __version__

VERSION = "0.2.99"
BUILT = ("build/layer", "build/layer.sha256")
"""The packages of the yard that are equal in both versions."""


def newer(folder: Path) -> Path:
    """Copy the sources as a later version with changes in all functions, a state machine and an SSM document."""
    for name in (*SOURCES, "scripts", "requirements.txt", *BUILT):
        source, copy = ROOT / name, folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            compiled = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy, symlinks=True, ignore=compiled, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy2(source, copy)
    changes = {
        "trainyard/__init__.py": ('__version__ = "', f'__version__ = "{VERSION}"\n_BEFORE = "'),
        "lambdas/steps/observability.py": ('"""', '"""Newer. '),
        "lambdas/workflows/train.asl.json": ('"Comment": "', '"Comment": "Newer. '),
        "stacks/documents/stop.yaml": ("description: ", "description: Newer. "),
    }
    for name, (before, after) in changes.items():
        text = (folder / name).read_text()
        assert before in text, name
        (folder / name).write_text(text.replace(before, after, 1))
    return folder


def test_a_run_in_flight_survives_an_upgrade_and_a_loss_after_it(runs: Runs, tmp_path: Path) -> None:
    session = runs.yard.session
    run = runs.in_mid_training(
        runs.job("upgraded", cluster={"strategy": "single", "workers": 1}, program={"args": {"steps": 120}})
    )
    (host,) = (each["InstanceId"] for each in runs.yard.instances(run.id))
    runs.signal(host, "STOP", "steps")  # so that the run does not end during the deployment
    (runs.cloud.state / "deployed").unlink()
    done = subprocess.run(
        ["scripts/deploy", *CHOICES],
        cwd=newer(tmp_path / "newer"),
        env=client_environment(runs.cloud.environment()) | {"CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    history = session.client("ssm").get_parameter_history(Name="/trainyard/yard")["Parameters"]
    before, now = (json.loads(each["Value"])["version"] for each in history)
    assert (before, now) == (__version__, VERSION)
    assert not run.execution.is_over, run.why()

    session.client("ec2").terminate_instances(InstanceIds=[host])
    runs.finish(run)
    assert run.succeeded, run.why()
    _, second = run.summary["attempts"]
    assert second["from_step"] > 0
    assert run.summary["resume"]["verified"] is True
    assert runs.run(runs.job("after-it")).succeeded
    assert runs.living() == []
