"""Calling a model, whether it is of Keras, which asks if it is being trained, or a tf.Module, which need not."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any


def trained(model: Any) -> Callable[..., Any]:
    """`model` as it is called while it learns."""
    return partial(model, training=True) if _asks(model) else model


def used(model: Any) -> Callable[..., Any]:
    """`model` as it is called once it has learnt."""
    return partial(model, training=False) if _asks(model) else model


def _asks(model: Any) -> bool:
    is_of_keras = hasattr(model, "call")
    return is_of_keras or "training" in inspect.signature(model).parameters
