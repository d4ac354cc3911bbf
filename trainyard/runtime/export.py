"""Export of the trained model as a SavedModel with named, typed signatures."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainyard.runtime import exports
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of the SavedModel."""

    inputs: tuple[tf.TensorSpec, ...]
    """Specs with names. A dimension of None has any size."""
    outputs: Callable[..., Mapping[str, Any]]
    """Returns named tensors for the tensors of `inputs`."""

    def traced(self) -> Any:
        return tf.function(lambda *given: dict(self.outputs(*given))).get_concrete_function(*self.inputs)


def plain(outputs: Callable[..., Any], *inputs: tf.TensorSpec) -> dict[str, Signature]:
    """Return the signature `serving_default`, which returns the model's result as `outputs`."""
    return {"serving_default": Signature(inputs, lambda *given: {"outputs": outputs(*given)})}


def classifier(logits: Callable[..., Any], *inputs: tf.TensorSpec) -> dict[str, Signature]:
    """Return the signatures of a model that returns logits of shape (batch, classes).

    `serving_default` returns the logits as `outputs`, `predict` returns `probabilities`, and `classify` returns the IDs
    of all `classes` with their `scores`, the most likely first.
    """

    def predict(*given: Any) -> dict[str, Any]:
        return {"probabilities": tf.nn.softmax(logits(*given))}

    def classify(*given: Any) -> dict[str, Any]:
        probabilities = tf.nn.softmax(logits(*given))
        scores, classes = tf.math.top_k(probabilities, k=tf.shape(probabilities)[1])
        return {"classes": classes, "scores": scores}

    return plain(logits, *inputs) | {
        "predict": Signature(inputs, predict),
        "classify": Signature(inputs, classify),
    }


def save(
    cluster: Cluster, environment: Environment, model: Any, signatures: Mapping[str, Signature], step: int
) -> None:
    """Write a SavedModel whose folder appears whole. Every worker must call it, because reading may need all."""
    options = tf.saved_model.SaveOptions(experimental_io_device=cluster.file_device)
    exported = tf.Module()
    exported.model = model
    traced = {name: signature.traced() for name, signature in signatures.items()}
    if not cluster.is_chief:
        with tempfile.TemporaryDirectory(prefix="trainyard-") as scratch:
            tf.saved_model.save(exported, scratch, signatures=traced, options=options)
        return
    half = environment.model.with_name(f"{environment.model.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.parent.mkdir(parents=True, exist_ok=True)
    tf.saved_model.save(exported, str(half), signatures=traced, options=options)
    exports.complete(
        half,
        run=environment.run,
        job=environment.job_name(),
        step=step,
        image=environment.image,
    )
    shutil.rmtree(environment.model, ignore_errors=True)
    half.replace(environment.model)
