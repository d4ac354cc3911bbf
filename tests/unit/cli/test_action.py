"""The GitHub Action: its reports about a run, and the inputs that reach a shell."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import pytest
import typer
import yaml

from tests.blocks import blocks_of, inline_of
from tests.unit.ui.canned import VERSION, Clock, Cloud, Story, run_row, stamp
from trainyard.cli import github
from trainyard.cli.github import Cancellation, GitHub, Inputs, OnCancel
from trainyard.client.errors import JobRefused
from trainyard.core.model import tokens
from trainyard.exit_codes import ExitCode

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
KEY = "jobs/by/ada/line.json"
RUN = tokens.run_id("line", key=KEY, version=VERSION)


# --- action.yml
def test_nothing_of_a_workflow_is_pasted_into_a_script() -> None:
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []
    assert {step["shell"] for step in STEPS if "run" in step} == {"bash"}


def test_every_input_reaches_the_program_and_every_output_comes_from_it() -> None:
    (train,) = [step for step in STEPS if step.get("id") == "train"]
    given = {name: value for name, value in train["env"].items() if name.startswith("INPUT_")}
    wanted = {
        f"INPUT_{each.upper().replace('-', '_')}": f"${{{{ inputs.{each} }}}}" for each in ACTION["inputs"]
    }
    assert given == wanted
    assert {name: each["value"] for name, each in ACTION["outputs"].items()} == {
        name: f"${{{{ steps.train.outputs.{name} }}}}" for name in ("run", "state", "reason", "dollars")
    }
    assert all(each["description"] for each in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


def test_other_actions_are_pinned_by_a_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each)] == []


def test_the_page_says_all_of_it() -> None:
    (workflow,) = [block for block in blocks_of("docs/tasks/github-action.md") if block.language == "yaml"]
    steps = yaml.safe_load(workflow.text)["jobs"]["train"]["steps"]
    (ours,) = [step for step in steps if "trainyard@" in step.get("uses", "")]
    assert ours["with"].keys() < ACTION["inputs"].keys()
    named = set(inline_of("docs/tasks/github-action.md"))
    assert {*ACTION["inputs"], *ACTION["outputs"]} <= named


def test_what_it_installs_is_what_the_package_needs() -> None:
    """The modules that the step imports come from the action, too."""
    listed = re.findall(r"^([\w-]+)==", (ROOT / "requirements/client.txt").read_text(), re.MULTILINE)
    needed = re.search(
        r"^dependencies = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL
    )
    assert needed
    assert sorted(listed) == sorted(re.findall(r'"([\w-]+)', needed[1]))


# --- inputs
def test_inputs_are_those_of_submit() -> None:
    asked = Inputs.of(
        {
            "INPUT_JOB": "job.yaml",
            "INPUT_SET": "args.lr=0.1\n\n  limits.hours=2\n",
            "INPUT_LABELS": "commit=abc",
            "INPUT_NAME": "mine",
            "INPUT_RESUME": "line-1a2b3c4d",
            "INPUT_ON_CANCEL": "leave",
        }
    )
    assert asked.changes == {
        "args.lr": 0.1,
        "limits.hours": 2,
        "labels.commit": "abc",
        "name": "mine",
        "checkpoints.resume": "line-1a2b3c4d",
    }
    assert (asked.job, asked.model, asked.on_cancel) == (Path("job.yaml"), None, OnCancel.LEAVE)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "the input job is empty"),
        ({"INPUT_JOB": "a", "INPUT_ON_CANCEL": "kill"}, "stop or leave, not 'kill'"),
        ({"INPUT_JOB": "a", "INPUT_ON_CANCEL": "stop", "INPUT_SET": "lr"}, "KEY=VALUE, not 'lr'"),
    ],
)
def test_an_input_that_cannot_be_meant_is_said(given: dict[str, str], words: str) -> None:
    with pytest.raises(typer.BadParameter, match=words):
        Inputs.of(given)


# --- reports to a workflow
class Begins(Cloud):
    """A cloud that starts a run of this story for an uploaded job."""

    def __init__(self, story: Story) -> None:
        super().__init__([])
        self.story_of_job = story
        self.cancels: Cancellation | None = None

    def has_put(self, key: str) -> None:
        if key == KEY:
            self.stories[RUN] = self.story_of_job
            if self.cancels:
                self.cancels._receive(15, None)  # like a signal that arrives now


def story(status: str, outcome: str, reason: str = "", **files: bytes) -> Story:
    begun = Clock(datetime.now(UTC) - timedelta(minutes=3))
    summary = {"outcome": outcome, "reason": reason, "error": "ProgramFailed", "cost": {"dollars": 0.12}}
    return Story(
        row=run_row(RUN, begun(0), ended=stamp(begun(60)), **({"outcome": outcome} if outcome else {})),
        states=[(begun(1), "Admit"), (begun(2), "Train")],
        status=status,
        files={"summary.json": json.dumps(summary).encode(), **files},
    )


@pytest.fixture
def hub(tmp_path: Path) -> GitHub:
    return GitHub(tmp_path / "outputs", tmp_path / "summary")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text("name: line\nprogram: {module: training.programs.matmul}\n")
    return file


def asked(job: Path, **more: Any) -> Inputs:
    return Inputs(**{"job": job, "changes": {}, "model": None, "on_cancel": OnCancel.STOP, **more})


def outputs(hub: GitHub) -> dict[str, str]:
    """Parse the file as the runner does."""
    lines = iter(hub.outputs.read_text().splitlines())
    return {name: "\n".join(until(lines, end)) for name, end in (line.split("<<") for line in lines)}


def until(lines: Iterator[str], end: str) -> Iterator[str]:
    for line in lines:
        if line == end:
            return
        yield line


def test_a_run_that_succeeds(hub: GitHub, job: Path, tmp_path: Path) -> None:
    cloud = Begins(story("SUCCEEDED", "succeeded"))
    assert github.train(cloud.yard(), asked(job), hub, Cancellation()) == ExitCode.DONE
    said = outputs(hub)
    assert said == {"run": RUN, "state": "succeeded", "reason": f"{RUN} has finished.", "dollars": "0.12"}
    assert f"### {RUN}: succeeded" in hub.summary.read_text()


def test_a_run_that_fails_fails_the_step_with_its_reason(
    hub: GitHub, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "the program ended with exit code 1\n::add-path::/tmp\nValueError: 100% wrong ```"
    cloud = Begins(story("FAILED", "failed", reason))
    assert github.train(cloud.yard(), asked(job), hub, Cancellation()) == ExitCode.RUN_FAILED
    said = capsys.readouterr().out
    (error,) = [line for line in said.splitlines() if line.startswith("::error")]
    assert f"::error title={RUN} failed::{RUN} has failed%3A" not in error
    assert "%0A::add-path::/tmp%0AValueError: 100%25 wrong" in error
    assert outputs(hub)["reason"].endswith(reason)
    assert outputs(hub)["state"] == "failed"
    assert "````text" in hub.summary.read_text()
    assert [line for line in said.splitlines() if line.startswith("::add-path")] == []


def test_a_run_that_is_refused_by_the_yard(hub: GitHub, job: Path) -> None:
    cloud = Begins(story("FAILED", "refused", "the yard's limit is $1"))
    assert github.train(cloud.yard(), asked(job), hub, Cancellation()) == ExitCode.REFUSED
    assert outputs(hub)["state"] == "refused"


def test_a_job_with_faults_begins_nothing(hub: GitHub, job: Path) -> None:
    cloud = Begins(story("SUCCEEDED", "succeeded"))
    with pytest.raises(JobRefused):
        github.train(cloud.yard(), asked(job, changes={"limits.hours": -1}), hub, Cancellation())
    assert cloud.put == {}


def test_what_hosts_say_gives_the_runner_no_orders(hub: GitHub, capsys: pytest.CaptureFixture[str]) -> None:
    with hub.as_text():
        print("::set-env name=PATH::/tmp")
    begins, said, ends = capsys.readouterr().out.splitlines()
    assert begins.startswith("::stop-commands::")
    assert ends == f"::{begins.removeprefix('::stop-commands::')}::"
    assert said == "::set-env name=PATH::/tmp"


@pytest.mark.parametrize(("on_cancel", "state", "told"), [("stop", "stopping", 1), ("leave", "left", 0)])
def test_a_workflow_that_is_cancelled(on_cancel: str, state: str, told: int, hub: GitHub, job: Path) -> None:
    """The workflow is cancelled during the upload, and the run is recorded."""
    cloud = Begins(story("RUNNING", ""))
    cancellation = cloud.cancels = Cancellation()
    code = github.train(cloud.yard(), asked(job, on_cancel=OnCancel(on_cancel)), hub, cancellation)
    assert code == ExitCode.INTERRUPTED
    assert cloud.told == [("stop", {"run": RUN})] * told
    assert (outputs(hub)["run"], outputs(hub)["state"]) == (RUN, state)


def test_one_that_is_cancelled_before_begins_nothing(hub: GitHub, job: Path) -> None:
    """Only the first signal counts. GitHub's second one arrives while the step ends."""
    cancellation = Cancellation()
    with pytest.raises(github.Cancelled):
        cancellation._receive(2, None)
    cancellation._receive(15, None)


def test_a_signal_is_heard_while_aws_is_asked() -> None:
    """botocore retries after an Exception, as after a network error."""
    never = botocore.config.Config(read_timeout=5, retries={"total_max_attempts": 1})
    cancellation = Cancellation()
    with socket.create_server(("127.0.0.1", 0)) as silent, as_a_step(cancellation):
        s3 = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{silent.getsockname()[1]}",
            region_name="us-east-1",
            aws_access_key_id="AKIAEXAMPLE",
            aws_secret_access_key="example",
            config=never,
        )
        alarm = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))

        def ask() -> None:
            alarm.start()  # on a slow machine it rings before this line ends
            s3.list_buckets()

        with pytest.raises(github.Cancelled):
            ask()
        alarm.join()


def test_a_signal_that_came_while_python_tidied_up_is_heard_at_the_next_look() -> None:
    cancellation = Cancellation(held=True)
    cancellation._receive(15, None)
    with pytest.raises(github.Cancelled):
        next(cancellation.check_between([None]))  # type: ignore[list-item]


@contextmanager
def as_a_step(cancellation: Cancellation) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    cancellation.begin()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_mistake_in_an_input_is_an_annotation(tmp_path: Path) -> None:
    """Run as the step itself, python -m trainyard.cli.github."""
    done = subprocess.run(
        [sys.executable, "-m", "trainyard.cli.github"],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(ROOT),
            "GITHUB_OUTPUT": str(tmp_path / "outputs"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "INPUT_JOB": "job.yaml",
            "INPUT_ON_CANCEL": "perhaps",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.USAGE
    assert (
        "::error title=Invalid input::the input on-cancel must be stop or leave, not 'perhaps'" in done.stdout
    )
