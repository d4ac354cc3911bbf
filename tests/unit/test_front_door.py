"""CONTRIBUTING and the files for a hosting site name existing targets, folders and files."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import trainyard
from tests.unit import voice

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MOST_LINES = 80
"""The longest section of a version in CHANGELOG.md."""
NAMED = re.compile(
    r"`((?:trainyard|lambdas|stacks|training|localcloud|simulation|tests|docs|benchmarks)/[\w/.-]+)`"
)


def steps_of(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_that_exist(workflow: Path) -> None:
    lines = "\n".join(step.get("run", "") for step in steps_of(workflow))
    assert set(re.findall(r"\bmake ([a-z-]+)", lines)) <= TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_the_least_permissions_and_pastes_nothing_of_an_event_into_a_script(
    workflow: Path,
) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    assert [step["run"] for step in steps_of(workflow) if "${{" in step.get("run", "")] == []


def test_contributing_names_targets_files_and_folders_that_exist() -> None:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) - {"a"} <= TARGETS
    named = NAMED.findall(text)
    assert len(named) > 20
    placeholders = ("NAME", "SERVICE")
    missing = [
        path
        for path in named
        if not any(word in path for word in placeholders) and not (ROOT / path).exists()
    ]
    assert missing == []


def test_hooks_call_tools_of_the_environment() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    for hook in hooks:
        tool, *_ = hook["entry"].split()
        assert (ROOT / tool).exists(), hook["id"]


def test_the_container_of_an_editor_runs_make_setup() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    assert container["postCreateCommand"] == "make setup"


def test_every_text_file_ends_its_lines_as_editorconfig_says() -> None:
    texts = {path: path.read_bytes() for folder in voice.FOLDERS for path in voice.files(ROOT / folder)}
    assert [path for path, text in texts.items() if b"\r\n" in text or (text and text[-1:] != b"\n")] == []


def test_the_index_of_decisions_has_each_with_its_title() -> None:
    folder = ROOT / "docs/decisions"
    rows = re.findall(
        r"^\| \[(\d+)\]\((\S+)\) \| (.+?) \| .+ \|$", (folder / "README.md").read_text(), re.MULTILINE
    )
    titles = {path.name: path.read_text().partition("\n")[0] for path in folder.glob("0*.md")}
    assert {file: f"# {number}. {title}" for number, file, title in rows} == titles


def test_the_change_log_of_the_next_version_has_every_fragment() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    section = done.stdout.partition(f"## {trainyard.__version__}")[2]
    fragments = [file for file in (ROOT / "changes").iterdir() if file.name != "README.md"]
    kinds = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "changes/README.md").read_text(), re.MULTILINE))
    assert {file.name.split(".")[-2] for file in fragments} <= kinds
    assert [file.name for file in fragments if file.read_text().splitlines()[0] not in section] == []
    assert len(section.splitlines()) <= MOST_LINES, "join small changes of one kind"
