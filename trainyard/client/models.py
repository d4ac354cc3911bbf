"""Models among the files in a program's working folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

SUFFIXES = (".keras", ".h5", ".hdf5", ".onnx", ".pt", ".pth", ".ckpt", ".safetensors", ".tflite")
"""Endings of model and weight files: Keras, ONNX, PyTorch, Lightning, Hugging Face, LiteRT."""
SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a SavedModel of TensorFlow."""


@dataclass(frozen=True)
class FoundModel:
    """A model. `path` is below the outputs; a folder's path ends with a slash. `size` is in bytes."""

    path: str
    size: int

    @property
    def is_folder(self) -> bool:
        return self.path.endswith("/")


def find_models(outputs: Mapping[str, int]) -> list[FoundModel]:
    """Return the models among outputs, which are sizes in bytes by path; SavedModels come first. A SavedModel counts as
    one. Files of other hosts and of earlier attempts (`@worker-1/`, `@attempt-1/`) are ignored."""
    outputs = {path: size for path, size in outputs.items() if not path.startswith("@")}
    folders = {
        f"{PurePosixPath(path).parent}/" for path in outputs if PurePosixPath(path).name == SAVED_MODEL
    }
    saved = [
        FoundModel(folder, sum(size for path, size in outputs.items() if path.startswith(folder)))
        for folder in sorted(folders - {"./"})
    ]
    files = [
        FoundModel(path, size)
        for path, size in sorted(outputs.items())
        if path.endswith(SUFFIXES) and not any(path.startswith(folder) for folder in folders)
    ]
    return saved + files
