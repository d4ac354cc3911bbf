"""TensorBoard, where it is installed, over a folder of runs."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from trainyard.client.errors import NotHere


@contextmanager
def serving(folder: Path, port: int) -> Iterator[Callable[[], bool]]:
    """TensorBoard on loopback while the block lasts, which is told whether it still serves. Raises NotHere; ends the
    command with its exit code where it ended by itself."""
    arguments = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*_command(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield lambda: process.poll() is None
        typer.echo((process.stderr.read() if process.stderr else "").strip()[-2000:], err=True)
        raise typer.Exit(process.returncode)
    finally:
        process.terminate()
        process.wait()


def _command() -> list[str]:
    if importlib.util.find_spec("tensorboard"):
        return [sys.executable, "-m", "tensorboard.main"]
    if found := shutil.which("tensorboard"):
        return [found]
    raise NotHere("TensorBoard is not installed", "the command tb starts it", "pip install tensorboard")
