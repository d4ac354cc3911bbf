"""What is asked of a model alike, whether it is of Keras 3, of tf_keras or a tf.Module."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf


@tf.autograph.experimental.do_not_convert  # it chooses by what the model is, never by a tensor
def trained(model: Any) -> Callable[..., Any]:
    """`model` as it is called while it learns."""
    return partial(model, training=True) if _asks(model) else model


def used(model: Any) -> Callable[..., Any]:
    """`model` as it is called once it has learnt."""
    return partial(model, training=False) if _asks(model) else model


def state_of(model: Any) -> dict[str, Any]:
    """What a checkpoint must hold of `model`, by name: its variables and what its layers draw from."""
    if isinstance(model, keras.Model):
        return {"variables": list(model.variables)}
    if _is_of_keras(model):
        return {"variables": list(model.variables), "generators": generators_of(model)}
    return {"model": model}


def generators_of(model: Any) -> list[Any]:
    """What tf_keras' layers, such as Dropout, draw from: no checkpoint of tf_keras itself holds it.

    Layers made without `enable_tf_random_generator` draw from what cannot be saved, and this is said.
    """
    layers = [layer for layer in model.submodules if hasattr(layer, "_random_generator")]
    generators = [layer._random_generator._generator for layer in layers]  # noqa: SLF001
    unsaved = [layer.name for layer, generator in zip(layers, generators, strict=True) if generator is None]
    if unsaved:
        print(
            f"what {', '.join(unsaved)} draws is not saved, so a restarted run will differ a little from a whole one: "
            "call tf_keras.backend.experimental.enable_tf_random_generator() before the model is built",
            flush=True,
        )
    return [generator for generator in generators if generator is not None]


def _asks(model: Any) -> bool:
    return _is_of_keras(model) or "training" in inspect.signature(model).parameters


def _is_of_keras(model: Any) -> bool:
    return hasattr(model, "call")
