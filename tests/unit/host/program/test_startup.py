"""What a program's Python does before the program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from training.host.places import Places

STARTUP = Path(__file__).parents[4] / Places(Path("/")).startup.relative_to("/opt/trainyard/agent")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import tensorflow", ["meanwhile False", "then True"]),
        ("gc.disable(); import tensorflow", ["meanwhile False", "then False"]),
        ("import json", ["then True"]),
    ],
)
def test_garbage_is_not_looked_for_while_tensorflow_is_imported(
    program: str, said: list[str], tmp_path: Path
) -> None:
    package = tmp_path / "tensorflow"
    package.mkdir()
    package.joinpath("__init__.py").write_text("import gc\nprint('meanwhile', gc.isenabled())\n")
    environment = os.environ | {"PYTHONPATH": f"{STARTUP}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-c", f"import gc; {program}; print('then', gc.isenabled())"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == said


def test_an_import_that_fails_leaves_it_as_it_was(tmp_path: Path) -> None:
    tmp_path.joinpath("tensorflow.py").write_text("1 / 0\n")
    environment = os.environ | {"PYTHONPATH": f"{STARTUP}{os.pathsep}{tmp_path}"}
    tries = (
        "import gc\ntry:\n    import tensorflow\nexcept ZeroDivisionError:\n    print('then', gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", tries], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "then True\n"
