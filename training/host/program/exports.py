"""Prepare the SavedModels that a program has left for predictions, as the program's account."""

import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from training.host.account import Account
from training.host.disk import readable_files
from training.host.paths import Paths
from training.host.program.process import handed_over
from trainyard.protocol.export import RECORD, SAVED_MODEL

MOST_SECONDS = 120
MOST_MODELS = 4
"""The most SavedModels of a run that are prepared, the newest ones. A script may export one each epoch."""
MODULE = "trainyard.runtime.exports"
LOOK_SECONDS = 0.5
MOST_CHARACTERS = 300


def find_unprepared(folders: Iterable[Path]) -> list[Path]:
    """Return the newest SavedModels below these folders that lack the files of an export."""
    found = {
        path.parent: path.stat().st_mtime
        for folder in folders
        for path in readable_files(folder)
        if path.name == SAVED_MODEL and not (path.parent / RECORD).exists()
    }
    return sorted(found, key=lambda folder: -found[folder])[:MOST_MODELS]


def prepare(
    models: list[Path], account: Account, paths: Paths, *, most_tasks: int, has_to_end: Callable[[], object]
) -> str | None:
    """Add the files of an export to SavedModels. Return a sentence if that fails or takes too long; the models stay as
    they are then. Return None at once on an image without TensorFlow."""
    if not any(paths.python.parents[1].glob("lib/python3.*/site-packages/tensorflow")):
        return None
    command = [str(paths.python), "-P", "-m", MODULE, *map(str, models)]
    launch = account.command(command, python=paths.python, most_tasks=most_tasks)
    environment = {
        "HOME": str(paths.home),
        "PATH": "/usr/bin:/bin",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    until = time.monotonic() + MOST_SECONDS
    with handed_over(environment) as given:
        running = subprocess.Popen(
            launch, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=paths.home, text=True
        )
        while time.monotonic() < until and not has_to_end():
            try:
                _, said = running.communicate(timeout=LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return _describe(models, running.returncode, said)
        running.kill()
        running.communicate()
    return f"its model was not prepared for predictions within {MOST_SECONDS} s"


def _describe(models: list[Path], code: int, said: str) -> str | None:
    if code == 0:
        return None
    last = next(iter(reversed(said.strip().splitlines())), "")[:MOST_CHARACTERS]
    names = ", ".join(folder.name for folder in models)
    return f"its model ({names}) could not be prepared for predictions (exit code {code}): {last}"
