"""The code that a program's Python runs before the program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from training.host.paths import Paths
from training.host.use.sampling import read_waits

STARTUP = Path(__file__).parents[4] / Paths(Path("/")).startup.relative_to("/opt/trainyard/agent")


def said(program: str, tensorflow: str, folder: Path) -> list[str]:
    """Return the lines of a program on a host. This text replaces TensorFlow."""
    folder.joinpath("tensorflow.py").write_text(tensorflow)
    environment = os.environ | {"PYTHONPATH": f"{STARTUP}{os.pathsep}{folder}"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("import tensorflow", ["meanwhile False", "then True"]),
        ("gc.disable(); import tensorflow", ["meanwhile False", "then False"]),
        ("import json", ["then True"]),
    ],
)
def test_garbage_is_not_looked_for_while_tensorflow_is_imported(
    program: str, lines: list[str], tmp_path: Path
) -> None:
    tensorflow = "import gc\nprint('meanwhile', gc.isenabled())\n"
    assert said(f"import gc; {program}; print('then', gc.isenabled())", tensorflow, tmp_path) == lines


def test_an_import_that_fails_leaves_it_as_it_was(tmp_path: Path) -> None:
    tries = (
        "import gc\ntry:\n    import tensorflow\nexcept ZeroDivisionError:\n    print('then', gc.isenabled())"
    )
    assert said(tries, "1 / 0\n", tmp_path) == ["then True"]


LOADER = """
import threading, time
class _BaseDataLoaderIter:
    def __next__(self):
        time.sleep(0.05)
        return threading.current_thread().name
"""


def test_waits_of_the_main_thread_for_batches_are_noted(tmp_path: Path) -> None:
    package = tmp_path / "torch" / "utils" / "data"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "dataloader.py").write_text(LOADER)
    program = (
        "import threading\nfrom torch.utils.data.dataloader import _BaseDataLoaderIter as Loader\n"
        "ahead = threading.Thread(target=Loader().__next__)\nahead.start()\nahead.join()\n"
        "import pathlib\nassert not pathlib.Path('waits.jsonl').exists(), 'a thread that fetches ahead'\n"
        "print(Loader().__next__())"
    )
    environment = os.environ | {
        "PYTHONPATH": f"{STARTUP}{os.pathsep}{tmp_path}",
        "TRAINYARD_PROGRESS": str(tmp_path / "progress.jsonl"),
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "MainThread\n"
    ((_, waited),) = read_waits(tmp_path / "waits.jsonl").values()
    assert waited >= 0.05
