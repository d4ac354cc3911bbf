"""Answers of TensorFlow Serving's REST interface and of Open Inference v2."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.core.prediction.body import DATATYPES
from trainyard.core.prediction.tensors import FaultError, describe
from trainyard.protocol.export import SignatureTypes, TensorType

PROTO_TYPES = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "float16": "DT_HALF"}
"""Names of types in TensorFlow's protocol buffers that differ from `DT_` and the name."""


def by_rows(outputs: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Return `predictions`: a value for each row, or an object if the signature has several outputs. Raises FaultError
    if an output has no rows."""
    for name, values in outputs.items():
        if not isinstance(values, list) or len(values) != rows:
            raise FaultError(
                f'the output {name} has no rows; wanted {{"inputs": {{...}}}} instead of instances'
            )
    if len(outputs) == 1:
        return {"predictions": next(iter(outputs.values()))}
    return {"predictions": [{name: values[row] for name, values in outputs.items()} for row in range(rows)]}


def by_columns(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return `outputs`: a tensor, or an object if the signature has several outputs."""
    return {"outputs": next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs)}


def of_v2(
    model: str, number: int, request: Mapping[str, Any], outputs: Mapping[str, Any], types: SignatureTypes
) -> dict[str, Any]:
    """Return the tensors of an inference. Raises FaultError if the request names an unknown output."""
    wanted = request.get("outputs") or [{"name": name} for name in outputs]
    names = [str(each.get("name") if isinstance(each, dict) else each) for each in wanted]
    if unknown := [name for name in names if name not in outputs]:
        raise FaultError(f"outputs: found {unknown[0]!r}; wanted {', '.join(outputs)}")
    tensors = [_tensor_of_v2(name, outputs[name], types.outputs[name].dtype) for name in names]
    known = {"id": request["id"]} if "id" in request else {}
    return {"model_name": model, "model_version": str(number), **known, "outputs": tensors}


def describe_inputs(types: SignatureTypes, tensors: Mapping[str, Any]) -> dict[str, str]:
    """Return type and shape of each tensor as it was read: `float32, shape (2, 784)`."""
    return {
        name: describe(TensorType(dtype=each.dtype, shape=tuple(_shape(tensors[name]))))
        for name, each in types.inputs.items()
    }


def _shape(value: Any) -> list[int]:
    return [len(value), *(_shape(value[0]) if value else [])] if isinstance(value, list) else []


def status(number: int) -> dict[str, Any]:
    state = {
        "version": str(number),
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    return {"model_version_status": [state]}


def metadata(model: str, number: int, signatures: Mapping[str, SignatureTypes]) -> dict[str, Any]:
    shown = {
        name: {
            "inputs": _tensor_infos(each.inputs),
            "outputs": _tensor_infos(each.outputs),
            "method_name": "tensorflow/serving/predict",
        }
        for name, each in signatures.items()
    }
    return {
        "model_spec": {"name": model, "signature_name": "", "version": str(number)},
        "metadata": {"signature_def": {"signature_def": shown}},
    }


def description(model: str, number: int, types: SignatureTypes, platform: str) -> dict[str, Any]:
    return {
        "name": model,
        "versions": [str(number)],
        "platform": platform,
        "inputs": _tensors_of_v2(types.inputs),
        "outputs": _tensors_of_v2(types.outputs),
    }


def _tensor_infos(tensors: Mapping[str, TensorType]) -> dict[str, Any]:
    return {
        name: {
            "dtype": PROTO_TYPES.get(each.dtype, f"DT_{each.dtype.upper()}"),
            "tensor_shape": {
                "dim": [{"size": str(size), "name": ""} for size in _sizes(each)],
                "unknown_rank": each.shape is None,
            },
            "name": name,
        }
        for name, each in tensors.items()
    }


def _tensors_of_v2(tensors: Mapping[str, TensorType]) -> list[dict[str, Any]]:
    return [
        {"name": name, "datatype": DATATYPES.get(each.dtype, each.dtype), "shape": _sizes(each)}
        for name, each in tensors.items()
    ]


def _sizes(tensor: TensorType) -> Sequence[int]:
    return [-1 if size is None else size for size in tensor.shape or ()]


def _tensor_of_v2(name: str, value: Any, dtype: str) -> dict[str, Any]:
    shape, data = [], value if isinstance(value, list) else [value]
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    for _ in shape[1:]:
        data = [each for row in data for each in row]
    return {"name": name, "datatype": DATATYPES.get(dtype, dtype), "shape": shape, "data": data}
