"""Run a step of a GitHub workflow that uses action.yml as the runner does: with its scripts, environment and files.

GitHub's own parts (checkout, actions/setup-python, the page of the log) are not simulated.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.patience import PATIENCE

EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")


@dataclass
class Step:
    """A step that uses the action."""

    action: Path
    """The folder of the action."""
    workspace: Path
    """The folder of the workflow's files."""
    temp: Path
    environment: Mapping[str, str]
    inputs: Mapping[str, str]
    steps: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.described = yaml.safe_load((self.action / "action.yml").read_text())
        self.temp.mkdir(parents=True, exist_ok=True)
        defaults = {name: str(each.get("default", "")) for name, each in self.described["inputs"].items()}
        self.inputs = defaults | dict(self.inputs)
        self.steps["python"] = {"outputs": {"python-path": sys.executable}}  # the output of setup-python

    def install(self) -> None:
        """Run all scripts before the last one."""
        for step in self._scripts()[:-1]:
            process = self._begun(step)
            out, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, out

    def begin(self) -> subprocess.Popen[str]:
        """Start the last script."""
        return self._begun(self._scripts()[-1])

    def run(self) -> tuple[int, str]:
        """Run the last script and return its exit code and log."""
        process = self.begin()
        out, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, out

    def outputs(self) -> dict[str, str]:
        """Return `steps.ID.outputs`."""
        file = self.temp / "train.outputs"
        found, lines = {}, iter(file.read_text().splitlines() if file.exists() else ())
        for line in lines:
            name, _, end = line.partition("<<")
            found[name] = "\n".join(iter(lines.__next__, end))
        self.steps["train"] = {"outputs": found}
        return {
            name: self._filled(each["value"])
            for name, each in self.described["outputs"].items()
            if name in found
        }

    def summary(self) -> str:
        return (self.temp / "train.summary").read_text()

    def until_output(self, name: str) -> str:
        ends = time.monotonic() + PATIENCE
        while name not in (found := self.outputs()):
            assert time.monotonic() < ends, f"no output {name}"
            time.sleep(0.2)
        return found[name]

    def _scripts(self) -> list[dict[str, Any]]:
        return [step for step in self.described["runs"]["steps"] if "run" in step]

    def _begun(self, step: Mapping[str, Any]) -> subprocess.Popen[str]:
        script = self.temp / f"{step['id']}.sh"
        script.write_text(self._filled(step["run"]))
        files = {
            "GITHUB_OUTPUT": str(self.temp / f"{step['id']}.outputs"),
            "GITHUB_STEP_SUMMARY": str(self.temp / f"{step['id']}.summary"),
        }
        given = {name: self._filled(value) for name, value in step["env"].items()}
        return subprocess.Popen(
            [*BASH, str(script)], cwd=self.workspace, env={**self.environment, **files, **given},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def _filled(self, text: str) -> str:
        """Return the text with all expressions replaced."""
        known = {
            "inputs": self.inputs,
            "steps": self.steps,
            "github": {"action_path": str(self.action)},
            "runner": {"temp": str(self.temp.parent)},
        }

        def value(match: re.Match[str]) -> str:
            found: Any = known
            for word in match[1].split("."):
                found = found[word]
            return str(found)

        return EXPRESSION.sub(value, text)
