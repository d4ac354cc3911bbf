"""Paths, refusals and answers of predictions, evicted versions, and the comparison of golden rows."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.prediction import choice
from lambdas.core.prediction.eviction import Kept, choose_evicted
from trainyard.core.prediction import answers, http, responses, routes
from trainyard.core.prediction.agreement import find_difference
from trainyard.core.prediction.http import HttpRequest, RefusedError
from trainyard.core.prediction.routes import Act, Route
from trainyard.core.prediction.tensors import FaultError
from trainyard.protocol.export import Conversion, SignatureTypes, TensorType
from trainyard.protocol.ledger.models import ModelRow, VersionRow, VersionState

NOW = datetime(2026, 11, 29, tzinfo=UTC)
TYPES = SignatureTypes(inputs={}, outputs={"y": TensorType(dtype="float32", shape=(None, 2))})


def version(state: VersionState) -> VersionRow:
    return VersionRow(
        number=3, label="v3", state=state, by="ann", at=NOW, request="r", origin="o", reason="it differs"
    )


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("POST", "/v1/models/digits:predict", Route(act=Act.PREDICT, model="digits")),
        ("POST", "/v1/models/digits/versions/3:predict", Route(act=Act.PREDICT, model="digits", version="3")),
        ("POST", "/v1/models/digits/labels/best:predict", Route(act=Act.PREDICT, model="digits", alias="best")),
        ("GET", "/v1/models/digits", Route(act=Act.STATUS, model="digits")),
        ("GET", "/v1/models/digits/versions/3/metadata", Route(act=Act.METADATA, model="digits", version="3")),
        ("POST", "/v2/models/digits/versions/3/infer", Route(act=Act.INFER, model="digits", version="3")),
        ("GET", "/v2/models/digits/ready", Route(act=Act.READY, model="digits")),
        ("GET", "/v2/models/digits", Route(act=Act.DESCRIBE, model="digits")),
        ("GET", "/v2/health/ready", Route(act=Act.HEALTH)),
    ],
)  # fmt: skip
def test_a_path_names_an_act_and_a_version(method: str, path: str, found: Route) -> None:
    assert routes.route_of(HttpRequest(method=method, path=path)) == found


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("POST", "/v1/models/digits:classify", 400, "use :predict"),
        ("POST", "/v1/models/digits:regress", 400, "use :predict"),
        ("POST", "/v1/models/digits:guess", 404, "found :guess"),
        ("GET", "/v1/models/digits:predict", 400, "found GET; wanted POST"),
        ("POST", "/v1/models/digits/metadata", 400, "found POST; wanted GET"),
        ("GET", "/", 404, "/v1/models/MODEL"),
        ("GET", "/v3/models/digits", 404, "/v1/models/MODEL"),
    ],
)
def test_another_path_is_refused_with_those_that_exist(
    method: str, path: str, status: int, said: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        routes.route_of(HttpRequest(method=method, path=path))
    assert (refused.value.status, said in str(refused.value)) == (status, True)


def test_a_request_of_6_1_megabytes_is_too_large_in_either_encoding() -> None:
    text = " " * 6_100_000 + " " * 200_000
    for given, is_encoded in ((text, False), (base64.b64encode(text.encode()).decode(), True)):
        with pytest.raises(RefusedError) as refused:
            http.request_of("POST", "/", given, is_encoded=is_encoded)
        assert refused.value.status == 413


@pytest.mark.parametrize("encoded", ["no base64!", base64.b64encode(b"\xff\xfe").decode()])
def test_bytes_that_are_no_text_are_refused(encoded: str) -> None:
    with pytest.raises(RefusedError) as refused:
        http.request_of("POST", "/", encoded, is_encoded=True)
    assert refused.value.status == 400


def test_an_answer_names_its_version_and_one_over_6_mb_is_refused() -> None:
    found = http.answer({"predictions": [1]}, version=3)
    assert (found["statusCode"], found["headers"]["X-Trainyard-Version"]) == (200, "3")
    large = http.answer({"predictions": ["a" * 7_000_000]}, version=3)
    assert large["statusCode"] == 413
    assert "fewer rows" in json.loads(large["body"])["error"]


MODEL = ModelRow(name="digits", owner="ann", created=NOW, request="r", aliases={"best": 2})


@pytest.mark.parametrize(
    ("refuse", "status", "said"),
    [
        (lambda: choice.number_of(MODEL, "default"), 404, "trainyard versions set-default VERSION --model digits"),
        (lambda: choice.number_of(MODEL, "worst"), 404, "digits has no alias worst; there are best"),
        (lambda: choice.check_ready("digits", version(VersionState.MAKING)), 409, "is making"),
        (lambda: choice.check_ready("digits", version(VersionState.REFUSED)), 409, "is refused: it differs"),
        (lambda: choice.check_ready("digits", version(VersionState.RETIRED)), 409, "is retired"),
        (lambda: choice.check_runs_here("digits", 3, Conversion.NONE, "LiteRT lacks X"), 503, "LiteRT lacks X"),
        (lambda: choice.check_memory("digits", 3, 700 << 20), 507, "has 700 MiB, and predict keeps at most 600"),
    ],
)  # fmt: skip
def test_a_version_that_cannot_answer_is_refused(refuse: Any, status: int, said: str) -> None:
    with pytest.raises(RefusedError) as refused:
        refuse()
    assert (refused.value.status, said in str(refused.value)) == (status, True), str(refused.value)


def test_what_does_not_exist_is_refused_with_what_exists() -> None:
    ready = version(VersionState.READY)
    for refused, said in (
        (
            choice.unknown_model("digit", ["digits", "text"]),
            'it has digits, text; did you mean "digits"?',
        ),
        (choice.unknown_version("digits", "9", [ready]), "digits has no version 9; there are 3 (v3)"),
        (responses.unknown_signature("digits", 3, "clasify", {"classify": 1}), 'did you mean "classify"?'),
    ):
        assert (refused.status, said in str(refused)) == (404, True), str(refused)


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        ({"y": [[1, 2], [3, 4]]}, {"predictions": [[1, 2], [3, 4]]}),
        ({"y": [1, 2], "z": [3, 4]}, {"predictions": [{"y": 1, "z": 3}, {"y": 2, "z": 4}]}),
    ],
)
def test_rows_are_answered_by_rows(outputs: dict[str, Any], found: dict[str, Any]) -> None:
    assert answers.by_rows(outputs, 2) == found


def test_an_output_without_rows_is_refused_for_rows_and_answered_for_columns() -> None:
    with pytest.raises(FaultError, match="y has no rows"):
        answers.by_rows({"y": 3}, 2)
    assert answers.by_columns({"y": 3}) == {"outputs": 3}
    assert answers.by_columns({"y": 3, "z": 4}) == {"outputs": {"y": 3, "z": 4}}


def test_tensors_of_v2_are_flat() -> None:
    found = answers.of_v2("digits", 3, {"id": "a"}, {"y": [[1, 2], [3, 4]]}, TYPES)
    tensor = {"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}
    assert found == {"model_name": "digits", "model_version": "3", "id": "a", "outputs": [tensor]}
    with pytest.raises(FaultError, match="found 'x'; wanted y"):
        answers.of_v2("digits", 3, {"outputs": [{"name": "x"}]}, {"y": [[1, 2]]}, TYPES)


@pytest.mark.parametrize(
    ("sizes", "size", "evicted"),
    [((), 100, []), ((100, 200), 200, []), ((100, 400), 200, [0]), ((100, 200, 300), 400, [0, 1, 2])],
)
def test_the_least_recently_used_versions_leave(
    sizes: tuple[int, ...], size: int, evicted: list[int]
) -> None:
    kept = {("digits", number): Kept(each << 20, float(number)) for number, each in enumerate(sizes)}
    assert [number for _, number in choose_evicted(kept, size << 20)] == evicted


@pytest.mark.parametrize(
    ("sentence", "expected", "actual", "said"),
    [
        ("equal", {"y": [[0.1, 0.9]]}, {"y": [[0.1, 0.9]]}, None),
        ("within 1e-4", {"y": [[0.1, 0.9]]}, {"y": [[0.10001, 0.90001]]}, None),
        ("small numbers beside a large one", {"y": [[1e-9, 1.0]]}, {"y": [[3e-9, 1.0]]}, None),
        ("zeros", {"y": [[0.0, 0.0]]}, {"y": [[1e-9, 0.0]]}, None),
        ("another value", {"y": [[0.1, 0.9], [0.5, 0.5]]}, {"y": [[0.1, 0.9], [0.5, 0.6]]}, "row 1, y: found 0.6"),
        ("another best class", {"y": [[1.0, 0.99985]]}, {"y": [[0.99992, 0.99994]]}, "the largest value is at 1"),
        ("NaN", {"y": [[0.1]]}, {"y": [[float("nan")]]}, "found nan"),
        ("another integer", {"y": [[3, 1]]}, {"y": [[1, 3]]}, "found 1, expected 3"),
        ("a ranking with equal scores", {"y": [[3, 1, 2]]}, {"y": [[3, 2, 1]]}, None),
        ("a class too few", {"y": [[3, 1, 2]]}, {"y": [[3, 1, 1]]}, "found 1, expected 2"),
        ("a scalar", {"y": 2.0}, {"y": 3.0}, "row 0, y: found 3"),
        ("fewer rows", {"y": [[1.0], [2.0]]}, {"y": [[1.0]]}, "y: found 1 row, expected 2"),
        ("shorter rows", {"y": [[1.0, 2.0]]}, {"y": [[1.0]]}, "found 1 value, expected 2"),
        ("another output", {"y": [1.0]}, {"z": [1.0]}, "found the outputs z; expected y"),
    ],
)  # fmt: skip
def test_answers_agree_or_the_first_difference_is_named(
    sentence: str, expected: dict[str, Any], actual: dict[str, Any], said: str | None
) -> None:
    found = find_difference(expected, actual)
    assert (found is None) if said is None else (found is not None and said in found), (sentence, found)
