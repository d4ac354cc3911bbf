"""A builder for the tests of a bake."""

import io
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.objects import Objects
from training.baking.bench import Bench
from training.baking.builder import Builder
from training.baking.log import BuilderLog
from training.baking.recipe import Recipe
from training.baking.shell import Shell
from training.host.metadata import Identity
from training.host.paths import Paths

SEEN = '{{"tensorflow": "2.21.0", "cuda": "{cuda}", "gpus": [{gpus}]}}'


class Host:
    """A builder, by default with GPUs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, log: BuilderLog) -> None:
        self.paths, self._log = Paths(root), log
        (root / "bin").mkdir()
        monkeypatch.setenv("PATH", f"{root / 'bin'}:{os.environ['PATH']}")

    def says(self, name: str, text: str, code: int = 0) -> None:
        """Write a command of the host that prints a text and exits with a code."""
        path = self.paths.root / "bin" / name
        self._script(path, text, code)

    def tensorflow(self, gpus: int, cuda: str = "12.5.1", code: int = 0) -> None:
        """Write a Python that prints TensorFlow's GPUs and CUDA version."""
        names = ", ".join(f'"/physical_device:GPU:{index}"' for index in range(gpus))
        self._script(self.paths.python, SEEN.format(cuda=cuda, gpus=names), code)

    def cloudwatch_agent(self, text: str, code: int = 0) -> None:
        self._script(self.paths.cloudwatch_agent, text, code)

    def bench(self, *, gpu: bool = True, gpus: int = 1, **recipe: Any) -> Bench:
        return Bench(
            Builder(
                run="bake-1",
                recipe=Recipe(name="gpu", hash="0123456789abcdef", **recipe),
                identity=Identity("i-1", "us-east-1", "10.0.1.5", "ami-1", {}),
                bucket=Objects(),
                paths=self.paths,
                session=boto3.Session(region_name="us-east-1"),
                for_gpus=gpu,
                gpus=gpus,
                log=self._log,
                shell=Shell(self._log, self.paths, until=time.monotonic() + 60),
            )
        )

    def _script(self, path: Path, text: str, code: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(text)}\nexit {code}\n")
        path.chmod(0o755)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with BuilderLog("test", Objects(), "bake-1", "i-1", Paths(tmp_path), echo=io.StringIO()) as log:
        yield Host(tmp_path, monkeypatch, log)
