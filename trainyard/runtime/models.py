"""One interface for models of Keras 3, of tf_keras and for tf.Module."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf


@tf.autograph.experimental.do_not_convert  # the choice depends on the model, never on a tensor
def for_training(model: Any) -> Callable[..., Any]:
    """Return `model` as a function for training."""
    return partial(model, training=True) if _takes_training(model) else model


def for_inference(model: Any) -> Callable[..., Any]:
    """Return `model` as a function for inference."""
    return partial(model, training=False) if _takes_training(model) else model


def state_of(model: Any) -> dict[str, Any]:
    """Return the state of `model` for a checkpoint, by name: its variables and its random generators."""
    if isinstance(model, keras.Model):
        return {"variables": list(model.variables)}
    if _is_of_keras(model):
        return {"variables": list(model.variables), "generators": generators_of(model)}
    return {"model": model}


def generators_of(model: Any) -> list[Any]:
    """Return the random generators of tf_keras' layers such as Dropout, which tf_keras' own checkpoints lack.

    Print a warning for layers that were created without `enable_tf_random_generator`: theirs cannot be saved.
    """
    layers = [layer for layer in model.submodules if hasattr(layer, "_random_generator")]
    generators = [layer._random_generator._generator for layer in layers]  # noqa: SLF001
    unsaved = [layer.name for layer, generator in zip(layers, generators, strict=True) if generator is None]
    if unsaved:
        print(
            f"random generators cannot be saved for {', '.join(unsaved)}, so a restarted run will differ slightly: "
            "call tf_keras.backend.experimental.enable_tf_random_generator() before the model is built",
            flush=True,
        )
    return [generator for generator in generators if generator is not None]


def _takes_training(model: Any) -> bool:
    return _is_of_keras(model) or "training" in inspect.signature(model).parameters


def _is_of_keras(model: Any) -> bool:
    return hasattr(model, "call")
