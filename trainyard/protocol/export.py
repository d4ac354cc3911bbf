"""The files that an export adds to a SavedModel: trainyard.json, model.tflite and assets.extra/golden.json."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from trainyard.values.lazy import dataclass

SAVED_MODEL = "saved_model.pb"
RECORD = "trainyard.json"
LITE_MODEL = "model.tflite"
GOLDEN = "assets.extra/golden.json"
WARMUP = "assets.extra/tf_serving_warmup_requests"
"""Requests that TensorFlow Serving answers once when it loads the model."""
DEFAULT_SIGNATURE = "serving_default"
MOST_GOLDEN_ROWS = 8


class Conversion(StrEnum):
    """How LiteRT runs a model."""

    WHOLE = "whole"
    """All rows of a request at once."""
    ROWS = "rows"
    """One row after the other, because the model converts only with a batch of 1."""
    NONE = "none"
    """LiteRT cannot run the model. A host with TensorFlow can."""


@dataclass(frozen=True, kw_only=True)
class TensorType:
    """An input or an output of a signature."""

    dtype: str
    """TensorFlow's name, such as `float32`, `int64` or `string`."""
    shape: tuple[int | None, ...] | None
    """A dimension of null has any size. A shape of null has any number of dimensions."""

    @property
    def has_batch(self) -> bool:
        """Return True if the first dimension is the row of a request."""
        return bool(self.shape) and self.shape is not None and self.shape[0] is None


@dataclass(frozen=True, kw_only=True)
class SignatureTypes:
    """A signature of a model, with its tensors by name."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]


@dataclass(frozen=True, kw_only=True)
class Lite:
    """The result of the conversion to `model.tflite`."""

    how: Conversion
    reason: str | None = None
    """Why the model does not run whole, with the name of the operation, or which signatures were left out."""
    signatures: tuple[str, ...] = ()
    """The signatures in `model.tflite`."""


@dataclass(frozen=True, kw_only=True)
class ExportRecord:
    """`trainyard.json` of an export."""

    tensorflow: str
    """The version of TensorFlow that wrote the model."""
    signatures: Mapping[str, SignatureTypes]
    lite: Lite | None = None
    """Null if the conversion was not tried."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each other file of the export, by its path."""
    run: str | None = None
    """The run that trained the model."""
    job: str | None = None
    """The name of the run's job."""
    step: int | None = None
    """The last training step."""
    image: str | None = None
    """The image of the run's hosts."""


@dataclass(frozen=True, kw_only=True)
class GoldenAnswer:
    """A request to a signature, and its answers by output. Values are nested lists; bytes are `{"b64": ...}`."""

    inputs: Mapping[str, Any]
    tensorflow: Mapping[str, Any]
    lite: Mapping[str, Any] | None = None
    """Null if `model.tflite` lacks the signature."""


@dataclass(frozen=True, kw_only=True)
class Golden:
    """`assets.extra/golden.json`: up to 8 rows for each signature with the answers at export."""

    signatures: Mapping[str, GoldenAnswer]
    omitted: Mapping[str, str] = field(default_factory=dict)
    """Why a signature has no golden rows, by its name."""
