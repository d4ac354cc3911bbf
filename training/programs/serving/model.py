"""A version of a model in TensorFlow, checked against its manifest and its golden rows."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from trainyard.core.prediction import body, responses
from trainyard.core.prediction.agreement import find_difference
from trainyard.core.prediction.http import RefusedError, Status
from trainyard.core.prediction.lite import to_lists
from trainyard.core.prediction.responses import Version
from trainyard.core.prediction.tensors import FaultError
from trainyard.protocol.export import GOLDEN, RECORD, ExportRecord, Golden, SignatureTypes
from trainyard.values import serialization
from trainyard.values.quantities import format_count
from trainyard.values.text import printable

PLATFORM = "tensorflow_savedmodel"
"""The name of this runtime in Open Inference v2."""

MOST_CHARACTERS = 500


class NotServedError(Exception):
    """The version must not be served. The message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A loaded version."""

    name: str
    number: int
    label: str
    folder: Path
    record: ExportRecord
    loaded: Any
    """The object of tf.saved_model.load."""
    load_seconds: float

    @classmethod
    def load(cls, folder: Path, name: str, number: int, *, label: str, record: str | None) -> "Model":
        """Load a version whose files are as they were at the export. `record` is the SHA-256 of trainyard.json. Raises
        NotServedError."""
        found = _read_record(folder, f"version {number} of {name}", record)
        # The golden rows are answers with the full precision of float32, and GPUs would round to TF32.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        began = time.monotonic()
        loaded = tf.saved_model.load(str(folder))
        seconds = time.monotonic() - began
        return cls(
            name=name,
            number=number,
            label=label,
            folder=folder,
            record=found,
            loaded=loaded,
            load_seconds=seconds,
        )

    @property
    def named(self) -> str:
        return f"version {self.number} of {self.name}"

    @property
    def version(self) -> Version:
        return Version(
            model=self.name, number=self.number, signatures=self.record.signatures, platform=PLATFORM
        )

    def check_golden(self) -> str:
        """Answer the golden rows, and return a sentence about them. Raises NotServedError with the first difference."""
        path = self.folder / GOLDEN
        if not path.is_file():
            return f"{self.named} has no golden rows, so its answers are not checked"
        golden = serialization.read(Golden, json.loads(path.read_text()))
        for name, expected in golden.signatures.items():
            types = self.record.signatures[name]
            try:
                inputs = body.read({"inputs": expected.inputs}, types).tensors
                found = self.compute(name, types, inputs)
            except (FaultError, RefusedError) as error:
                raise NotServedError(
                    f"{self.named} does not answer its golden rows: {name}, {error}"
                ) from error
            if difference := find_difference(expected.tensorflow, found):
                raise NotServedError(
                    f"{self.named} differs from TensorFlow's answers at its export: {name}, {difference}"
                )
        omitted = "".join(f"; {name} has none, because {why}" for name, why in golden.omitted.items())
        return (
            f"{self.named} answers the golden rows of {format_count(len(golden.signatures), 'signature')} as at its "
            f"export{omitted}"
        )

    def compute(self, name: str, types: SignatureTypes, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a signature for checked inputs, both as nested lists. Raises RefusedError."""
        tensors = {each: _tensor(inputs[each], tensor.dtype) for each, tensor in types.inputs.items()}
        return {each: to_lists(value) for each, value in self.run(name, tensors).items()}

    def run(self, name: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return the output arrays of a signature for its input arrays. Raises RefusedError."""
        try:
            outputs = self.loaded.signatures[name](
                **{each: tf.constant(tensor) for each, tensor in tensors.items()}
            )
            return {each: value.numpy() for each, value in outputs.items()}
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            said = f"{self.name} {self.number}, {name}: the model refused the values: {_line_of(error)}"
            raise RefusedError(Status.BAD_REQUEST, said) from error
        except tf.errors.ResourceExhaustedError as error:
            said = f"the request needs more memory than the host has ({_line_of(error)}): send fewer rows at once"
            raise RefusedError(Status.NO_MEMORY, said) from error
        except tf.errors.OpError as error:
            raise RefusedError(Status.FAILED, f"{self.named} failed: {_line_of(error)}") from error

    def check_version(self, model: str, version: str | None) -> None:
        """Raise RefusedError unless this host serves the version, which a number or a label names; None: any."""
        if model != self.name:
            raise RefusedError(Status.NOT_FOUND, f"this host serves {self.name}, and not {model}")
        if version not in (None, str(self.number), self.label):
            shown = f"{self.number} ({self.label})" if self.label else str(self.number)
            raise RefusedError(
                Status.NOT_FOUND, f"this host serves version {shown} of {self.name}, and not {version}"
            )

    def check_signature(self, name: str) -> SignatureTypes:
        """Return the types of a signature. Raises RefusedError."""
        if name not in self.record.signatures:
            raise responses.unknown_signature(self.name, self.number, name, self.record.signatures)
        return self.record.signatures[name]


def _read_record(folder: Path, named: str, expected: str | None) -> ExportRecord:
    path = folder / RECORD
    if not path.is_file():
        raise NotServedError(f"{named} has no {RECORD}, so its signatures and digests are unknown")
    content = path.read_bytes()
    if expected and hashlib.sha256(content).hexdigest() != expected:
        raise NotServedError(f"{named}: {RECORD} was changed after the version was made; make a new version")
    record = serialization.read(ExportRecord, json.loads(content))
    changed = [name for name, digest in record.digests.items() if _digest_of(folder / name) != digest]
    if changed:
        raise NotServedError(
            f"{named}: {', '.join(changed[:8])} was changed after the export; make a new version"
        )
    return record


def _digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as opened:
            while piece := opened.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


def _tensor(value: Any, dtype: str) -> Any:
    kind = tf.as_dtype(dtype)
    return np.array(value, object if kind == tf.string else kind.as_numpy_dtype)


def _line_of(error: Exception) -> str:
    """Return the first line of TensorFlow's message. Python cannot decode one that quotes bytes of the request."""
    said = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)
    return printable(next(iter(said.splitlines()), type(error).__name__), MOST_CHARACTERS)
