"""The version that answers a batch, and the job with its files."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.models.batch import add_version, find_version
from trainyard.core.jobfile import check
from trainyard.core.model.batch import Predict
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.job import Job
from trainyard.protocol.export import SignatureTypes
from trainyard.protocol.ledger.models import ModelRow, ModelRows, VersionRow, VersionState

AT = datetime(2026, 11, 29, tzinfo=UTC)
SIGNATURES = {"serving_default": SignatureTypes(inputs={}, outputs={})}


def version(number: int, state: VersionState = VersionState.READY, **given: Any) -> VersionRow:
    known: dict[str, Any] = {
        "label": f"v{number}",
        "by": "ada",
        "at": AT,
        "request": "r",
        "origin": "s3://yard/data/x/",
    }
    return VersionRow(number=number, state=state, signatures=SIGNATURES, **known, **given)


ROWS = ModelRows(
    row=ModelRow(name="digits", owner="ada", created=AT, request="r", aliases={"default": 1, "champion": 2}),
    versions=(version(1), version(2), version(3, VersionState.REFUSED, reason="other answers")),
)


def wanted(model: str, signature: str | None = None) -> Predict:
    return Predict(model=model, source="s3://yard/data/new/", signature=signature)


@pytest.mark.parametrize(
    ("model", "number"), [("digits", 1), ("digits@champion", 2), ("digits@v1", 1), ("digits@2", 2)]
)
def test_a_batch_names_an_alias_a_label_or_a_number(model: str, number: int) -> None:
    assert find_version(wanted(model), ROWS).number == number


@pytest.mark.parametrize(
    ("model", "signature", "words"),
    [
        ("digits@champoin", None, "digits has no alias or version champoin; it has default, champion, v1"),
        (
            "digits@v3",
            None,
            "version 3 (v3) of digits is refused: other answers; name a version that is ready",
        ),
        ("digits", "scores", "has no signature scores; it has serving_default"),
    ],
)
def test_a_version_that_cannot_answer_is_refused(model: str, signature: str | None, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        find_version(wanted(model, signature), ROWS)
    assert words in refused.value.reason


def test_a_model_without_a_default_is_refused_with_the_next_step() -> None:
    rows = ModelRows(row=ModelRow(name="digits", owner="ada", created=AT, request="r"))
    with pytest.raises(
        ModelRefused, match="has no default version; choose one: trainyard versions set-default"
    ):
        find_version(wanted("digits"), rows)


def test_the_job_gets_the_files_of_the_version() -> None:
    document = {"name": "new", "predict": {"model": "digits", "source": "s3://BUCKET/data/new/"}}
    job = check.check(document, source="job.yaml", bucket="yard")
    assert isinstance(job, Job)
    assert job.predict
    made = version(2, manifest={"trainyard.json": "0f"})
    found = add_version(job, job.predict, made, "yard")
    assert found.data["model"].source == "s3://yard/models/digits/2/"
    assert found.program.args == {"format": "jsonl", "model": "digits", "version": 2, "record": "0f"}
