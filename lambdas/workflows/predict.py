"""Predict: answer requests for predictions of all small models, by the function URL or by a call of the function."""

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Any

from lambdas import environment
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.predictions import Predictions
from trainyard.protocol import keys
from trainyard.protocol.predictions import GoldenCheck
from trainyard.values.lazy import dataclass

NEEDS = Needs(
    YardSettings,
    (may("read and list objects", keys.MODELS), may("read models", "GetItem", "Query")),
    memory_mib=1769,
    compiled="predict",
)


@dataclass(frozen=True, kw_only=True)
class PredictInput:
    """A request as a function URL passes it, or a request of the workflow version about golden rows."""

    path: str = field(default="/", metadata={"json_key": "rawPath"})
    context: Mapping[str, Any] = field(default_factory=dict, metadata={"json_key": "requestContext"})
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: str | None = None
    encoded: bool = field(default=False, metadata={"json_key": "isBase64Encoded"})
    golden: bool = False
    """True if the workflow version asks about a version that it makes."""
    model: str = ""
    number: int = 0


@entry_point
def handler(given: PredictInput) -> dict[str, Any] | GoldenCheck:
    yard = environment.read(YardSettings)
    predictions = predictions_of(yard.bucket_name, yard.table_name)
    if given.golden:
        return predictions.check_golden(given.model, given.number)
    method = str(given.context.get("http", {}).get("method", "POST"))
    headers = {name: str(value) for name, value in given.headers.items()}
    return predictions.respond(
        method, given.path, given.body or "", is_encoded=given.encoded, headers=headers
    )


@cache
def predictions_of(bucket: str, table: str) -> Predictions:
    return Predictions(bucket, table)
