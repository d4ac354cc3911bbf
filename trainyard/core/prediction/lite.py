"""Run a signature of a LiteRT model. The interpreter is TensorFlow's on hosts, and LiteRT's own in the function."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainyard.protocol.export import Conversion


def answer(interpreter: Any, signature: str, inputs: Mapping[str, Any], how: Conversion) -> dict[str, Any]:
    """Return the output tensors for the input tensors, all rows at once or one after the other."""
    runner = interpreter.get_signature_runner(signature)
    if how is Conversion.WHOLE:
        return dict(runner(**inputs))
    rows = next(iter(inputs.values())).shape[0]
    answers = [
        runner(**{name: tensor[row : row + 1] for name, tensor in inputs.items()}) for row in range(rows)
    ]
    return {name: np.concatenate([each[name] for each in answers]) for name in answers[0]}


def to_lists(tensor: Any) -> Any:
    """Return a tensor as nested lists. Bytes become `{"b64": ...}`."""
    return _encoded(np.asarray(tensor).tolist())


def _encoded(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], list | bytes):
        return [_encoded(each) for each in value]
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
