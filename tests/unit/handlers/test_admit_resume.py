"""What Admit makes of checkpoints.resume: a checkpoint, outputs, or a refusal before anything is launched."""

from typing import Any

import boto3
import pytest

from benchmarks.recorded import CONTEXT
from lambdas import settings
from lambdas.handlers.train import admit
from lambdas.settings import TrainAdmitSettings
from tests.unit.handlers.conftest import Place

CHECKPOINT = {"key": "runs/earlier-1/checkpoints/00000040/", "step": 40}


@pytest.fixture(autouse=True)
def yard(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = TrainAdmitSettings(
        yard="trainyard", table_name="ledger", bucket_name="bucket", monthly_dollars=0.0
    )
    monkeypatch.setattr(settings, "read", lambda _: yard)


def admitted(resume: str, outputs: dict[str, Any]) -> dict[str, Any]:
    job = {
        "name": "next",
        "program": {"module": "training.programs.digits"},
        "checkpoints": {"resume": resume},
        "outputs": outputs,
    }
    event = {
        "run": "next-1",
        "execution": "arn:aws:states:us-east-1:123456789012:execution:trainyard-train:next-1",
        "started": "2026-11-20T12:00:00.000Z",
        "input": {"job": job},
    }
    answer: dict[str, Any] = admit.handler(event, CONTEXT)
    return answer


def resumed(place: Place) -> Any:
    return place.object("runs/next-1/job.json")["checkpoints"]["resume"]


def has_checkpoint() -> bool:
    listed = boto3.client("s3").list_objects_v2(Bucket="bucket", Prefix="runs/next-1/checkpoints/latest.json")
    return bool(listed["KeyCount"])


@pytest.mark.parametrize("outputs", [{}, {"restore": True}])
def test_a_run_that_left_outputs_alone_is_resumed(place: Place, outputs: dict[str, Any]) -> None:
    place.put("runs/earlier-1/outputs/last.ckpt", {})
    assert admitted("earlier-1", outputs)["kind"] == "admitted"
    assert (resumed(place), has_checkpoint()) == ("earlier-1", False)


def test_a_run_that_left_no_output_of_its_own_stands_for_the_run_that_it_resumed(place: Place) -> None:
    place.put("runs/earlier-1/outputs/@worker-1/last.ckpt", {})
    place.put("runs/later-1/job.json", {"checkpoints": {"resume": "earlier-1"}})
    assert admitted("later-1", {})["kind"] == "admitted"
    assert resumed(place) == "earlier-1"


@pytest.mark.parametrize("outputs", [{"restore": False}, {"keep": False}])
def test_a_job_that_restores_no_outputs_does_not_resume_them(place: Place, outputs: dict[str, Any]) -> None:
    place.put("runs/earlier-1/outputs/last.ckpt", {})
    answer = admitted("earlier-1", outputs)
    assert answer["kind"] == "refused"
    assert "checkpoints.resume: there is no checkpoint of earlier-1" in answer["reason"]
    assert "this job restores no outputs" in answer["reason"]


def test_a_checkpoint_is_resumed_whatever_the_job_says_of_outputs(place: Place) -> None:
    place.put("runs/earlier-1/outputs/last.ckpt", {})
    place.put("runs/earlier-1/checkpoints/latest.json", CHECKPOINT)
    assert admitted("earlier-1", {"restore": False})["kind"] == "admitted"
    assert (resumed(place), has_checkpoint()) == ("earlier-1", True)


def test_a_run_that_left_nothing_is_refused(place: Place) -> None:
    place.put("runs/earlier-10/outputs/last.ckpt", {})
    answer = admitted("earlier-1", {})
    assert answer["kind"] == "refused"
    assert "and no output (runs/earlier-1/outputs/)" in answer["reason"]
