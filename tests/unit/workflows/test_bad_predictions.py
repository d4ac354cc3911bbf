"""Every unusable request has its own sentence, without a stack trace: by the function, and by the command."""

import io
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from lambdas.aws.dynamodb.write import Write
from lambdas.workflows import predict
from tests.support.recorded import CONTEXT
from tests.unit.workflows.conftest import Place
from trainyard.client import predictions
from trainyard.client.deployment import Deployment
from trainyard.client.errors import FileUnreadable, NotPredicted
from trainyard.protocol.export import Conversion, SignatureTypes, TensorType
from trainyard.protocol.ledger import models
from trainyard.protocol.ledger.models import ModelRow, VersionRow, VersionState
from trainyard.protocol.predictions import event_of
from trainyard.values import serialization
from trainyard.values.serialization import parse_timestamp

AT = parse_timestamp("2026-11-29T00:00:00Z")
TYPES = SignatureTypes(
    inputs={
        "image": TensorType(dtype="float32", shape=(None, 3)),
        "count": TensorType(dtype="int8", shape=(None,)),
        "name": TensorType(dtype="string", shape=(None,)),
    },
    outputs={"y": TensorType(dtype="float32", shape=(None,))},
)


def row(image: Any = (1, 2, 3), count: Any = 1, name: Any = "a", **more: Any) -> dict[str, Any]:
    return {"image": image, "count": count, "name": name, **more}


def rows(*given: Any, **more: Any) -> str:
    return json.dumps({"instances": given, **more})


REQUESTS = {
    "empty": ("", "is empty"),
    "not JSON": ('{"instances": [\n[1, 2,, 3]]}', "line 2, column 7"),
    "a line that is not JSON": ('[1, 2, 3]\n[1, 2', "line 2, column"),
    "instances as an object": ('{"instances": {}}', "instances: found an object with no keys; wanted a list of rows"),
    "no instances": (rows(), "instances: found an empty list; wanted a list of rows"),
    "both": (rows(row(), inputs={}), "both instances and inputs; wanted one of them"),
    "ragged": (rows(row(), row(image=[1, 2])), "instances[1].image: found a list of 2 numbers; wanted 3"),
    "another length": (rows(row(image=[0] * 7)), "instances[0].image: found a list of 7 numbers; wanted 3"),
    "text for a number": (rows(row(image=[1, "2", 3])), 'instances[0].image[1]: found the text "2"; wanted a number'),
    "a number for text": (rows(row(name=5)), "instances[0].name: found 5; wanted a text"),
    "a key too many": (rows(row(imag=1)), '"imag"; wanted image, count, name; did you mean "image"?'),
    "a key too few": (rows({"image": [1, 2, 3], "count": 1}), "instances[0]: missing name; wanted image, count, name"),
    "invalid b64": (rows(row(name={"b64": "?"})), 'instances[0].name.b64: found the text "?"; wanted base64'),
    "NaN": ('{"instances": [{"image": [NaN, 1, 2], "count": 1, "name": "a"}]}', "NaN; wanted finite numbers"),
    "1e400": ('{"instances": [{"image": [1e400, 1, 2], "count": 1, "name": "a"}]}', "finite number"),
    "float for int": (rows(row(count=1.5)), "instances[0].count: found 1.5; wanted an integer"),
    "int out of range": (rows(row(count=128)), "instances[0].count: found 128; wanted an integer from -128 to 127"),
    "unknown signature": (rows(row(), signature_name="serve"), "no signature serve; there are serving_default"),
    "too large": (rows("x" * 6_400_000), "6.1 MiB"),
    "too deep": ("[" * 10_000 + "]" * 10_000, "too deep"),
}  # fmt: skip
PATHS = {
    "an unknown model": ("/v1/models/digit:predict", 404, 'no model digit; it has digits; did you mean "digits"?'),
    "an unknown version": ("/v1/models/digits/versions/9:predict", 404, "digits has no version 9; there are 1 (v1)"),
    "an unknown alias": ("/v1/models/digits/labels/best:predict", 404, "digits has no alias best; there are default"),
    "a version in the making": ("/v1/models/digits/versions/2:predict", 409, "version 2 (v2) of digits is making"),
    "another verb": ("/v1/models/digits:regress", 400, ":regress works only with tensorflow_model_server"),
    "another path": ("/v3/models/digits", 404, "found the path /v3/models/digits; wanted one of"),
}  # fmt: skip


class Lambda:
    """The client of AWS Lambda, which calls the function in this process."""

    def client(self, service: str) -> "Lambda":
        assert service == "lambda"
        return self

    def invoke(self, **given: Any) -> dict[str, Any]:
        assert given["FunctionName"] == "trainyard-predict"
        answer = predict.handler(json.loads(given["Payload"]), CONTEXT)
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


class Yard:
    name, session = "Trainyard", Lambda()


@pytest.fixture(autouse=True)
def digits(place: Place) -> Iterator[None]:
    predict.predictions_of.cache_clear()
    row = ModelRow(name="digits", owner="ann", created=AT, request="r", aliases={"default": 1})
    versions = [
        VersionRow(
            number=number,
            label=f"v{number}",
            state=state,
            by="ann",
            at=AT,
            request="r",
            origin="o",
            lite=Conversion.WHOLE,
            signatures={"serving_default": TYPES},
        )
        for number, state in ((1, VersionState.READY), (2, VersionState.MAKING))
    ]
    partition = models.partition("digits")
    place.ledger.write(
        Write(models.MODELS, "digits", {"owner": "ann"}),
        Write(partition, models.MODEL, written(row)),
        *(Write(partition, models.version_key(each.number), written(each)) for each in versions),
    )
    yield
    predict.predictions_of.cache_clear()


def written(row: object) -> dict[str, Any]:
    return {name: value for name, value in serialization.to_json(row).items() if value is not None}


def check(said: str, wanted: str) -> None:
    assert wanted in said
    assert len(said) < 500, "a sentence, however long the request is"
    for word in ("Traceback", "Error(", "Exception", ".py"):
        assert word not in said


@pytest.mark.parametrize(("text", "wanted"), REQUESTS.values(), ids=list(REQUESTS))
def test_the_function_refuses_the_request_with_a_sentence(text: str, wanted: str) -> None:
    answer = predict.handler(event_of("POST", "/v1/models/digits:predict", text), CONTEXT)
    assert 400 <= answer["statusCode"] < 500
    found = json.loads(answer["body"])
    assert found.keys() == {"error"}
    if "\n[1, 2" not in text or text.startswith("{"):  # the function reads one document, not lines
        check(found["error"], wanted)


@pytest.mark.parametrize(("path", "status", "wanted"), PATHS.values(), ids=list(PATHS))
def test_the_function_refuses_the_path_with_a_sentence(path: str, status: int, wanted: str) -> None:
    answer = predict.handler(event_of("POST", path, rows(row())), CONTEXT)
    assert answer["statusCode"] == status
    check(json.loads(answer["body"])["error"], wanted)


@pytest.mark.parametrize(("text", "wanted"), REQUESTS.values(), ids=list(REQUESTS))
def test_the_command_refuses_the_file_with_a_sentence_and_a_next_step(text: str, wanted: str) -> None:
    with pytest.raises((FileUnreadable, NotPredicted)) as refused:
        predictions.send(cast(Deployment, Yard()), "digits", predictions.read_instances("request.json", text))
    check(str(refused.value), wanted)
    assert refused.value.next_step
