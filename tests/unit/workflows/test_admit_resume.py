"""Admit and checkpoints.resume: a checkpoint, outputs, or a refusal before any launch."""

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.steps import resuming
from lambdas.steps.job_check import JobSettings
from lambdas.workflows.train import admit
from tests.support.recorded import CONTEXT
from tests.support.records import AT
from tests.unit.workflows.conftest import Place

CHECKPOINT = {"key": "runs/earlier-1/checkpoints/00000040/", "step": 40}


@pytest.fixture(autouse=True)
def yard(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = JobSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        monthly_dollars=0.0,
        aws_region="us-east-1",
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
    monkeypatch.setattr(resuming, "clock", lambda: datetime(2026, 11, 20, 12, 0, 5, tzinfo=UTC))


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


@pytest.mark.parametrize(("outputs", "is_warned"), [({"restore": True}, True), ({}, False)])
def test_outputs_newer_than_the_checkpoint_are_named_before_they_are_left_behind(
    place: Place, outputs: dict[str, Any], is_warned: bool
) -> None:
    """later-1 resumed earlier-1, saved no checkpoint and left outputs."""
    place.put("runs/earlier-1/outputs/history.csv", {})
    place.put("runs/later-1/outputs/history.csv", {})
    place.put("runs/later-1/job.json", {"checkpoints": {"resume": "earlier-1"}})
    place.put("runs/later-1/checkpoints/latest.json", CHECKPOINT)
    answer = admitted("later-1", outputs)
    assert (answer["kind"], resumed(place)) == ("admitted", "earlier-1")
    said = "the outputs of later-1 are newer than the checkpoint and are not restored"
    assert (said in answer["reason"]) is is_warned
    assert ("trainyard get later-1 outputs" in answer["reason"]) is is_warned
    assert any(said in warning for warning in own_row(place).warnings) is is_warned


def after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "clock", lambda: datetime(2026, 11, 20, 12, 0, 12, tzinfo=UTC))


def own_row(place: Place) -> Any:
    return place.ledger.run("next-1")


@pytest.mark.parametrize("state", ["Admit", "Plan", "Launch", "AwaitHosts", "Train"])
def test_a_run_that_goes_on_is_not_resumed(place: Place, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """Admit refuses it in every execution; the command refuses it earlier."""
    place.row("run", {"state": state})
    place.put("runs/digits-1/checkpoints/latest.json", CHECKPOINT)
    assert admitted("digits-1", {})["kind"] == "waits", "the order to stop may be on its way"
    after_a_moment(monkeypatch)
    answer = admitted("digits-1", {})
    assert (answer["kind"], answer["error"]) == ("refused", "JobRefused")
    assert "digits-1, which is still running" in answer["reason"]
    assert "trainyard stop digits-1" in answer["reason"]
    assert not has_checkpoint()


@pytest.mark.parametrize(
    "why", [{"stopping": AT, "stopped_by": "alice"}, {"cut_short": AT}, {"state": "Release"}]
)
def test_a_run_that_is_saving_is_resumed_from_its_last_checkpoint(
    place: Place, monkeypatch: pytest.MonkeyPatch, why: dict[str, Any]
) -> None:
    """`resume` 0.5 s after `stop` began at step 170; step 182 was saved a second later."""
    folder = "runs/digits-1/checkpoints/"
    old: dict[str, Any] = {"key": f"{folder}00000170/", "step": 170, "before": []}
    last: dict[str, Any] = {"key": f"{folder}00000182/", "step": 182, "before": []}
    place.row("run", why)
    place.put("runs/digits-1/checkpoints/latest.json", old)
    after_a_moment(monkeypatch)
    for _ in range(2):
        answer = admitted("digits-1", {})
        assert (answer["kind"], answer["seconds"]) == ("waits", 10)
        assert own_row(place).waiting.reason == "digits-1, which it resumes, saves its last checkpoint"
    assert not has_checkpoint()
    place.put("runs/digits-1/checkpoints/latest.json", last)
    place.row("run", {"ended": AT})
    assert admitted("digits-1", {})["kind"] == "admitted"
    assert (own_row(place).waiting, own_row(place).job["checkpoints"]["resume"]) == (None, "digits-1")
    assert place.object("runs/next-1/checkpoints/latest.json") == last


def test_a_run_that_never_ends_is_not_waited_for_longer_than_the_job_says(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.row("run", {"stopping": AT, "stopped_by": "alice"})
    assert admitted("digits-1", {})["kind"] == "waits"
    monkeypatch.setattr(resuming, "clock", lambda: datetime(2026, 11, 20, 14, tzinfo=UTC))
    answer = admitted("digits-1", {})
    assert answer["kind"] == "refused"
    assert "digits-1, which this run resumes, has not ended" in answer["reason"]
