"""Run the installed TensorBoard on a folder of runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import typer

from trainyard.client.errors import NotHere


@contextmanager
def serve_tensorboard(words: Sequence[str], folder: Path, port: int) -> Iterator[Callable[[], bool]]:
    """Serve the folder with TensorBoard on 127.0.0.1 while the block runs.

    Yield a function that returns True while TensorBoard runs. Raises Exit if TensorBoard ends by itself.
    """
    arguments = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*words, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield lambda: process.poll() is None
        typer.echo((process.stderr.read() if process.stderr else "").strip()[-2000:], err=True)
        raise typer.Exit(process.returncode)
    finally:
        process.terminate()
        process.wait()


def command() -> list[str]:
    """Return the command line of TensorBoard. Raises NotHere."""
    try:
        metadata.distribution("tensorboard")
    except metadata.PackageNotFoundError:
        if found := shutil.which("tensorboard"):
            return [found]
        means, step = "the runs cannot be shown without it", "pip install tensorboard"
        raise NotHere("TensorBoard is not installed", means, step) from None
    return [sys.executable, "-m", "tensorboard.main"]
