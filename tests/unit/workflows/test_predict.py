"""The function for predictions, with LiteRT, the ledger and the bucket."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lambdas.aws.dynamodb.write import Write
from lambdas.workflows import predict
from tests.support.recorded import CONTEXT
from tests.unit.workflows.conftest import Log, Place
from trainyard.protocol import keys
from trainyard.protocol.export import (
    GOLDEN,
    LITE_MODEL,
    Conversion,
    Golden,
    GoldenAnswer,
    SignatureTypes,
    TensorType,
)
from trainyard.protocol.ledger import models
from trainyard.protocol.ledger.models import Canary, ModelRow, VersionRow, VersionState
from trainyard.protocol.predictions import GoldenCheck, event_of, golden_event
from trainyard.values import serialization
from trainyard.values.serialization import parse_timestamp

LITE = Path(__file__).with_name("double.tflite").read_bytes()
"""Two signatures: `serving_default` doubles rows of two floats, `both` also has their sum."""
AT = parse_timestamp("2026-11-29T00:00:00Z")
ROWS = TensorType(dtype="float32", shape=(None, 2))
SUMS = TensorType(dtype="float32", shape=(None,))
TYPES = {
    "serving_default": SignatureTypes(inputs={"x": ROWS}, outputs={"y": ROWS}),
    "both": SignatureTypes(inputs={"x": ROWS}, outputs={"y": ROWS, "sum": SUMS}),
    "parse": SignatureTypes(inputs={"x": ROWS}, outputs={"y": ROWS}),
}


class Registry:
    """The model `twice` with its versions in the ledger and the bucket."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def model(self, canary: Canary | None = None, shadow: Canary | None = None, **aliases: int) -> None:
        row = ModelRow(
            name="twice", owner="ann", created=AT, request="r", aliases=aliases, canary=canary, shadow=shadow
        )
        self._write("twice", models.MODEL, row)
        self._place.ledger.write(Write(models.MODELS, "twice", {"owner": "ann"}))

    def version(
        self,
        number: int,
        state: VersionState = VersionState.READY,
        how: Conversion = Conversion.WHOLE,
        content: bytes = LITE,
        golden: Golden | None = None,
    ) -> None:
        row = VersionRow(
            number=number,
            label=f"v{number}",
            state=state,
            by="ann",
            at=AT,
            request="r",
            origin="o",
            lite=how,
            lite_reason=None if how is Conversion.WHOLE else "LiteRT lacks the operation ParseExampleV2",
            signatures=TYPES,
            manifest={LITE_MODEL: hashlib.sha256(LITE).hexdigest()},
        )
        self._write("twice", models.version_key(number), row)
        folder = keys.version("twice", number)
        self._place.s3.write("bucket", f"{folder}{LITE_MODEL}", content)
        if golden:
            self._place.put(f"{folder}{GOLDEN}", serialization.to_json(golden))

    def _write(self, model: str, sk: str, row: object) -> None:
        values = {name: value for name, value in serialization.to_json(row).items() if value is not None}
        self._place.ledger.write(Write(models.partition(model), sk, values))


@pytest.fixture
def registry(place: Place) -> Registry:
    predict.predictions_of.cache_clear()
    made = Registry(place)
    made.model(default=1, best=2)
    for number in (1, 2):
        made.version(number)
    return made


def ask(
    path: str, document: Any = None, method: str = "POST", key: str | None = None
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    body = document if isinstance(document, str) else json.dumps(document)
    event = event_of(method, path, body) | {"headers": {} if key is None else {"x-trainyard-key": key}}
    answer = predict.handler(event, CONTEXT)
    return answer["statusCode"], json.loads(answer["body"]), answer["headers"]


def test_the_event_of_a_function_url_has_more_keys(registry: Registry) -> None:
    """Lambda's payload format 2.0, as far as its names could be taken for ours."""
    event = event_of("POST", "/v1/models/twice:predict", json.dumps({"instances": [[1, 2]]}))
    answer = predict.handler(event | {"version": "2.0", "routeKey": "$default", "cookies": []}, CONTEXT)
    assert json.loads(answer["body"]) == {"predictions": [[2, 4]]}


def test_rows_columns_and_signatures_are_answered(registry: Registry) -> None:
    path = "/v1/models/twice:predict"
    for request, answer in (
        ({"instances": [[1, 2], [3, 4]]}, {"predictions": [[2, 4], [6, 8]]}),
        ({"inputs": {"x": [[1, 2]]}}, {"outputs": [[2, 4]]}),
        ({"signature_name": "both", "instances": [[1, 2]]}, {"predictions": [{"y": [2, 4], "sum": 3}]}),
    ):
        assert ask(path, request)[:2] == (200, answer)


def test_the_version_is_the_default_one_a_number_an_alias_or_a_label(registry: Registry) -> None:
    for path, number in (
        ("/v1/models/twice", "1"),
        ("/v1/models/twice/labels/best", "2"),
        ("/v1/models/twice/versions/2", "2"),
        ("/v1/models/twice/versions/v2", "2"),
        ("/v1/models/twice/labels/v1", "1"),
    ):
        code, _, headers = ask(f"{path}:predict", {"instances": [[1, 2]]})
        assert (code, headers["X-Trainyard-Version"]) == (200, number)


def test_a_moved_alias_counts_after_its_seconds(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = []
    for now, alias in ((100.0, 1), (104.0, 2), (106.0, 2)):
        monkeypatch.setattr("lambdas.steps.predictions.time.monotonic", lambda now=now: now)
        registry.model(default=alias)
        versions.append(ask("/v1/models/twice:predict", {"instances": [[1, 2]]})[2]["X-Trainyard-Version"])
    assert versions == ["1", "1", "2"]


def test_an_alias_that_was_refused_answers_as_soon_as_it_exists(registry: Registry) -> None:
    for alias, path in (("default", ""), ("new", "/labels/new")):
        registry.model(best=2)
        predict.predictions_of.cache_clear()
        assert ask(f"/v1/models/twice{path}:predict", {"instances": [[1, 2]]})[0] == 404
        registry.model(None, None, **{"best": 2, alias: 1})
        assert ask(f"/v1/models/twice{path}:predict", {"instances": [[1, 2]]})[0] == 200


def test_a_version_in_memory_is_refused_some_seconds_after_it_was_retired(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = []
    for now, state in ((100.0, VersionState.READY), (104.0, VersionState.RETIRED), (106.0, None)):
        monkeypatch.setattr("lambdas.steps.predictions.time.monotonic", lambda now=now: now)
        if state:
            registry.version(2, state)
        codes.append(ask("/v1/models/twice/versions/2:predict", {"instances": [[1, 2]]})[0])
    assert codes == [200, 200, 409]


def test_open_inference_answers_with_tensors(registry: Registry) -> None:
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    request = {"inputs": [tensor], "parameters": {"signature_name": "both"}, "outputs": [{"name": "sum"}]}
    code, answer, _ = ask("/v2/models/twice/infer", request)
    assert (code, answer["outputs"]) == (
        200,
        [{"name": "sum", "datatype": "FP32", "shape": [1], "data": [3]}],
    )
    assert ask("/v2/health/ready", method="GET")[0] == 200
    assert ask("/v2/models/twice/ready", method="GET")[0] == 200
    described = ask("/v2/models/twice", method="GET")[1]
    assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]


def test_tensorflow_servings_status_and_metadata_are_answered(registry: Registry) -> None:
    status = ask("/v1/models/twice", method="GET")[1]["model_version_status"][0]
    assert (status["version"], status["state"]) == ("1", "AVAILABLE")
    found = ask("/v1/models/twice/metadata", method="GET")[1]["metadata"]["signature_def"]["signature_def"]
    assert found["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"


@pytest.mark.parametrize(
    ("path", "document", "code", "said"),
    [
        ("/v1/models/thrice:predict", {}, 404, "the yard has no model thrice; it has twice"),
        ("/v1/models/twice/versions/9:predict", {}, 404, "twice has no version 9; there are 1 (v1), 2 (v2)"),
        ("/v1/models/twice/labels/worst:predict", {}, 404, "twice has no alias worst; there are best, default"),
        ("/v1/models/twice:predict", {"signature_name": "bth"}, 404, 'no signature bth; there are both'),
        ("/v1/models/twice:predict", {"signature_name": 5}, 400, "signature_name: found 5; wanted a text"),
        ("/v1/models/twice:predict", "", 400, "twice 1, the request is empty"),
        (
            "/v1/models/twice:predict",
            {"instances": [[1, 2, 3]]},
            400,
            "instances[0]: found a list of 3 numbers; wanted 2 (float32, shape (any, 2)). trainyard request twice",
        ),
        ("/v1/models/twice:predict", {"signature_name": "parse", "instances": [[1, 2]]}, 503, "needs a host"),
        ("/v1/models/twice:classify", {}, 400, "use :predict"),
    ],
)  # fmt: skip
def test_an_unusable_request_is_refused_with_a_sentence(
    registry: Registry, path: str, document: Any, code: int, said: str
) -> None:
    found = ask(path, document)
    assert (found[0], said in found[1]["error"]) == (code, True), found
    assert "Traceback" not in found[1]["error"]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"state": VersionState.MAKING}, 409, "version 3 (v3) of twice is making"),
        ({"state": VersionState.RETIRED}, 409, "version 3 (v3) of twice is retired"),
        ({"how": Conversion.NONE}, 503, "LiteRT lacks the operation ParseExampleV2"),
        (
            {"content": LITE + b"more"},
            409,
            "models/twice/3/model.tflite was changed after the version was made",
        ),
    ],
)
def test_a_version_that_cannot_answer_is_refused_and_others_answer(
    registry: Registry, given: dict[str, Any], code: int, said: str
) -> None:
    registry.version(3, **given)
    found = ask("/v1/models/twice/versions/3:predict", {"instances": [[1, 2]]})
    assert (found[0], said in found[1]["error"]) == (code, True), found
    assert ask("/v1/models/twice:predict", {"instances": [[1, 2]]})[0] == 200


def golden(inputs: Any, **tensorflow: Any) -> GoldenAnswer:
    return GoldenAnswer(inputs={"x": inputs}, tensorflow=tensorflow)


@pytest.mark.parametrize(
    ("signatures", "how", "answer"),
    [
        (
            {
                "serving_default": golden([[1.0, 2.0]], y=[[2, 4]]),
                "both": golden([[1.0, 2.0]], y=[[2, 4]], sum=[3]),
            },
            Conversion.WHOLE,
            GoldenCheck(),
        ),
        (
            {
                "both": golden([[1.0, 2.0]], y=[[2, 4]], sum=[3]),
                "serving_default": golden([[1.0, 2.0]], y=[[2, 5]]),
            },
            Conversion.WHOLE,
            GoldenCheck(difference="serving_default, row 0, y: found 4.0, expected 5"),
        ),
        (
            {"both": golden([[1.0]], y=[[2, 4]], sum=[3])},
            Conversion.WHOLE,
            GoldenCheck(
                difference="the model failed: inputs.x[0]: found a list of 1 number; wanted 2 (float32, shape (any, 2))"
            ),
        ),
        (
            {"parse": golden([[1.0, 2.0]], y=[[2, 4]])},
            Conversion.WHOLE,
            GoldenCheck(unchecked="no golden rows"),
        ),
        ({}, Conversion.NONE, GoldenCheck(unchecked="LiteRT lacks the operation ParseExampleV2")),
    ],
)
def test_all_golden_rows_of_a_version_in_the_making_are_compared_by_one_call(
    registry: Registry, signatures: dict[str, GoldenAnswer], how: Conversion, answer: GoldenCheck
) -> None:
    registry.version(3, state=VersionState.MAKING, how=how, golden=Golden(signatures=signatures))
    found = predict.handler(golden_event("twice", 3), CONTEXT)
    assert serialization.read(GoldenCheck, found) == answer


def test_versions_beyond_the_memory_leave_and_are_loaded_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lambdas.core.prediction.choice.MOST_BYTES", len(LITE) + 1)
    monkeypatch.setattr("lambdas.core.prediction.eviction.MOST_BYTES", len(LITE) + 1)
    for number in (1, 2, 1):
        assert ask(f"/v1/models/twice/versions/{number}:predict", {"instances": [[1, 2]]})[0] == 200
    monkeypatch.setattr("lambdas.core.prediction.choice.MOST_BYTES", 1000)
    code, answer, _ = ask("/v1/models/twice/versions/2:predict", {"instances": [[1, 2]]})
    assert (code, "keeps at most" in answer["error"]) == (507, True)


TRIED = Canary(version=2, percent=30, started=AT, until=AT, by="ann", request="model-twice-1")


def answered(key: str | None = None, rows: Any = ((1, 2),), path: str = "") -> str:
    return ask(f"/v1/models/twice{path}:predict", {"instances": rows}, key=key)[2]["X-Trainyard-Version"]


def test_a_canary_answers_its_share_of_the_keys_and_always_the_same_ones(registry: Registry) -> None:
    registry.model(default=1, canary=TRIED)
    found = [answered(f"customer {number}") for number in range(200)]
    assert 40 <= found.count("2") <= 80
    assert found == [answered(f"customer {number}") for number in range(200)]
    by_body = [answered(rows=[[number, 0]]) for number in range(100)]
    assert {"1", "2"} == set(by_body)
    assert {answered(f"customer {number}", path="/versions/1") for number in range(20)} == {"1"}


def test_each_answer_and_each_failure_is_counted_by_model_and_version(registry: Registry, log: Log) -> None:
    answered()
    assert ask("/v1/models/twice/versions/2:predict", {"instances": [[1]]})[0] == 400
    ask("/v1/models/twice", method="GET")
    lines = [line for line in log.lines() if "_aws" in line]
    assert [
        (line["model"], line["version"], line["Predictions"], line["Errors"], "Disagreed" in line)
        for line in lines
    ] == [("twice", "1", [1.0], [0.0], False), ("twice", "2", [1.0], [1.0], False)]
    (directive,) = lines[0]["_aws"]["CloudWatchMetrics"]
    assert {*directive["Dimensions"][0]} == {"service", "model", "version"}
    assert {each["Name"]: each["Unit"] for each in directive["Metrics"]}["Milliseconds"] == "Milliseconds"


@pytest.mark.parametrize(
    ("how", "errors", "disagreed"), [(Conversion.WHOLE, [0.0], [0.0]), (Conversion.NONE, [1.0], None)]
)
def test_a_shadow_is_counted_and_never_answers(
    registry: Registry, log: Log, how: Conversion, errors: list[float], disagreed: list[float] | None
) -> None:
    registry.version(2, how=how)
    registry.model(default=1, shadow=replace(TRIED, percent=100))
    assert answered() == "1"
    own, shadow = (line for line in log.lines() if "_aws" in line)
    assert (own["version"], shadow["version"]) == ("1", "2")
    assert (shadow["Errors"], shadow.get("Disagreed")) == (errors, disagreed)


def test_a_shadow_with_another_answer_disagrees(
    registry: Registry, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.model(default=1, shadow=replace(TRIED, percent=100))
    answered()
    loaded = next(iter(predict.predictions_of("bucket", "ledger")._loaded.values()))
    assert loaded.row.number == 1
    monkeypatch.setattr(loaded.lite, "answer", lambda *_: {"y": [[2.0, 5.0]]})
    log.lines()
    assert answered() == "1"
    *_, shadow = (line for line in log.lines() if "_aws" in line)
    assert shadow["Disagreed"] == [1.0]


def test_a_path_without_a_colon_means_the_same(registry: Registry) -> None:
    assert ask("/v1/models/twice/predict", {"instances": [[1, 2]]})[1] == {"predictions": [[2, 4]]}
    assert ask("/v1/models/twice/versions/2/predict", {"instances": [[1, 2]]})[0] == 200


def test_an_answer_explains_itself_if_asked(registry: Registry) -> None:
    registry.model(default=1, canary=replace(TRIED, percent=100))
    event = event_of("POST", "/v1/models/twice:predict", '{"instances": [[1, 2], [3, 4]]}')
    assert "X-Trainyard-Explain" not in predict.handler(event, CONTEXT)["headers"]
    predict.predictions_of.cache_clear()
    explained = event | {"headers": {"x-trainyard-explain": "true"}}
    found = json.loads(predict.handler(explained, CONTEXT)["headers"]["X-Trainyard-Explain"])
    assert found.pop("milliseconds") > 0
    assert found == {
        "version": 2,
        "label": "v2",
        "canary": True,
        "signature": "serving_default",
        "inputs": {"x": "float32, shape (2, 2)"},
        "loaded": True,
    }
    assert not json.loads(predict.handler(explained, CONTEXT)["headers"]["X-Trainyard-Explain"])["loaded"]
