"""A program in a container: its words, its variables, and what it sees of the host."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.builders import admitted
from training.host.account import Account
from training.host.container import driver
from training.host.container.configuration import Configuration
from training.host.container.driver import LIBRARIES, Driver
from training.host.container.enter import Mount
from training.host.container.inside import Inside
from training.host.container.pull import Image
from training.host.errors import ProgramFault
from training.host.paths import Paths
from training.host.program.environment import command_line, environment
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Cluster, Role, Strategy
from trainyard.protocol.containers import Container

CHIEF = Assignment("i-1", Role.CHIEF, 0, "10.0.1.5")
CLUSTER = Cluster(
    run="digits-1a2b3c4d",
    attempt=1,
    strategy=Strategy.SINGLE,
    assignments=(CHIEF,),
    deadline=datetime(2026, 11, 20, tzinfo=UTC),
)
OF_IMAGE = Configuration(
    entrypoint=("/entry", "--"),
    cmd=("train", "all"),
    env=(
        "PATH=/opt/conda/bin:/bin",
        "LANG=C.UTF-8",
        "TRAINYARD_ROLE=mine",
        "LD_LIBRARY_PATH=/cuda",
        "PYTHONPATH=/app",
    ),
    user="1000:50",
    folder="/work",
)
BASE = {
    "PATH": "/opt/venv/bin",
    "LANG": "de_DE",
    "CUDA_HOME": "/host/cuda",
    "AWS_ENDPOINT_URL": "http://10.0.0.1",
}


def inside(tmp_path: Path, *, entrypoint: bool = True, python: str = "", **changes: Any) -> Inside:
    root = tmp_path / "root"
    (root / "opt/conda/bin").mkdir(parents=True)
    if python:
        (root / "opt/conda/bin" / python).touch()
        (root / "opt/conda/bin/python").symlink_to(python)
    return Inside(
        container=Container(image="team/train:v1", entrypoint=entrypoint),
        image=Image(digest="sha256:1", root=root, configuration=replace(OF_IMAGE, **changes)),
        driver=Driver(),
    )


def job(**program: Any) -> Job:
    return admitted(program={"module": None, "container": {"image": "team/train:v1"}} | program)


@pytest.mark.parametrize(
    ("program", "entrypoint", "words"),
    [
        ({}, True, "/entry -- train all"),
        ({"args": ["--steps", 3]}, True, "/entry -- train all --steps 3"),
        ({}, False, "train all"),
        ({"command": ["sh", "x.sh"]}, True, "/entry -- sh x.sh"),
        ({"command": ["sh", "${run}"], "args": {"steps": 3}}, False, "sh digits-1a2b3c4d --steps 3"),
        ({"module": "train"}, True, "/entry -- python -m train"),
        ({"module": "train"}, False, "python -m train"),
    ],
)
def test_words_are_those_of_docker_run(
    tmp_path: Path, program: dict[str, Any], entrypoint: bool, words: str
) -> None:
    container = inside(tmp_path, entrypoint=entrypoint, python="python3.12")
    assert command_line(CLUSTER, CHIEF, job(**program), Paths(tmp_path), container) == words.split()


def test_a_module_of_an_image_that_has_only_python3_runs_with_that(tmp_path: Path) -> None:
    container = inside(tmp_path)
    (container.image.root / "opt/conda/bin/python3").touch()
    assert command_line(CLUSTER, CHIEF, job(module="train"), Paths(tmp_path), container)[2:] == [
        "python3",
        "-m",
        "train",
    ]


def test_a_shell_follows_the_entrypoint_too(tmp_path: Path) -> None:
    container = inside(tmp_path)
    (container.image.root / "opt/conda/bin/bash").touch()
    words = command_line(CLUSTER, CHIEF, job(shell="echo hello"), Paths(tmp_path), container)
    assert words[:3] == ["/entry", "--", "bash"]


@pytest.mark.parametrize(
    ("lines", "code", "printed"),
    [
        ("echo one; false; echo two", 1, "one\n"),
        ('echo "$1"', 0, "--x\n"),
        ("kill -TERM $$; echo two", 75, ""),
    ],
)
def test_an_image_without_bash_runs_the_lines_with_sh(
    tmp_path: Path, lines: str, code: int, printed: str
) -> None:
    container = inside(tmp_path, entrypoint=False)
    words = command_line(CLUSTER, CHIEF, job(shell=lines, args=["--x"]), Paths(tmp_path), container)
    assert words[0] == "sh"
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, printed), done.stderr


def test_an_image_without_any_words_has_nothing_to_run(tmp_path: Path) -> None:
    container = inside(tmp_path, entrypoint=False, cmd=())
    with pytest.raises(ProgramFault, match=r"has neither ENTRYPOINT nor CMD.*write program\.command"):
        command_line(CLUSTER, CHIEF, job(), Paths(tmp_path), container)


def given(paths: Paths, container: Inside, of_job: Job | None = None) -> dict[str, str]:
    return environment(
        CLUSTER,
        CHIEF,
        of_job or job(),
        paths,
        region="us-east-1",
        image="ami-1",
        base=BASE,
        secrets={},
        inside=container,
    )


def test_variables_of_the_run_replace_the_images_and_the_hosts_own_stay_outside(tmp_path: Path) -> None:
    variables = given(Paths(tmp_path), inside(tmp_path))
    assert variables["LANG"] == "C.UTF-8"
    assert variables["TRAINYARD_ROLE"] == "chief"
    assert variables["AWS_ENDPOINT_URL"] == "http://10.0.0.1"
    assert variables["HOME"] == str(Paths(tmp_path).home)
    assert "CUDA_HOME" not in variables
    asked = given(Paths(tmp_path), inside(tmp_path / "other"), job(environment={"LANG": "fr_FR"}))
    assert asked["LANG"] == "fr_FR"


def test_path_is_the_images_behind_the_commands_of_the_runs_own_packages(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    container = inside(tmp_path)
    assert given(paths, container)["PATH"] == "/opt/conda/bin:/bin"
    (paths.venv / "bin").mkdir(parents=True)
    assert given(paths, container)["PATH"] == f"{paths.venv}/bin:/opt/conda/bin:/bin"


@pytest.mark.parametrize(
    ("python", "is_ours"),
    [("python3.12", True), ("python3.10", True), ("python3.9", False), ("python2.7", False), ("", True)],
)
def test_only_a_python_that_can_import_it_gets_the_runtime_library(
    tmp_path: Path, python: str, is_ours: bool
) -> None:
    folders = given(Paths(tmp_path), inside(tmp_path, python=python))["PYTHONPATH"].split(":")
    assert ("/opt/trainyard/library" in folders) == is_ours
    assert any(folder.endswith("startup") for folder in folders) == is_ours
    assert folders[-1] == "/app"


@pytest.mark.parametrize(("has_source", "folder"), [(True, "home/program"), (False, "/work")])
def test_the_working_directory_is_the_sources_or_the_images(
    tmp_path: Path, has_source: bool, folder: str
) -> None:
    (tmp_path / "root/etc").mkdir(parents=True)
    entrance = inside(tmp_path).entrance(Paths(tmp_path), Account(5, 6), has_source=has_source, most_tasks=9)
    assert entrance.folder.endswith(folder)
    assert (entrance.account, entrance.user) == ((5, 6), (1000, 50))


def test_data_are_read_only_and_the_home_is_not(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.data.mkdir(parents=True)
    mounts = inside(tmp_path).entrance(paths, Account(5, 6), has_source=False, most_tasks=9).mounts
    found = {mount.target: mount for mount in mounts}
    assert not found["/var/lib/trainyard/home"].read_only
    assert found["/var/lib/trainyard/home/data"].read_only
    assert found["/run/trainyard"].read_only
    order = [mount.target for mount in mounts]
    assert order.index("/var/lib/trainyard/home") < order.index("/var/lib/trainyard/home/data")
    assert not any(
        mount.source.startswith(str(paths.containers)) and mount.target != "/tmp" for mount in mounts
    )


# ------------------------------------------------------------------------------------------------------- GPUs


def test_the_drivers_libraries_get_the_names_that_ldconfig_would_make(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.580.65"
    library.touch()
    (tmp_path / "libcuda.so.1").symlink_to(library.name)
    (tmp_path / "libcuda.so").symlink_to("libcuda.so.1")
    (tmp_path / "libcudadebugger.so.1").touch()
    mounts = [
        {"hostPath": str(library), "containerPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65"},
        {"hostPath": "/usr/bin/nvidia-smi", "containerPath": "/usr/bin/nvidia-smi"},
    ]
    listed = {
        "containerEdits": {"mounts": mounts, "hooks": [{"path": "/usr/bin/nvidia-cdi-hook"}]},
        "devices": [],
    }
    found = driver.read(listed)
    assert {mount.target for mount in found.mounts} == {
        f"{LIBRARIES}/libcuda.so",
        f"{LIBRARIES}/libcuda.so.1",
        f"{LIBRARIES}/libcuda.so.580.65",
        "/usr/bin/nvidia-smi",
    }
    assert {mount.source for mount in found.mounts if mount.target.startswith(LIBRARIES)} == {str(library)}


def test_a_host_without_a_gpu_shows_no_driver(tmp_path: Path) -> None:
    assert driver.find(Paths(tmp_path)) == Driver()


def test_the_drivers_folder_is_behind_the_images_libraries(tmp_path: Path) -> None:
    container = replace(inside(tmp_path), driver=Driver((Mount("/a", f"{LIBRARIES}/a"),)))
    assert given(Paths(tmp_path), container)["LD_LIBRARY_PATH"] == f"/cuda:{LIBRARIES}"
