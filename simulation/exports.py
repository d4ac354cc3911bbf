"""Exports of simulated programs, and the stand-in for LiteRT that answers with them.

A model multiplies the sum of each row by its weight. The file `model.tflite` contains the weight as JSON, and for a
model with a fault the largest sum that it can multiply.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from trainyard.protocol.export import (
    DEFAULT_SIGNATURE,
    GOLDEN,
    LITE_MODEL,
    RECORD,
    SAVED_MODEL,
    Conversion,
    ExportRecord,
    Golden,
    GoldenAnswer,
    Lite,
    SignatureTypes,
    TensorType,
)
from trainyard.values import serialization

ROWS = [[0.5, 1.0], [2.0, 3.0]]
TYPES = SignatureTypes(
    inputs={"x": TensorType(dtype="float32", shape=(None, 2))},
    outputs={"y": TensorType(dtype="float32", shape=(None, 1))},
)

NOT_CONVERTED = Lite(how=Conversion.NONE, reason="LiteRT has no DecodePng")


class StandIn:
    """A loaded model.tflite, in place of LiteRT."""

    def __init__(self, content: bytes, how: Conversion = Conversion.WHOLE) -> None:
        described = json.loads(content)
        self._weight, self._how = float(described["weight"]), how
        self._most = float(described.get("most", math.inf))

    @property
    def signatures(self) -> set[str]:
        return {DEFAULT_SIGNATURE}

    def answer(self, signature: str, types: SignatureTypes, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if any(sum(row) > self._most for row in inputs["x"]):
            raise RuntimeError("Node number 3 (FULLY_CONNECTED) failed to invoke")
        return {"y": [[self._weight * sum(row)] for row in inputs["x"]]}


def make_export(
    weight: float, *, most: float | None = None, converts: bool = True, **described: Any
) -> dict[str, bytes]:
    """Return the files of an export by path. The model fails for rows whose sum is above `most`, although it answers
    its golden rows. With `converts=False`, only TensorFlow runs it. `described` are more values of trainyard.json."""
    lite = _to_json({"weight": weight} | ({} if most is None else {"most": most}))
    answers = StandIn(lite).answer(DEFAULT_SIGNATURE, TYPES, {"x": ROWS})
    expected = GoldenAnswer(inputs={"x": ROWS}, tensorflow=answers, lite=answers if converts else None)
    golden = Golden(signatures={DEFAULT_SIGNATURE: expected})
    files = {
        SAVED_MODEL: b"a model",
        "variables/variables.index": b"an index of %g" % weight,
        **({LITE_MODEL: lite} if converts else {}),
        GOLDEN: _to_json(serialization.to_json(golden)),
    }
    record = ExportRecord(
        tensorflow="2.21.0",
        signatures={DEFAULT_SIGNATURE: TYPES},
        lite=Lite(how=Conversion.WHOLE, signatures=(DEFAULT_SIGNATURE,)) if converts else NOT_CONVERTED,
        digests={path: digest_of(content) for path, content in files.items()},
        **described,
    )
    return files | {RECORD: _to_json(serialization.to_json(record))}


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _to_json(document: Any) -> bytes:
    return json.dumps(document).encode()
