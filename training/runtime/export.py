"""The trained model as something that can be loaded anywhere: a SavedModel without a trace of the strategy."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def plain_copy(build: Callable[[], Any], trained: Any) -> Any:
    """The same weights in a model of this process alone. Call it outside the strategy's scope."""
    copy = build()
    copy.set_weights(trained.get_weights())
    return copy


def save(model: Any, folder: Path) -> None:
    """A SavedModel with the signature serving_default; the folder appears whole."""
    half = folder.with_name(f"{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.parent.mkdir(parents=True, exist_ok=True)
    model.export(str(half), verbose=False)
    shutil.rmtree(folder, ignore_errors=True)
    half.replace(folder)
