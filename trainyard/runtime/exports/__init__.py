"""Complete a SavedModel for predictions: model.tflite, golden rows and trainyard.json.

`python -m trainyard.runtime.exports FOLDER` does it for a SavedModel of another program.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainyard.protocol.export import (
    GOLDEN,
    LITE_MODEL,
    RECORD,
    ExportRecord,
    Golden,
    GoldenAnswer,
    SignatureTypes,
    TensorType,
)
from trainyard.runtime.exports import conversion, golden, warmup
from trainyard.runtime.exports.golden import NoRowsError
from trainyard.values import serialization


def complete(folder: Path, **origin: Any) -> ExportRecord:
    """Add the files of an export to a SavedModel. `origin` has run, job, step and image."""
    with conversion.quiet(), tf.device("CPU:0"):  # a GPU's lower precision would differ from LiteRT's
        loaded = tf.saved_model.load(str(folder))
        types = {name: _types_of(each) for name, each in loaded.signatures.items()}
        proofs, omitted = {}, {}
        for name, each in types.items():
            try:
                proofs[name] = golden.make(each, loaded.signatures[name])
            except NoRowsError as reason:
                omitted[name] = str(reason)
        converted = conversion.convert(folder, loaded, proofs)
    if converted.content:
        (folder / LITE_MODEL).write_bytes(converted.content)
    rows = Golden(
        signatures={
            name: GoldenAnswer(
                inputs=golden.as_json(inputs),
                tensorflow=golden.as_json(answers),
                lite=golden.as_json(converted.answers[name]) if name in converted.answers else None,
            )
            for name, (inputs, answers) in proofs.items()
        },
        omitted=omitted,
    )
    (folder / GOLDEN).parent.mkdir(exist_ok=True)
    (folder / GOLDEN).write_text(json.dumps(serialization.to_json(rows)))
    warmup.write(folder, proofs, str(origin.get("job") or "model"))
    record = ExportRecord(
        tensorflow=tf.__version__,
        signatures=types,
        lite=converted.lite,
        digests=_digests(folder),
        **origin,
    )
    (folder / RECORD).write_text(json.dumps(serialization.to_json(record), indent=1))
    return record


def _types_of(function: Any) -> SignatureTypes:
    return SignatureTypes(
        inputs={name: _type_of(spec) for name, spec in function.structured_input_signature[1].items()},
        outputs={name: _type_of(spec) for name, spec in function.structured_outputs.items()},
    )


def _type_of(spec: Any) -> TensorType:
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    return TensorType(dtype=spec.dtype.name, shape=shape)


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / RECORD
    }
