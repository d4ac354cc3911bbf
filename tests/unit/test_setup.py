"""`make setup` installs the command, and `import trainyard` works in each folder without the clone's other packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import trainyard

ROOT = Path(__file__).parents[2]


def test_trainyard_can_be_imported_in_any_folder_and_brings_no_other_package(tmp_path: Path) -> None:
    clone, elsewhere = tmp_path / "clone", tmp_path / "line"
    for folder in (clone, elsewhere):
        folder.mkdir()
    shutil.copy(ROOT / "Makefile", clone)
    for name in ("trainyard", "lambdas"):
        (clone / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "requirements", clone / "requirements")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True)
    (clone / ".venv/.ready").touch()
    subprocess.run(["make", "-o", ".venv/.ready", ".venv/.command"], cwd=clone, check=True)

    asked = (
        "import importlib.util as found, trainyard; print(trainyard.__version__, found.find_spec('lambdas'))"
    )
    done = subprocess.run(
        [clone / ".venv/bin/python", "-c", asked], cwd=elsewhere, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{trainyard.__version__} None\n", done.stderr


def test_the_command_sees_none_of_the_packages_of_its_users_shell(tmp_path: Path) -> None:
    """The command works even if the shell's PYTHONPATH has a broken `typer`."""
    (tmp_path / "typer.py").write_text("raise SystemExit('the decoy')")
    command = tmp_path / "trainyard"
    makefile = (ROOT / "Makefile").read_text()
    assert "'#!%s -I" in makefile
    command.write_text(
        f"#!{sys.executable} -I\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from trainyard.cli.__main__ import main\nmain()\n"
    )
    command.chmod(0o755)
    done = subprocess.run(
        [command, "--version"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, trainyard.__version__ in done.stdout) == (0, True), done.stderr
