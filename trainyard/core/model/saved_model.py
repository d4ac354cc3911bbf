"""A SavedModel as a folder of files: what it must have, and how to export one. Pure."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.export import GOLDEN, RECORD, SAVED_MODEL
from trainyard.values.validation import any_of

MOST_BYTES = 5_000_000_000
MOST_FILES = 1_000
MOST_NAMED = 8
EXPORT = (
    "tf.saved_model.save(model, os.environ['TRAINYARD_MODEL_DIR']), model.export(...) of Keras, or save_model of the "
    "runtime"
)
OTHERS = {
    ".keras": "a Keras file; load it with keras.models.load_model and write it with model.export(FOLDER)",
    ".h5": "an HDF5 file of Keras; load it with keras.models.load_model and write it with model.export(FOLDER)",
    ".hdf5": "an HDF5 file of Keras; load it with keras.models.load_model and write it with model.export(FOLDER)",
    ".index": "a checkpoint, which has weights and no model; build the model, restore the checkpoint, and write the "
    "model with tf.saved_model.save(model, FOLDER)",
    ".pb": "a frozen graph of TensorFlow 1, which has no signatures; import it with tf.compat.v1.wrap_function and "
    "write it with tf.saved_model.save",
    ".onnx": "an ONNX file; export the model from TensorFlow",
    ".tflite": "a LiteRT file; export the SavedModel that it was converted from",
}
"""Descriptions of other files that users name as models, by their endings."""


def check_files(folder: str, files: Mapping[str, int]) -> None:
    """Check that the folder is a SavedModel that can be copied. `files` has the size of each file by its path."""
    if not files:
        raise ModelRefused(f"{folder} has no files; {EXPORT} writes a model")
    odd = next((path for path in files if {"", ".", ".."} & set(path.split("/"))), None)
    if odd is not None:
        raise ModelRefused(f"{folder} has a file with an empty, . or .. part in its path: {odd!r:.80}")
    if len(files) > MOST_FILES:
        raise ModelRefused(f"{folder} has {len(files)} files; a version has at most {MOST_FILES}")
    if SAVED_MODEL not in files:
        raise ModelRefused(f"{folder} has no {SAVED_MODEL}: {describe_others(files)}")
    size = sum(files.values())
    if size > MOST_BYTES:
        raise ModelRefused(
            f"{folder} has {size / 1e9:.1f} GB; a version has at most {MOST_BYTES / 1e9:.0f} GB"
        )


def is_prepared(files: Iterable[str]) -> bool:
    """Return True if the folder has the files that an export of the yard adds, as far as every version needs them."""
    return {RECORD, GOLDEN} <= {*files}


def describe_others(files: Mapping[str, int]) -> str:
    """Return what the folder has instead of a SavedModel."""
    deeper = sorted({f"{PurePosixPath(path).parent}/" for path in files if path.endswith(f"/{SAVED_MODEL}")})
    if deeper:
        return f"name the folder that has one: {any_of(deeper[:MOST_NAMED])}"
    for ending, words in OTHERS.items():
        if found := next((path for path in files if path.endswith(ending)), None):
            return f"{found} is {words}"
    there = f"it has {any_of(sorted(files)[:MOST_NAMED])}" if files else "it has no files"
    return f"{there}; {EXPORT} writes a SavedModel"
