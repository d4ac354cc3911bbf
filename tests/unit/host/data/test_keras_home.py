"""Keras's folder for the data of `load_data()`."""

from pathlib import Path

import pytest

from training.host.data import keras_home
from training.host.paths import Paths


@pytest.mark.parametrize("name", ["datasets/mnist.npz", "mnist.npz"])
def test_load_data_finds_what_the_entry_keras_has(name: str, tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    file = paths.data / "keras" / name
    file.parent.mkdir(parents=True)
    file.write_text("digits")
    for _ in range(2):
        keras_home.link(paths)
    assert (paths.home / ".keras/datasets/mnist.npz").read_text() == "digits"


def test_without_that_entry_there_is_none(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    (paths.data / "train").mkdir(parents=True)
    keras_home.link(paths)
    assert not (paths.home / ".keras").exists()
