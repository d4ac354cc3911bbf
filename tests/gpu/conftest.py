"""This machine as a builder. Without a GPU, all tests are skipped."""

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Yield a builder whose host is this machine, with its kernel's files and its Python, but a separate disk."""
    paths = Paths(tmp_path)
    paths.python.parent.mkdir(parents=True)
    paths.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    paths.python.chmod(0o755)
    paths.agent.symlink_to(Path(__file__).parents[2])
    (tmp_path / "proc").symlink_to("/proc")
    bucket = Objects()
    with BuilderLog("test", bucket, "bake-1", "i-1", paths, echo=io.StringIO()) as log:
        yield Bench(
            Builder(
                run="bake-1",
                recipe=Recipe(name="gpu", hash="0123456789abcdef"),
                identity=Identity("i-1", "us-east-1", "10.0.1.5", "ami-1", {}),
                bucket=bucket,
                paths=paths,
                session=boto3.Session(region_name="us-east-1"),
                for_gpus=True,
                gpus=1,
                log=log,
                shell=Shell(log, paths, until=time.monotonic() + 300),
            )
        )
