"""Golden of version: let the function predict answer the golden rows, and compare its answers with TensorFlow's."""

import json
from collections.abc import Mapping
from typing import Any

from lambdas import environment
from lambdas.aws import messages, s3
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer
from trainyard.core.prediction.agreement import find_difference
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN, RECORD, Conversion, ExportRecord, Golden, GoldenAnswer
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

NEEDS = Needs(
    YardSettings,
    (may("read and list objects", keys.MODELS), may("invoke functions", "predict")),
    minutes=5,
)


@dataclass(frozen=True, kw_only=True)
class GoldenInput:
    model: str
    number: int
    changed: tuple[str, ...] = ()
    """Files that differ from the digests in trainyard.json."""


class Agrees(Answer):
    kind = "agrees"


class Differs(Answer):
    kind = "differs"


class Unchecked(Answer):
    """LiteRT cannot run the version. The first host that serves it checks it."""

    kind = "unchecked"


@entry_point
def handler(given: GoldenInput) -> Agrees | Differs | Unchecked:
    yard, folder = environment.read(YardSettings), keys.version(given.model, given.number)
    record = _read(yard.bucket_name, f"{folder}{RECORD}", ExportRecord)
    golden = _read(yard.bucket_name, f"{folder}{GOLDEN}", Golden)
    named, lite = f"version {given.number} of {given.model}", record.lite
    checked = [name for name in golden.signatures if lite and name in lite.signatures]
    for name in checked:
        if difference := _compare(yard, given, name, golden.signatures[name]):
            return Differs(
                reason=f"{named} differs from TensorFlow's answers at its export: {name}, {difference}"
            )
    if given.changed:
        return Differs(
            reason=f"files of {named} were changed after the export: {', '.join(given.changed[:8])}"
        )
    if lite is None or lite.how is Conversion.NONE or not checked:
        why = lite.reason if lite and lite.reason else "no golden rows"
        return Unchecked(reason=f"{named} runs only on a host with TensorFlow ({why})")
    return Agrees(reason=f"{named} answers its golden rows as TensorFlow did")


def _compare(yard: YardSettings, given: GoldenInput, signature: str, expected: GoldenAnswer) -> str | None:
    """Return the difference of the answer of predict from TensorFlow's; None if they agree."""
    request = {
        "model": given.model,
        "version": given.number,
        "golden": True,
        "signature_name": signature,
        "inputs": expected.inputs,
    }
    answer = messages.call(f"{yard.yard}-predict", json.dumps(request).encode())
    if "error" in answer:
        return f"the model failed: {answer['error']}"
    return find_difference(expected.tensorflow, answer["outputs"])


def _read(bucket: str, key: str, kind: Any) -> Any:
    found: Mapping[str, Any] = s3.get_json(bucket, key) or {}
    return serialization.read(kind, found)
