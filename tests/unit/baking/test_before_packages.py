"""The code of a bake runs before its packages are installed."""

import subprocess
import sys
from pathlib import Path

ABSENT = ("google", "re2", "tensorboard", "numpy", "tensorflow")


def test_a_bake_begins_without_what_hosts_have_installed() -> None:
    code = f"import sys; sys.modules |= dict.fromkeys({ABSENT!r}); import training.baking.__main__"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
