"""The lookup of a job's command on a host."""

from pathlib import Path

import pytest

from training.host.errors import ProgramFault
from training.host.paths import Paths
from training.host.program.fetch import find_command
from training.host.program.packages import bring_commands

SOURCE = "s3://b/programs/p.tar.gz"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    for folder in (paths.program, paths.venv / "bin", paths.python.parent):
        folder.mkdir(parents=True)
    return paths


def put(path: Path, text: str = "", *, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_command_is_one_of_the_run_the_image_the_system_or_a_file_of_the_source(paths: Paths) -> None:
    put(paths.venv / "bin/torchrun")
    put(paths.python.parent / "tensorboard")
    put(paths.program / "scripts/run.sh")
    for name in ("torchrun", "tensorboard", "sh", "./scripts/run.sh", "scripts/run.sh", "/bin/sh"):
        find_command(name, paths, source=SOURCE)


def test_what_the_attempt_fills_in_is_not_known_before_it(paths: Paths) -> None:
    find_command("${role}.sh", paths, source=SOURCE)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "trochrun",
            "no such command, neither from program.requirements nor from the image: check its name, or add",
        ),
        ("./train.sh", f"which is not in {SOURCE}"),
        ("./data.sh", r"is not executable: `chmod \+x` it before it is packed.* as in \[sh, ./data.sh\]"),
        ("data.sh", r"to run the source's file of that name, write \[sh, data.sh\]"),
        ("train.py", r"to run the source's file of that name, write \[python, train.py\]"),
    ],
)
def test_a_command_that_is_not_there_is_final_and_says_what_to_do(paths: Paths, name: str, said: str) -> None:
    for file in ("data.sh", "train.py"):
        put(paths.program / file, mode=0o644)
    with pytest.raises(ProgramFault, match=said) as fault:
        find_command(name, paths, source=SOURCE)
    assert (fault.value.final, fault.value.kind) == (True, "program")


def test_the_images_commands_see_what_the_run_has_installed(paths: Paths) -> None:
    image, own = paths.python.parent, paths.venv / "bin"
    put(image / "torchrun", f"#!{image}/python3\nimport torch\n")
    put(image / "tensorboard", f"#!{image}/python3\nthe image's\n")
    put(image / "activate", "# a shell's\n")
    put(own / "tensorboard", f"#!{own}/python\nthe run's\n")
    bring_commands(image, own)
    assert (own / "torchrun").read_text() == f"#!{own}/python\nimport torch\n"
    assert (own / "torchrun").stat().st_mode & 0o111
    assert (own / "tensorboard").read_text().endswith("the run's\n")
    assert not (own / "activate").exists()
