"""`make demo`: local cloud, deployment, image, run, model. Exit code 0 means that all steps succeeded.

Settings come from the environment, as in `make demo JOB=... KEEP=1`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from scripts import datasets
from scripts.datasets import HOST_PYTHON
from scripts.local_yard import ROOT, Cloud, port_for
from trainyard.cli.options import Options
from trainyard.cli.output import report, screen, study
from trainyard.cli.output.terminal import Phases, console, print_error, print_line, quote
from trainyard.client import Run, Yard, YardError
from trainyard.client.errors import NotHere, RunFailed
from trainyard.client.jobs import source
from trainyard.client.registry import list_models
from trainyard.command_line import command_line
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN
from trainyard.protocol.ledger.models import VersionState
from trainyard.protocol.ledger.study import STUDY

BUILD = ROOT / "build" / "demo"
SHIPPED_JOB = ROOT / "examples" / "digits.yaml"
DIGITS_MODULE = "training.programs.digits"
LEAST_ACCURACY = 0.95
PORT = 4566
VERSION_SECONDS = 120


@dataclass(frozen=True)
class Settings:
    """The user's settings."""

    job: Path
    keep: bool
    state: Path

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read JOB (a job file), KEEP=1 (leave the cloud up) and STATE (its folder)."""
        return cls(
            job=Path(os.environ.get("JOB") or SHIPPED_JOB).resolve(),
            keep=os.environ.get("KEEP", "") not in ("", "0", "no", "false"),
            state=Path(os.environ.get("STATE") or ROOT / ".localcloud"),
        )


def main() -> int:
    """Run the demo and return the exit code."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    settings = Settings.from_environment()
    phases = Phases()
    cloud = Cloud(settings.state, PORT)
    ours, keep = False, settings.keep
    try:
        with phases.phase("cloud", "Starting the local cloud"):
            ours = not cloud.is_up()
            if ours:
                cloud = Cloud(settings.state, port_for(PORT))
                cloud.up()
            print_line(f"  {cloud.session().endpoint}, state in {os.path.relpath(settings.state)}")
        run(settings, phases, cloud)
        return 0
    except YardError as error:
        print_error(error)
        return 1
    except KeyboardInterrupt:
        print_line("\nInterrupted.")
        keep = False
        return 130
    finally:
        leave(cloud, keep=keep, ours=ours)


def run(settings: Settings, phases: Phases, cloud: Cloud) -> None:
    """Deploy, bake, submit, follow, evaluate, report."""
    with phases.phase("deploy", "Deploying the stacks"), host_software():
        yard = cloud.deploy()
    with phases.phase("bake", "Baking an image"):
        bake(yard)
    with phases.phase("upload", f"Uploading {os.path.relpath(settings.job)}"):
        run = submit(yard, settings.job)
    if run.arn == yard.run(run.id, STUDY).arn:
        with phases.phase("study", f"Study {run.id}"):
            study.follow(Options(), yard, run)
            study.show(Options(), yard, run)
        if wanted := source.read(settings.job, to=yard.destination).job.after.model:
            with phases.phase("version", f"The version of {wanted.name}"):
                print_line(f"  {await_version(yard, wanted.name)}")
        return
    with phases.phase("run", f"Run {run.id}"):
        status = screen.show(run.follow())
    accuracy = None
    try:
        run.result()
        if module_of(settings.job) == DIGITS_MODULE:
            with phases.phase("evaluate", "Evaluating the model on held-out digits"):
                accuracy = evaluate(run)
                print_line(f"  accuracy {accuracy:.4f} on held-out digits")
            with phases.phase("predict", "Making a version of the model, and asking it"):
                print_line(f"  {predict(yard, run)}")
    finally:
        write(run.summary, accuracy, phases.seconds)
    report.print_report(run, status)
    for name, seconds in phases.seconds.items():
        print_line(f"  {name:<24} {seconds:>8.1f}")
    print_line(f"\nSummary: {os.path.relpath(BUILD / 'summary.json')}")
    if accuracy is not None and accuracy < LEAST_ACCURACY and settings.job == SHIPPED_JOB:
        raise NotHere(
            f"the model's accuracy is {accuracy:.4f}, below {LEAST_ACCURACY}",
            "the program has changed, or its training",
            f"look at s3://{yard.bucket.name}/{keys.metrics(run.id)} (KEEP=1 leaves the cloud up)",
        )


@contextmanager
def host_software() -> Iterator[None]:
    """Install the software for hosts and the evaluation in parallel to the block, which does not need it."""
    command = ["make", "--no-print-directory", ".venv-host/.ready"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL) as setup:
        try:
            yield
        except BaseException:
            setup.terminate()
            raise
    if setup.returncode:
        raise NotHere(
            "the software of hosts could not be installed", "what was printed is above", "make setup"
        )


def write(summary: dict[str, Any], accuracy: float | None, phases: dict[str, float]) -> None:
    """Write build/demo/summary.json: the run's summary, accuracy and phases."""
    BUILD.mkdir(parents=True, exist_ok=True)
    report = {**summary, "accuracy": accuracy, "phases": phases}
    (BUILD / "summary.json").write_text(json.dumps(report, indent=2) + "\n")


def bake(yard: Yard) -> None:
    """Bake an image from the current recipe, software and base image."""
    bake = yard.bake(ROOT / "examples" / yard.recipe)
    screen.show_states(bake)
    try:
        summary = bake.result()
    except RunFailed:
        quote("\n".join(bake.log("builder").splitlines()[-25:]))
        raise
    print_line(f"  {report.describe_image(bake.execution, summary)}")


def submit(yard: Yard, job: Path) -> Run:
    """Upload the shipped data and submit the job file. Return the run."""
    for data_set, uploads in datasets.upload(yard.bucket, job).items():
        print_line(
            f"  {data_set.what}: {len(uploads)} objects under s3://{yard.bucket.name}/{data_set.prefix}"
        )
    local = source.read(job, to=yard.destination)
    if (wanted := local.job.after.model) and wanted.name not in (each.name for each in list_models(yard)):
        print_line(f"  {yard.model(wanted.name).create()['reason']}")
    uploaded = yard.upload(local)
    for key in uploaded.sent:
        print_line(f"  s3://{yard.bucket.name}/{key}")
    return yard.run(uploaded.run, local.workflow).wait_for_start()


def await_version(yard: Yard, model: str) -> str:
    """Wait until the newest version of the model is ready or refused, and describe it in a sentence."""
    ends = time.monotonic() + VERSION_SECONDS
    while time.monotonic() < ends:
        newest = yard.model(model).rows.versions[-1:]
        if newest and newest[0].state is not VersionState.MAKING:
            found = newest[0]
            metrics = ", ".join(f"{name} {value:.4g}" for name, value in sorted(found.metrics.items()))
            return f"version {found.shown} of {model} is {found.state}, from {found.run}: {found.reason or metrics}"
        time.sleep(1)
    raise NotHere(
        f"{model} has no version of this study after {VERSION_SECONDS} s",
        "its metrics do not meet the condition of the job, or the version is still being made",
        command_line("models", "show", model),
    )


def evaluate(run: Run) -> float:
    """Return the accuracy of the run's SavedModel on held-out digits, computed by an interpreter with TensorFlow."""
    folder = BUILD / "model"
    shutil.rmtree(folder, ignore_errors=True)
    held_out = datasets.DIGITS.made_in(datasets.MADE) / "test"
    command = [str(HOST_PYTHON), "-m", "scripts.demo.evaluate", str(run.model(folder)), str(held_out)]
    with console.status("loading TensorFlow ..."):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        quote(done.stderr)
        raise NotHere("the model could not be evaluated", "what was printed is above", " ".join(command))
    return float(json.loads(done.stdout.splitlines()[-1])["accuracy"])


def predict(yard: Yard, run: Run) -> str:
    """Make a version of the run's model, ask it about a golden row, and return its answer in a sentence."""
    model = yard.model(run.id)
    model.create()
    model.create_version("v1", run.id)
    model.set_default("v1")
    golden = yard.bucket.json(f"{keys.version(run.id, 1)}{GOLDEN}") or {}
    row = golden["signatures"]["classify"]["inputs"]["image"][0]
    found = model.predict([row], signature="classify")
    best = found.predictions[0]
    return f"version {found.version} of {run.id}: class {best['classes'][0]}, score {best['scores'][0]:.4f}"


def module_of(job: Path) -> str:
    """Return the program's module in the job file, or an empty string."""
    try:
        return str(yaml.safe_load(job.read_text())["program"]["module"])
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
        return ""


def leave(cloud: Cloud, *, keep: bool, ours: bool) -> None:
    """Stop the cloud, or print how to look around and stop it."""
    folder = os.path.relpath(cloud.state)
    if keep and cloud.is_up():
        print_line("\n[bold]The cloud is still up.[/bold] Look around:")
        for line in tour(folder):
            console.print(f"  {line}", markup=False)
    elif ours:
        print_line("Stopping the local cloud (KEEP=1 leaves it up, with all that is in it)")
        cloud.down()
    elif cloud.is_up():
        print_line(
            f"The cloud was up before and still is. To stop it: .venv/bin/trainyard local down --state {folder}"
        )


def tour(folder: str) -> list[str]:
    """Return commands for a tour."""
    return [
        f'export PATH="{ROOT}/.tools/bin:{ROOT}/.venv/bin:$PATH"',
        f'eval "$(trainyard local env --state {folder})"',
        "trainyard show @last      # and ls, logs, why, get, hosts, cost: trainyard --help",
        "trainyard init mine && trainyard submit mine/job.yaml",
        f"trainyard local down --state {folder}",
    ]


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM like Ctrl-C, so that everything started is stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
