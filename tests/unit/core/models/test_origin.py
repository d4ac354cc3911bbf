"""Origins of versions: each case is a folder or a run, and the words of its refusal."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.models import origin
from trainyard.core.model import saved_model
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.export import ExportRecord
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.ledger.study import Search

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
GOOD = {"saved_model.pb": 1000, "trainyard.json": 200, "variables/variables.index": 10}


@pytest.mark.parametrize(
    ("text", "prefix", "run"),
    [
        ("digits-0a1b2c3d", "", "digits-0a1b2c3d"),
        ("s3://bucket/runs/digits-1/model/", "runs/digits-1/model/", "digits-1"),
        ("s3://bucket/runs/digits-1/outputs/export/1", "runs/digits-1/outputs/export/1/", "digits-1"),
        ("s3://bucket/data/by/ada/exports/x", "data/by/ada/exports/x/", None),
    ],
)
def test_an_origin_is_a_run_or_a_folder(text: str, prefix: str, run: str | None) -> None:
    found = origin.parse(text, "bucket")
    assert (found.prefix, found.run) == (prefix, run)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("https://example.com/model", "is not an S3 URI"),
        (
            "s3://other/models/digits",
            "copy it to the yard's first: aws s3 sync s3://other/models/digits/ s3://bucket/data/",
        ),
        ("s3://bucket/data/../runs/x/model/", "has an empty, . or .. part"),
        ("s3://bucket/data//x/", "has an empty, . or .. part"),
        ("s3://bucket/", "has an empty, . or .. part"),
        ("s3://bucket/models/digits/1/", "is not below runs/ or data/"),
        ("s3://bucket/data/", "is not below runs/ or data/"),
        ("s3://bucket/runs/digits-1/checkpoints/", "name runs/digits-1/model/"),
        ("s3://bucket/runs/digits-1/", "name runs/digits-1/model/"),
    ],
)
def test_a_folder_that_versions_are_not_copied_from_is_refused(text: str, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        origin.parse(text, "bucket")
    assert words in refused.value.reason


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "has no files"),
        ({"ckpt-1.index": 1, "ckpt-1.data-00000-of-00001": 9}, "ckpt-1.index is a checkpoint"),
        ({"model.keras": 1}, "model.keras is a Keras file; load it with keras.models.load_model"),
        ({"weights.h5": 1}, "weights.h5 is an HDF5 file"),
        ({"frozen.pb": 1}, "frozen.pb is a frozen graph of TensorFlow 1"),
        ({"model.onnx": 1}, "model.onnx is an ONNX file"),
        ({"1/saved_model.pb": 1}, "name the folder that has one: 1/"),
        ({"readme.txt": 1}, "it has readme.txt;"),
        (GOOD | {"a/../b": 1}, "has a file with an empty, . or .. part"),
        (GOOD | {"variables/big": 6_000_000_000}, "has 6.0 GB; a version has at most 5 GB"),
        (GOOD | {f"assets/{n}": 1 for n in range(1000)}, "has 1003 files; a version has at most 1000"),
    ],
)
def test_a_folder_without_a_usable_saved_model_is_refused(files: dict[str, int], words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        saved_model.check_files("s3://bucket/data/x/", files)
    assert words in refused.value.reason


def test_a_saved_model_with_its_record_can_be_copied() -> None:
    saved_model.check_files("s3://bucket/data/x/", GOOD)


def run(**values: Any) -> RunRow:
    known: dict[str, Any] = {
        "run": "digits-1",
        "kind": "train",
        "state": "Conclude",
        "attempt": 1,
        "created": NOW,
        "execution_arn": "arn",
        "outcome": Outcome.SUCCEEDED,
        "ended": NOW,
    }
    return RunRow(**known | values)


def search(best: int | None, retrained: int | None = None) -> Search:
    return Search(
        metric="accuracy",
        trials=2,
        reported=2,
        running=0,
        dollars=0.0,
        most_dollars=1.0,
        best=best,
        retrained=retrained,
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (None, "the yard has no run digits-1"),
        (run(kind="bake"), "is a bake and leaves no model"),
        (run(ended=None), "has not ended"),
        (run(outcome=Outcome.FAILED), "ended as failed, so its model may be incomplete"),
        (run(outcome=Outcome.STOPPED), "ended as stopped"),
        (run(kind="study", search=search(None)), "is a study without a complete trial"),
    ],
)
def test_a_run_that_left_no_whole_model_is_refused(row: RunRow | None, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        origin.check_run(row, "digits-1")
    assert words in refused.value.reason


def test_the_model_of_a_study_is_the_one_of_its_best_trial() -> None:
    study = run(run="digits-1", kind="study", search=search(2))
    assert origin.find_winner(origin.check_run(study, "digits-1")) == "digits-1-0002-trial"
    assert origin.find_winner(run()) is None


def test_the_model_of_a_study_that_retrains_its_best_trial_is_the_one_of_the_retraining() -> None:
    study = run(run="digits-1", kind="study", search=search(2, retrained=3))
    assert origin.find_winner(study) == "digits-1-0003-trial"


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([], "has left no SavedModel: it has no files"),
        (["weights.h5"], "weights.h5 is an HDF5 file"),
        (
            ["a/saved_model.pb", "b/saved_model.pb"],
            "has 2 models; name one of them: s3://bucket/runs/digits-1/outputs/a/",
        ),
    ],
)
def test_a_run_without_exactly_one_model_is_refused_with_what_it_has(paths: list[str], words: str) -> None:
    folders = origin.find_saved_models(paths)
    outputs = "s3://bucket/runs/digits-1/outputs/"
    assert words in origin.describe_no_model("digits-1", outputs, folders, paths)


def test_models_of_other_hosts_and_attempts_are_no_origin() -> None:
    paths = ["@worker-1/export/saved_model.pb", "export/saved_model.pb", "saved_model.pb"]
    assert origin.find_saved_models(paths) == ["", "export/"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[]", "is malformed"),
        (b'{"tensorflow": "2.21.0"}', "signatures"),
        (b'{"tensorflow": "2.21.0", "signatures": {}}', "has no signatures"),
    ],
)
def test_a_record_that_names_no_signature_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        origin.read_record("s3://bucket/data/x/", text)
    assert words in refused.value.reason


@pytest.mark.parametrize(
    ("manifest", "changed"),
    [
        ({"a": "1", "b": "2", "trainyard.json": "9"}, ()),
        ({"a": "1", "b": "3"}, ("b",)),
        ({"a": "1"}, ("b",)),
        ({"a": "1", "b": "2", "c": "3"}, ("c",)),
    ],
)
def test_files_that_differ_from_the_export_are_found(
    manifest: dict[str, str], changed: tuple[str, ...]
) -> None:
    record = ExportRecord(tensorflow="2.21.0", signatures={}, digests={"a": "1", "b": "2"})
    assert origin.find_changed(record, manifest) == changed
    assert origin.find_changed(ExportRecord(tensorflow="2.21.0", signatures={}), manifest) == ()


def test_a_version_names_the_run_with_its_job_program_data_and_study() -> None:
    job = {
        "name": "digits",
        "program": {"module": "m"},
        "data": {"images": {"source": "s3://bucket/data/x/"}},
    }
    trial = {"study": "digits-1", "number": 2, "submitter": "ada"}
    from trainyard.values import serialization

    row = serialization.from_json(
        RunRow,
        json.loads(json.dumps(serialization.to_json(run()) | {"job": job, "trial": trial, "name": "digits"})),
    )
    found = origin.lineage(row)
    assert found == {
        "run": "digits-1",
        "job": "digits",
        "study": "digits-1",
        "trial": 2,
        "image": None,
        "data": {"images": "s3://bucket/data/x/"},
        "program": "m",
    }
