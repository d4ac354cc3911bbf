"""Answer requests for predictions. The process keeps the versions that it has loaded."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lambdas.aws import s3
from lambdas.aws.dynamodb.served_models import ServedModels
from lambdas.core.prediction import assignment, choice
from lambdas.core.prediction.eviction import Kept, Key, choose_evicted
from lambdas.steps.observability import logger, measure_all
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.core.model.yard.metrics import Metric
from trainyard.core.prediction import answers, body, http, responses
from trainyard.core.prediction.http import HttpRequest, RefusedError, Status
from trainyard.core.prediction.routes import WITH_BODY, Act, Route, route_of
from trainyard.core.prediction.tensors import FaultError
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN, LITE_MODEL, Conversion, Golden, SignatureTypes
from trainyard.protocol.ledger.models import DEFAULT, ModelRow, VersionRow
from trainyard.protocol.predictions import GoldenCheck
from trainyard.values import serialization

if TYPE_CHECKING:
    from lambdas.steps.interpreter import LiteModel

PLATFORM = "litert"

RETRY_SECONDS = 1
"""When a client may repeat a request that AWS did not let the function answer."""


@dataclass(kw_only=True)
class Loaded:
    """A version in memory."""

    row: VersionRow
    read: float
    """When the row was read, in seconds."""
    lite: "LiteModel"
    size: int
    used: float


class Predictions:
    def __init__(self, bucket: str, table: str) -> None:
        self._bucket, self._ledger = bucket, ServedModels(table)
        self._loaded: dict[Key, Loaded] = {}
        self._models: dict[str, tuple[ModelRow, float]] = {}

    def respond(
        self, method: str, path: str, text: str, *, is_encoded: bool, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the answer to a request by HTTP."""
        try:
            request = http.request_of(method, path, text, is_encoded=is_encoded, headers=headers)
            return self._answer(route_of(request), request)
        except RefusedError as refused:
            return http.refusal(refused)
        except MemoryError:
            said = "the request needs more memory than the function has: send fewer rows at once"
            return http.refusal(RefusedError(Status.NO_MEMORY, said))
        except ServiceUnavailable as unavailable:
            said = f"try again: {unavailable}"
            return http.refusal(RefusedError(Status.UNAVAILABLE, said, retry_seconds=RETRY_SECONDS))

    def check_golden(self, model: str, number: int) -> GoldenCheck:
        """Compare the answers of a version that is being made with its golden rows. The version is not kept."""
        from trainyard.core.prediction.agreement import find_difference

        try:
            row = self._version(model, str(number), for_golden=True)
            if row.lite is Conversion.NONE:
                return GoldenCheck(unchecked=row.lite_reason or "no golden rows")
            found = s3.get_json(self._bucket, f"{keys.version(model, number)}{GOLDEN}") or {}
            golden = serialization.read(Golden, found)
            lite, _ = self._load(model, row, row.lite)
            checked = sorted(lite.signatures & {*golden.signatures})
            for name in checked:
                expected, types = golden.signatures[name], row.signatures[name]
                given = body.read({"inputs": expected.inputs}, types)
                outputs = lite.answer(name, types, given.tensors)
                if difference := find_difference(expected.tensorflow, outputs):
                    return GoldenCheck(difference=f"{name}, {difference}")
        except (RefusedError, FaultError, RuntimeError, ValueError) as error:
            return GoldenCheck(difference=f"the model failed: {error}")
        return GoldenCheck(unchecked=None if checked else "no golden rows")

    def _answer(self, route: Route, request: HttpRequest) -> dict[str, Any]:
        if route.act is Act.HEALTH:
            return http.answer({"ready": True})
        if route.act in WITH_BODY:
            return self._predict(route, request)
        row = self._find(route)
        choice.check_ready(route.model, row)
        return http.answer(responses.describe(_named(route, row), route), version=row.number)

    def _predict(self, route: Route, request: HttpRequest) -> dict[str, Any]:
        """Answer with the version that the path names, with the default one, or with its canary. Count the answer."""
        row = self._find(route, request.key)
        began, failed = time.perf_counter(), True
        try:
            document, outputs, seen = self._compute(route, row, request)
            explained = self._explain(route, row, seen, began) if request.explain else None
            found = http.answer(document, version=row.number, explained=explained)
            failed = found["statusCode"] != Status.OK
        finally:
            _count(route.model, row.number, began, {Metric.ERRORS: failed})
        self._shadow(route, row, request, outputs)
        return found

    def _explain(
        self, route: Route, row: VersionRow, seen: Mapping[str, Any], began: float
    ) -> dict[str, Any]:
        model, _ = self._models.get(route.model, (None, 0.0))
        canary = model.canary if model and not route.version and route.alias == DEFAULT else None
        return {
            "version": row.number,
            "label": row.label,
            "canary": bool(canary and canary.version == row.number),
            "milliseconds": _milliseconds(began),
            **seen,
        }

    def _compute(
        self, route: Route, row: VersionRow, request: HttpRequest
    ) -> tuple[dict[str, Any], Mapping[str, Any], dict[str, Any]]:
        """Return the answer of a version, its outputs by name, and how the inputs were read. Raises RefusedError."""
        model, seen = route.model, dict[str, Any]()
        choice.check_ready(model, row)

        def compute(name: str, types: SignatureTypes, inputs: Mapping[str, Any]) -> dict[str, Any]:
            seen.update(
                signature=name,
                inputs=answers.describe_inputs(types, inputs),
                loaded=(model, row.number) not in self._loaded,
            )
            loaded = self._keep(model, row)
            if name not in loaded.lite.signatures:
                choice.check_runs_here(model, row.number, Conversion.NONE, row.lite_reason)
            try:
                return loaded.lite.answer(name, types, inputs)
            except (RuntimeError, ValueError) as error:
                raise RefusedError(
                    Status.FAILED, f"version {row.number} of {model} failed: {error}"
                ) from error

        document, outputs = responses.predict(_named(route, row), route, request.body, compute)
        return document, outputs, seen

    def _shadow(
        self, route: Route, row: VersionRow, request: HttpRequest, outputs: Mapping[str, Any]
    ) -> None:
        """Let the shadow of the default version compute the same request, and count whether its answer agrees."""
        model = None if route.version else self._models.get(route.model)
        number = assignment.find_shadow(model[0], route.alias, request.key) if model else None
        if number is None or number == row.number:
            return
        from trainyard.core.prediction.agreement import find_difference

        began, counted = time.perf_counter(), {Metric.ERRORS: True}
        try:
            shadow = self._version(route.model, str(number))
            _, others, _ = self._compute(route, shadow, request)
            difference = find_difference(outputs, others)
            counted = {Metric.ERRORS: False, Metric.DISAGREED: difference is not None}
        except (RefusedError, MemoryError, ServiceUnavailable) as error:
            logger.info("the shadow %s of %s gives no answer: %s", number, route.model, error)
        finally:
            _count(route.model, number, began, counted)

    def _find(self, route: Route, key: str | None = None) -> VersionRow:
        """Return the version that the path names. With a `key`, the canary may take the place of the default."""
        if route.version is not None:
            return self._version(route.model, route.version)
        model = self._model(route.model)
        if route.alias not in model.aliases:
            if labelled := self._labelled(route):
                return labelled
            model = self._read_model(route.model)
        number = choice.number_of(model, route.alias)
        canary = None if key is None else assignment.find_canary(model, route.alias, key)
        return self._version(route.model, str(canary or number))

    def _labelled(self, route: Route) -> VersionRow | None:
        """Return the version whose label the path names in place of an alias."""
        return choice.find(self._ledger.versions(route.model), route.alias)

    def _model(self, name: str) -> ModelRow:
        row, read = self._models.get(name, (None, 0.0))
        if row is None or time.monotonic() - read > choice.ROW_SECONDS:
            return self._read_model(name)
        return row

    def _read_model(self, name: str) -> ModelRow:
        """Read the model from the ledger. A refusal is always decided by this, never by a row in memory."""
        row = self._ledger.model(name)
        if row is None:
            self._models.pop(name, None)
            raise choice.unknown_model(name, self._ledger.names())
        self._models[name] = row, time.monotonic()
        return row

    def _version(self, model: str, version: str, *, for_golden: bool = False) -> VersionRow:
        """Return a version by its number or label. Raises RefusedError."""
        loaded = self._loaded.get((model, int(version))) if version.isdecimal() else None
        if loaded and time.monotonic() - loaded.read <= choice.ROW_SECONDS:
            return loaded.row
        row = self._ledger.version(model, int(version)) if version.isdecimal() else None
        if loaded and row:
            loaded.row, loaded.read = row, time.monotonic()
        if row is None:
            self._model(model)
            rows = self._ledger.versions(model)
            row = choice.find(rows, version)
            if row is None:
                raise choice.unknown_version(model, version, rows)
        if for_golden:
            choice.check_ready(model, row, for_golden=True)
        return row

    def _keep(self, model: str, row: VersionRow) -> Loaded:
        """Return the version in memory. Load it if necessary, and evict others for it."""
        key = (model, row.number)
        if key not in self._loaded:
            lite, size = self._load(model, row, row.lite)
            self._loaded[key] = Loaded(row=row, read=time.monotonic(), lite=lite, size=size, used=0.0)
        self._loaded[key].used = time.monotonic()
        return self._loaded[key]

    def _load(self, model: str, row: VersionRow, how: Conversion) -> tuple["LiteModel", int]:
        """Read model.tflite, compare its digest, and load it. Raises RefusedError."""
        choice.check_runs_here(model, row.number, how, row.lite_reason)
        key = f"{keys.version(model, row.number)}{LITE_MODEL}"
        found = s3.open_object(self._bucket, key)
        if found is None:
            raise RefusedError(Status.NOT_READY, f"version {row.number} of {model}: {key} is missing")
        choice.check_memory(model, row.number, found.size)
        kept = {each: Kept(loaded.size, loaded.used) for each, loaded in self._loaded.items()}
        for each in choose_evicted(kept, found.size):
            del self._loaded[each]
        content = found.read()
        expected = row.manifest.get(LITE_MODEL)
        if expected and hashlib.sha256(content).hexdigest() != expected:
            raise RefusedError(
                Status.NOT_READY,
                f"version {row.number} of {model}: {key} was changed after the version was made; make a new version",
            )
        return start_interpreter(content, how), found.size


def _named(route: Route, row: VersionRow) -> responses.Version:
    return responses.Version(
        model=route.model, number=row.number, signatures=row.signatures, platform=PLATFORM
    )


def _milliseconds(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 3)


def _count(model: str, version: int, began: float, counted: Mapping[Metric, bool]) -> None:
    """Count a request in CloudWatch. `counted` has 0 or 1 for each further metric."""
    values = {Metric.PREDICTIONS: 1.0, Metric.MILLISECONDS: _milliseconds(began)}
    others = {metric: float(value) for metric, value in counted.items()}
    measure_all(values | others, {"model": model, "version": str(version)})


def start_interpreter(content: bytes, how: Conversion) -> "LiteModel":
    """Load a model. LiteRT is imported here, because only the layer of one function has it."""
    from lambdas.steps.interpreter import LiteModel

    return LiteModel(content, how)
