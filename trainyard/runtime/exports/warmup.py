"""Requests that TensorFlow Serving answers once when it loads a model: the golden rows, as its own messages."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainyard.protocol.export import WARMUP

MESSAGES = "tensorflow_serving"
"""The package with the messages. An image without it makes exports without these requests."""


def write(folder: Path, proofs: Mapping[str, tuple[Mapping[str, Any], object]], model: str) -> None:
    """Write a request for each signature. `proofs` has the inputs first, by signature."""
    if not proofs or importlib.util.find_spec(MESSAGES) is None:
        return
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    path = folder / WARMUP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, (inputs, _) in proofs.items():
            request = predict_pb2.PredictRequest()
            request.model_spec.name, request.model_spec.signature_name = model, signature
            for name, value in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
