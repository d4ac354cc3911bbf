"""TensorFlow's search path for NVIDIA's CUDA libraries; tests/gpu checks this on a GPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from training.baking.builder import Builder
from training.baking.install import link_cuda_libraries
from training.baking.shell import CommandResult
from training.host.paths import Paths

OPENED = ("libcudart.so.12", "libcublas.so.12", "libcusolver.so.11", "libcudnn.so.9")


def builder_with(packages: Path) -> Builder:
    def run(command: list[str]) -> CommandResult:
        return CommandResult(0, f"{packages}\n")

    return cast(Builder, SimpleNamespace(paths=Paths(packages), shell=SimpleNamespace(run=run)))


@pytest.mark.parametrize("times", [1, 2])
def test_all_libraries_are_in_the_folder_in_which_every_release_looks(times: int, tmp_path: Path) -> None:
    for package, name in zip(("cuda_runtime", "cublas", "cusolver", "cudnn"), OPENED, strict=True):
        folder = tmp_path / "nvidia" / package / "lib"
        folder.mkdir(parents=True)
        (folder / name).write_text(package)
    for _ in range(times):
        link_cuda_libraries(builder_with(tmp_path))
    folder = tmp_path / "nvidia/cuda_runtime/lib"
    assert {name: (folder / name).read_text() for name in OPENED} == {
        "libcudart.so.12": "cuda_runtime",
        "libcublas.so.12": "cublas",
        "libcusolver.so.11": "cusolver",
        "libcudnn.so.9": "cudnn",
    }


def test_an_image_moves_with_its_links(tmp_path: Path) -> None:
    folder = tmp_path / "here/nvidia/cusolver/lib"
    folder.mkdir(parents=True)
    (tmp_path / "here/nvidia/cuda_runtime/lib").mkdir(parents=True)
    (folder / "libcusolver.so.11").write_text("cusolver")
    link_cuda_libraries(builder_with(tmp_path / "here"))
    (tmp_path / "here").rename(tmp_path / "there")
    assert (tmp_path / "there/nvidia/cuda_runtime/lib/libcusolver.so.11").read_text() == "cusolver"


def test_without_cuda_nothing_is_made(tmp_path: Path) -> None:
    link_cuda_libraries(builder_with(tmp_path))
    assert list(tmp_path.iterdir()) == []
