"""The program that serves a version: answers by gRPC and REST, refusals, and its end."""

import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from training.programs.serving import grpc_services
from training.programs.serving.idle import Idle
from trainyard.protocol.export import GOLDEN, RECORD, SignatureTypes, TensorType
from trainyard.protocol.serving import REFUSAL, REFUSED, refusal_in
from trainyard.runtime import exports

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0
"""The longest wait of a client, which a loaded machine may need."""


def save_parser(folder: Path) -> Path:
    """Save a model that LiteRT cannot run, because it parses tf.Example."""
    module = tf.Module()
    module.weight = tf.Variable(2.5)

    def parse(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        wanted = {"x": tf.io.FixedLenFeature((2,), tf.float32, default_value=(1.0, 2.0))}
        x = tf.io.parse_example(examples, wanted)["x"]
        return {"doubled": x * module.weight, "sum": tf.reduce_sum(x, axis=1)}

    traced = tf.function(parse).get_concrete_function(tf.TensorSpec((None,), tf.string, "examples"))
    tf.saved_model.save(module, str(folder), signatures={"serving_default": traced})
    record = exports.complete(folder)
    assert record.lite
    assert record.lite.how == "none"
    return folder


def example(*values: float) -> bytes:
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
    features = tf.train.Features(feature={"x": feature})
    return bytes(tf.train.Example(features=features).SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_parser(tmp_path_factory.mktemp("parser") / "model")


class Serving:
    """A running server with its ports and lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self.ports: dict[str, int] = {}
        assert process.stdout
        for line in process.stdout:
            self.lines.append(line.strip())
            kind, _, address = line.partition(": ")
            if kind in ("REST", "gRPC"):
                self.ports[kind] = int(address.split("/v1")[0].rpartition(":")[2])
            if kind == "gRPC":
                return
        raise AssertionError(self.lines)

    def ask(self, path: str, document: object = None) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.ports['REST']}{path}"
        data = None if document is None else json.dumps(document).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data), timeout=SECONDS) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    def rest(self) -> list[str]:
        assert self.process.stdout
        return [line.strip() for line in self.process.stdout]


def start(folder: Path, scratch: Path, *words: str) -> "subprocess.Popen[str]":
    line = [sys.executable, "-m", "training.programs.serve", "--model", "parser", "--version", "3", *words]
    environment = os.environ | {
        "TRAINYARD_DATA_MODEL": str(folder),
        "TRAINYARD_PROGRESS": str(scratch / "progress.jsonl"),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
    ports = ("--rest-port", "0", "--grpc-port", "0")
    return subprocess.Popen(
        [*line, *ports],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",  # TensorFlow's log quotes bytes
    )


@contextmanager
def served(folder: Path, scratch: Path, *words: str) -> Iterator[Serving]:
    process = start(folder, scratch, *words)
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def serving(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(
        folder, tmp_path_factory.mktemp("serving"), "--label", "v3", "--idle-seconds", "900"
    ) as found:
        yield found


def expected(folder: Path, *examples: bytes) -> dict[str, Any]:
    """Return the answers of tf.saved_model.load."""
    function = tf.saved_model.load(str(folder)).signatures["serving_default"]
    return {name: value.numpy() for name, value in function(examples=tf.constant(examples)).items()}


def test_a_stock_client_gets_tensorflows_numbers_by_grpc(serving: Serving, folder: Path) -> None:
    examples = (example(1.5, -3.25), example(0.1, 0.2))
    with grpc.insecure_channel(f"127.0.0.1:{serving.ports['gRPC']}") as channel:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "parser"
        request.model_spec.signature_name = "serving_default"
        request.inputs["examples"].CopyFrom(tf.make_tensor_proto(examples))
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(request, timeout=SECONDS)
        for name, value in expected(folder, *examples).items():
            np.testing.assert_array_equal(tf.make_ndarray(answer.outputs[name]), value)
        assert (answer.model_spec.name, answer.model_spec.version.value) == ("parser", 3)
        request.output_filter.append("sum")
        assert [*stub.Predict(request, timeout=SECONDS).outputs] == ["sum"]

        asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        asked.model_spec.name = "parser"
        found = get_model_metadata_pb2.SignatureDefMap()
        stub.GetModelMetadata(asked, timeout=SECONDS).metadata["signature_def"].Unpack(found)
        assert "examples" in found.signature_def["serving_default"].inputs

        states = model_service_pb2_grpc.ModelServiceStub(channel)
        state = get_model_status_pb2.GetModelStatusRequest()
        state.model_spec.name = "parser"
        (only,) = states.GetModelStatus(state, timeout=SECONDS).model_version_status
        assert (only.version, only.state) == (3, get_model_status_pb2.ModelVersionStatus.AVAILABLE)


@pytest.mark.parametrize(
    ("spec", "inputs", "code", "said"),
    [
        ({"name": "other"}, {}, grpc.StatusCode.NOT_FOUND, "this host serves parser, and not other"),
        ({"version": 4}, {}, grpc.StatusCode.NOT_FOUND, "serves version 3 (v3) of parser, and not 4"),
        ({"version_label": "v2"}, {}, grpc.StatusCode.NOT_FOUND, "and not v2"),
        ({"signature_name": "x"}, {}, grpc.StatusCode.NOT_FOUND, "no signature x; there are serving_default"),
        ({}, {}, grpc.StatusCode.INVALID_ARGUMENT, "inputs: missing examples"),
        ({}, {"example": [b""]}, grpc.StatusCode.INVALID_ARGUMENT, 'did you mean "examples"?'),
        (
            {},
            {"examples": [1.0]},
            grpc.StatusCode.INVALID_ARGUMENT,
            "found float32, shape (1,); wanted string",
        ),
        ({}, {"examples": [b"\xff\xff"]}, grpc.StatusCode.INVALID_ARGUMENT, "the model refused the values"),
    ],
)
def test_a_refusal_by_grpc_names_what_is_wanted(
    serving: Serving, spec: dict[str, Any], inputs: dict[str, Any], code: grpc.StatusCode, said: str
) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = spec.get("name", "parser")
    request.model_spec.signature_name = spec.get("signature_name", "")
    if "version" in spec:
        request.model_spec.version.value = spec["version"]
    if "version_label" in spec:
        request.model_spec.version_label = spec["version_label"]
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    with grpc.insecure_channel(f"127.0.0.1:{serving.ports['gRPC']}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.Predict(request, timeout=SECONDS)
    assert (refused.value.code(), said in refused.value.details()) == (code, True), refused.value.details()


def test_rest_has_the_paths_and_sentences_of_predict(serving: Serving, folder: Path) -> None:
    examples = (example(1.5, -3.25), example(0.1, 0.2))
    rows = [{"b64": base64.b64encode(each).decode()} for each in examples]
    status, found = serving.ask("/v1/models/parser:predict", {"instances": rows})
    wanted = expected(folder, *examples)
    assert status == 200
    assert [row["sum"] for row in found["predictions"]] == [float(each) for each in wanted["sum"]]
    assert [row["doubled"] for row in found["predictions"]] == wanted["doubled"].tolist()
    for path, code in (
        ("/v1/models/parser", 200),
        ("/v1/models/parser/versions/3/metadata", 200),
        ("/v1/models/parser/labels/v3", 200),
        ("/v2/health/ready", 200),
        ("/v2/models/parser/ready", 200),
        ("/v1/models/parser/versions/4", 404),
        ("/v1/models/other", 404),
        ("/", 404),
    ):
        assert serving.ask(path)[0] == code, path
    status, found = serving.ask("/v1/models/parser:predict", {"instances": [1]})
    said = 'instances[0]: found 1; wanted a text, or {"b64": ...} for bytes (string, shape (any,))'
    line = "trainyard request parser makes such a request"
    assert (status, found["error"]) == (400, f"parser 3, serving_default, {said}. {line}")
    status, found = serving.ask("/v1/models/parser:predict", {"instances": [{"b64": "//8="}]})
    assert (status, "the model refused the values" in found["error"]) == (400, True), found


def test_it_ends_with_0_after_the_idle_time(folder: Path, tmp_path: Path) -> None:
    with served(folder, tmp_path, "--idle-seconds", "3") as found:
        assert found.ask("/v1/models/parser:predict", {"instances": [""]})[0] == 200
        assert found.ask("/v1/models/parser:predict", {"instances": []})[0] == 400
        lines = found.rest()
        assert found.process.wait(SECONDS) == 0
    assert lines[-1] == "1 prediction answered in all"
    steps = [json.loads(line)["step"] for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert steps[0] == 1


def copy_with(folder: Path, target: Path, name: str, change: Any) -> Path:
    """Copy a version and change a JSON file, with its digest in the record."""
    subprocess.run(["cp", "-r", folder, target], check=True)
    path = target / name
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return target


def refusal_of(folder: Path, scratch: Path, *words: str) -> str:
    process = start(folder, scratch, *words)
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == REFUSED, said
    assert "Traceback" not in said
    assert said.strip().splitlines()[-1].startswith(REFUSAL)
    return refusal_in(process.returncode, said) or ""


def test_a_version_whose_answers_differ_from_its_golden_rows_is_not_served(
    folder: Path, tmp_path: Path
) -> None:
    def change(golden: dict[str, Any]) -> None:
        golden["signatures"]["serving_default"]["tensorflow"]["sum"][2] = 4.0

    wrong = copy_with(folder, tmp_path / "wrong", GOLDEN, change)
    said = refusal_of(wrong, tmp_path)
    assert said == f"version 3 of parser: {GOLDEN} was changed after the export; make a new version"
    copy_with(wrong, tmp_path / "again", RECORD, lambda record: record["digests"].pop(GOLDEN))
    said = refusal_of(tmp_path / "again", tmp_path)
    assert said == (
        "version 3 of parser differs from TensorFlow's answers at its export: serving_default, row 2, sum: found 3, "
        "expected 4"
    )
    said = refusal_of(folder, tmp_path, "--record", "0" * 64)
    assert said == f"version 3 of parser: {RECORD} was changed after the version was made; make a new version"


def test_only_answers_extend_the_idle_time() -> None:
    now = 100.0
    idle = Idle(60.0, lambda: now)
    assert (idle.left, idle.count) == (60.0, 0)
    now = 150.0
    before = idle.sentence
    idle.add()
    assert (idle.left, idle.count) == (60.0, 1)
    assert before == "0 predictions answered, the last one 50s ago; the host ends in 10s without another one"
    now = 300.0
    assert idle.left == 0


@pytest.mark.parametrize(
    ("shape", "fits"), [((3, 4), True), ((3, 5), False), ((3,), False), ((3, 4, 1), False)]
)
def test_an_array_must_have_the_shape_of_the_signature(shape: tuple[int, ...], fits: bool) -> None:
    types = SignatureTypes(inputs={"x": TensorType(dtype="float32", shape=(None, 4))}, outputs={})
    found = grpc_services.find_fault({"x": np.zeros(shape, np.float32)}, types)
    assert (found is None) == fits
