"""LiteRT with NumPy, which only the function for predictions has in its layer."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from trainyard.core.prediction import lite
from trainyard.protocol.export import Conversion, SignatureTypes


class LiteModel:
    """A loaded model.tflite."""

    def __init__(self, content: bytes, how: Conversion) -> None:
        self._interpreter, self._how = Interpreter(model_content=content), how

    @property
    def signatures(self) -> set[str]:
        return {*self._interpreter.get_signature_list()}

    def answer(self, signature: str, types: SignatureTypes, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs for checked inputs, both as nested lists."""
        tensors = {name: _tensor(inputs[name], each.dtype) for name, each in types.inputs.items()}
        outputs = lite.answer(self._interpreter, signature, tensors, self._how)
        return {name: lite.to_lists(value) for name, value in outputs.items()}


def _tensor(value: Any, dtype: str) -> Any:
    return np.array(value, object if dtype == "string" else dtype)
