"""Prepare a SavedModel for predictions: LiteRT's model, golden rows, and trainyard.json.

Reads the SavedModel from the data entry `model`, and leaves a copy with these files as the run's model. A model that
LiteRT cannot run gets no LiteRT model, and trainyard.json says why. The exit code is 1 if TensorFlow cannot load the
SavedModel, or if it has no signatures."""

import shutil
from pathlib import Path

import tensorflow as tf

from training.programs.arguments import parser_of
from trainyard.protocol import conversions
from trainyard.protocol.export import GOLDEN, LITE_MODEL, RECORD, WARMUP
from trainyard.runtime import exports
from trainyard.runtime.environment import Environment

MADE = (GOLDEN, LITE_MODEL, RECORD, WARMUP)
MOST_CHARACTERS = 300
EXPORT = (
    "export it with tf.saved_model.save(model, FOLDER, signatures={'serving_default': FUNCTION}) or Keras's "
    "model.export(FOLDER)"
)


def main() -> None:
    parser_of(__doc__).parse_args()
    environment = Environment.from_os()
    folder = prepare(environment.data_folder(conversions.DATA), environment.model)
    record = exports.complete(folder)
    lite = record.lite
    print(
        f"lite: {lite.how if lite else 'no'}{f' ({lite.reason})' if lite and lite.reason else ''}", flush=True
    )
    print(f"golden rows: {', '.join(record.signatures)}", flush=True)


def prepare(source: Path, target: Path) -> Path:
    """Copy the SavedModel without the files of an earlier preparation. Raises SystemExit if it cannot be used."""
    try:
        loaded = tf.saved_model.load(str(source))
    except Exception as error:
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)[:MOST_CHARACTERS]
        raise SystemExit(
            f"TensorFlow {tf.__version__} cannot load the SavedModel: {line}; load it with the TensorFlow that wrote "
            f"it, and {EXPORT}"
        ) from error
    if not loaded.signatures:
        raise SystemExit(f"the SavedModel has no signatures, so requests have no named inputs; {EXPORT}")
    target.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, dirs_exist_ok=True)
    for each in MADE:
        (target / each).unlink(missing_ok=True)
    return target


if __name__ == "__main__":
    main()
