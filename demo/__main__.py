"""`make demo`: local cloud, deployment, image, run, model. Exit code 0 only when all of it worked.

Settings come from the environment, as `make demo JOB=... KEEP=1` gives them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from demo import bake, datasets, deployment, report, screen
from demo.cloud import ROOT, Cloud, port_for
from demo.datasets import HOST_PYTHON
from demo.phases import Phases
from demo.say import DemoError, console, quote, say
from demo.upload import module_of, upload
from demo.watch import View, gather
from demo.yard import Yard, session_of

BUILD = ROOT / "build" / "demo"
SHIPPED_JOB = ROOT / "jobs" / "digits.yaml"
DIGITS_MODULE = "training.programs.digits"
LEAST_ACCURACY = 0.95
PORT = 4566


@dataclass(frozen=True)
class Settings:
    """What the person asked for."""

    job: Path
    keep: bool
    state: Path

    @classmethod
    def from_environment(cls) -> "Settings":
        """JOB: a job file; KEEP=1: leave the cloud up; STATE: its folder."""
        return cls(
            job=Path(os.environ.get("JOB") or SHIPPED_JOB).resolve(),
            keep=os.environ.get("KEEP", "") not in ("", "0", "no", "false"),
            state=Path(os.environ.get("STATE") or ROOT / ".localcloud"),
        )


def main() -> int:
    """The whole demo; answers the exit code."""
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
            environment = cloud.environment()
            say(f"  {environment['AWS_ENDPOINT_URL']}, state in {os.path.relpath(settings.state)}")
        return run(settings, phases, environment)
    except DemoError as error:
        console.print(f"\n[bold red]Failed:[/bold red] {escape(str(error))}\nNext: {escape(error.next_step)}")
        return 1
    except KeyboardInterrupt:
        say("\nInterrupted.")
        keep = False
        return 130
    finally:
        leave(cloud, keep=keep, ours=ours)


def run(settings: Settings, phases: Phases, environment: dict[str, str]) -> int:
    """Deploy, bake, upload, watch, evaluate, tell."""
    with phases.phase("deploy", "Deploying the stacks"):
        yard = deployment.deploy(environment, settings.state)
    with phases.phase("bake", "Baking an image"):
        bake.ensure_image(yard)
    with phases.phase("upload", f"Uploading {os.path.relpath(settings.job)}"):
        uploaded = upload(yard, settings.job)
        arn = yard.run_for(uploaded.key, uploaded.version)
    with phases.phase("run", f"Run {arn.rsplit(':', 1)[-1]}"):
        view = screen.show(lambda: gather(yard, arn), every=2.0)
    summary = yard.summary(view.run) or {}
    accuracy = None
    try:
        _succeeded(view, summary)
        if module_of(settings.job) == DIGITS_MODULE:
            with phases.phase("evaluate", "Evaluating the model on held-out digits"):
                accuracy = evaluate(yard, view.run)
                say(f"  accuracy {accuracy:.4f} on digits the program never saw")
    finally:
        report.write(BUILD / "summary.json", summary, accuracy, phases.seconds)
    report.tell(yard, view, summary, phases.seconds)
    say(f"\nAll of it in numbers: {os.path.relpath(BUILD / 'summary.json')}")
    if accuracy is not None and accuracy < LEAST_ACCURACY and settings.job == SHIPPED_JOB:
        raise DemoError(
            f"the model's accuracy is {accuracy:.4f}, below {LEAST_ACCURACY}",
            f"look at s3://{yard.bucket}/runs/{view.run}/metrics.json (KEEP=1 leaves the cloud up)",
        )
    return 0


def _succeeded(view: View, summary: dict[str, Any]) -> None:
    """Return if the run succeeded; else DemoError with the run's own reason."""
    if view.execution.status == "SUCCEEDED":
        return
    reason = summary.get("reason") or view.reason or view.execution.cause or "the execution gives no cause"
    looking = (
        "KEEP=1 make demo leaves the cloud up: logs are in the bucket under runs/ and in CloudWatch Logs"
    )
    mending = "mend the job file (docs/job-file.md says what it may hold) and run it again"
    refused = summary.get("outcome") == "refused"
    raise DemoError(
        f"run {view.run} {view.execution.status.lower()}: {reason}", mending if refused else looking
    )


def evaluate(yard: Yard, run_id: str) -> float:
    """Accuracy of the SavedModel from the bucket on the held-out digits, by an interpreter with TensorFlow."""
    folder = BUILD / "model"
    shutil.rmtree(folder, ignore_errors=True)
    if not yard.download(f"runs/{run_id}/model/", folder):
        raise DemoError(f"runs/{run_id}/model/ is empty", "look at the chief's log under runs/")
    held_out = datasets.DIGITS.made_in(datasets.MADE) / "test"
    command = [str(HOST_PYTHON), "-m", "demo.evaluate", str(folder), str(held_out)]
    with console.status("loading TensorFlow ..."):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        quote(done.stderr)
        raise DemoError(
            "the model could not be evaluated (see above)", f"run it by hand: {' '.join(command)}"
        )
    return float(json.loads(done.stdout.splitlines()[-1])["accuracy"])


def leave(cloud: Cloud, *, keep: bool, ours: bool) -> None:
    """Stop what was started, or say how to look around and how to stop it."""
    folder = os.path.relpath(cloud.state)
    if keep and cloud.is_up():
        say("\n[bold]The cloud is still up.[/bold] Look around:")
        for line in tour(cloud, folder):
            console.print(f"  {line}", markup=False)
    elif ours:
        say("Stopping the local cloud")
        cloud.down()
    elif cloud.is_up():
        say(
            f"The cloud was up before and still is. To stop it: .venv/bin/python -m localcloud down --state {folder}"
        )


HOSTS = "Reservations[].Instances[].[InstanceId,State.Name,PrivateIpAddress,Tags[?Key==`trainyard:verdict`]|[0].Value]"


def tour(cloud: Cloud, folder: str) -> list[str]:
    """Commands for a person who wants to see for herself."""
    environment = cloud.environment()
    lines = [
        f'export PATH="{ROOT}/.tools/bin:{ROOT}/.venv/bin:$PATH"',
        f'eval "$(python -m localcloud env --state {folder})"',
        f"aws ec2 describe-instances --query '{HOSTS}'    # the last: what patrol says of it (docs/patrol.md)",
        "aws ssm list-command-invocations --details",
    ]
    if Yard.deployed(session_of(environment)):
        yard = Yard.of(environment)
        lines += [
            f"aws stepfunctions get-execution-history --execution-arn {yard.latest()}",
            f"aws s3 ls --recursive s3://{yard.bucket}/runs/",
            f"aws s3 cp yours.yaml s3://{yard.bucket}/jobs/yours.yaml    # starts a run",
        ]
    return [*lines, f"python -m localcloud down --state {folder}"]


def escape(text: str) -> str:
    """Text that rich shows as it is."""
    return text.replace("[", r"\[")


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    """A polite end is Ctrl-C: everything started is stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
