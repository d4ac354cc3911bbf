"""Run all pages of the docs from top to bottom in a fresh clone, then a notebook and a GitHub workflow on that yard.

Blocks with a mark (tests/blocks.py) are skipped.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbclient
import nbformat
import pytest

from scripts.local_yard import ROOT, Cloud, client_environment
from tests.blocks import SHELL, STORY, blocks_of
from tests.e2e.conftest import copy_of, made_once
from tests.e2e.own_cloud.workflow import Step
from tests.e2e.patience import PATIENCE
from trainyard.client import Yard

FIRST, *OTHERS, LAST = STORY
LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv*",
    ".tools",
    ".localcloud",
    "build",
    "cdk.out",
    "cdk.context.json",
    "__pycache__",
    ".*_cache",
)
SHELL_SETUP = 'export PATH="$PWD/.tools/bin:$PWD/.venv/bin:$PATH"\neval "$(trainyard local env)"\n'
"""The commands that the first page gives for a new shell."""


@dataclass(frozen=True)
class Person:
    """A user with a clone after `make setup`.

    The state of the local cloud already contains a yard and an image, because creating both takes minutes and other
    tests cover it.
    """

    clone: Path

    def follows(self, page: str, first: str = "") -> str:
        """Run all blocks of a page in one shell and return their output."""
        blocks = [block for block in blocks_of(page) if not block.mark]
        program = self.clone / "page.py"
        program.write_text("\n".join(block.text for block in blocks if block.language == "python"))
        last = max((block.line for block in blocks if block.language == "python"), default=0)
        script = [first]
        for block in blocks:
            if block.language in SHELL:
                script += [f"echo '--- {block}'", block.text]
            elif block.line == last:
                script += [f"echo '--- {block}'", f"PYTHONPATH={self.clone} python {program}"]
        return self.types("\n".join(script))

    def types(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:]
        assert "Traceback" not in done.stdout, done.stdout[-8000:]
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        own = {
            name: value
            for name, value in client_environment({}).items()
            if name not in ("PYTHONPATH", "MAKEFLAGS")
        }
        return own | {"PATH": os.environ["PATH"], "HOME": str(self.clone.parent)}

    @property
    def cloud(self) -> Cloud:
        """Return the local cloud of the clone, at any port."""
        return Cloud(self.clone / ".localcloud", 0)

    def yard(self) -> Yard:
        return Yard.find(session=self.cloud.session())


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    home = tmp_path_factory.mktemp("home")
    clone = home / "trainyard"
    shutil.copytree(ROOT, clone, ignore=LEFT_OUT, symlinks=True)
    set_up(clone)
    (clone / ".localcloud").mkdir()
    shared = os.environ.get("TRAINYARD_E2E_YARD")
    copy_of(made_once(Path(shared) if shared else home / "made"), clone / ".localcloud")
    person = Person(clone)
    yield person
    person.cloud.down()


def set_up(clone: Path) -> None:
    """Create the results of `make setup`: links to this checkout, and a command of the clone."""
    for name in (".tools", ".venv-host"):
        (clone / name).symlink_to(ROOT / name)
    (clone / ".venv" / "bin").mkdir(parents=True)
    for each in (*(ROOT / ".venv").iterdir(), *(ROOT / ".venv" / "bin").iterdir()):
        link = clone / ".venv" / each.relative_to(ROOT / ".venv")
        if each.name not in ("bin", "trainyard", ".ready", ".command"):
            link.symlink_to(each)
    command = clone / ".venv" / "bin" / "trainyard"
    command.write_text(
        f"#!{clone}/.venv/bin/python -I\nimport sys\nsys.path.insert(0, {str(clone)!r})\n"
        "from trainyard.cli.__main__ import main\nmain()\n"
    )
    command.chmod(0o755)
    made = [clone / ".venv" / name for name in (".ready", ".command")]
    for each in made:
        each.touch()
    for made_from in (
        *(clone / "requirements" / "locks").iterdir(),
        *(clone / "scripts" / "cdk").iterdir(),
        clone / "Makefile",
        *made,
    ):
        os.utime(made_from, (0, 0))  # so that make does not rebuild it


@pytest.fixture(scope="module")
def started(person: Person) -> Person:
    """Follow the first page, then start the local cloud again."""
    assert "succeeded" in person.follows(FIRST)
    assert list((person.clone / "line" / "model").iterdir())
    person.types(f"{SHELL_SETUP.splitlines()[0]}\ntrainyard local up")
    return person


@pytest.mark.parametrize("page", OTHERS)
def test_a_page_can_be_followed(page: str, started: Person) -> None:
    started.follows(page, f"{SHELL_SETUP}cd line")


def test_the_notebook_can_be_run(started: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        **started.cloud.environment(),
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": started.clone / "line"}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [each for each in shown if each.output_type == "error"] == []
    pages = [each.data["text/html"] for each in shown if "text/html" in each.get("data", {})]
    assert len(pages) == 3  # the yard, the status, the list
    assert "<polyline" in pages[1]


@pytest.fixture(scope="module")
def runner(started: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of a runner on which the action has installed its packages."""
    temp = tmp_path_factory.mktemp("runner")
    a_step(started, temp, "first").install()
    return temp


def a_step(started: Person, runner: Path, name: str, **inputs: str) -> Step:
    """Return a step of a workflow in the folder of the first page's job."""
    environment = {**started.environment, **started.cloud.environment(), "GITHUB_ACTIONS": "true"}
    given = {"job": "job.yaml", **inputs}
    return Step(started.clone, started.clone / "line", runner / name, environment, given)


def test_a_workflow_gets_its_model_and_what_it_cost(started: Person, runner: Path) -> None:
    step = a_step(started, runner, "good", model="ci $(touch injected)", labels="commit=abc\nby=ci")
    code, log = step.run()
    assert code == 0, log
    outputs = step.outputs()
    assert outputs["state"] == "succeeded"
    assert float(outputs["dollars"]) > 0
    assert outputs["run"] in step.summary()
    assert list((started.clone / "line" / "ci $(touch injected)").iterdir())
    assert not (started.clone / "line" / "injected").exists()


def test_a_workflow_fails_with_the_runs_reason(started: Person, runner: Path) -> None:
    step = a_step(started, runner, "bad", set="args.epochs=many")
    code, log = step.run()
    assert code == 1, log
    assert step.outputs()["state"] == "failed"
    assert "invalid int value: 'many'" in step.outputs()["reason"]
    assert "::error title=line-" in log
    refused = a_step(started, runner, "refused", set="limits.hours=-1")
    code, log = refused.run()
    assert (code, refused.outputs()["state"]) == (3, "refused")
    assert "limits.hours" in log


@pytest.mark.parametrize(
    ("number", "on_cancel", "ends"),
    [(signal.SIGINT, "stop", "stopped"), (signal.SIGTERM, "leave", "succeeded")],
)
def test_a_cancelled_workflow_stops_its_run_or_leaves_it(
    number: signal.Signals, on_cancel: str, ends: str, started: Person, runner: Path
) -> None:
    step = a_step(started, runner, on_cancel, **{"on-cancel": on_cancel})
    process = step.begin()
    try:
        run = step.until_output("run")
        time.sleep(2)
        process.send_signal(number)
        out, _ = process.communicate(timeout=10)  # GitHub kills the step after this time
    finally:
        process.kill()
    assert process.returncode == 130, out
    assert step.outputs()["state"] == {"stop": "stopping", "leave": "left"}[on_cancel]
    ended = started.yard().run(run).wait(PATIENCE)
    assert ended.summary["outcome"] == ends


def test_the_last_page_takes_the_yard_away(started: Person) -> None:
    yard = started.yard()
    for each in yard.list(limit=200):
        yard.run(each.id, each.kind).wait(PATIENCE)
    started.follows(LAST, SHELL_SETUP)
