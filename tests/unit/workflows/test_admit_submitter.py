"""The submitter of a run: the user whose upload started it, or none if it was started by hand."""

import json
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.steps.job_check import JobSettings
from lambdas.workflows.train import admit
from tests.support.recorded import CONTEXT
from tests.unit.workflows.conftest import Place
from trainyard.core.model import tokens
from trainyard.protocol import keys

KEY = "jobs/by/ada/slow.json"
SOUND = {"name": "slow", "program": {"module": "training.programs.digits"}}
FAULTY = {"name": "slow", "program": {"modul": "x"}}


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


def admitted(run: str, **given: Any) -> tuple[str, str | None]:
    """Return the submitter and requester of an admitted or refused run."""
    event = {
        "run": run,
        "execution": f"arn:aws:states:us-east-1:123456789012:execution:trainyard-train:{run}",
        "started": "2026-11-20T12:00:00.000Z",
        "input": {"job_key": KEY, **given},
    }
    admit.handler(event, CONTEXT)
    row = Ledger("ledger").run(run)
    assert row is not None
    return str(row.submitter), row.requester


@pytest.mark.parametrize("job", [SOUND, FAULTY])
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_run_is_its_submitters_unless_it_was_started_by_hand(
    place: Place, job: dict[str, Any], by_hand: bool
) -> None:
    place.put(KEY, job)
    etag = boto3.client("s3").head_object(Bucket="bucket", Key=KEY)["ETag"].strip('"')
    uploaded = tokens.run_id("slow", key=KEY, version=etag)
    found = admitted(f"{uploaded}0" if by_hand else uploaded, etag=etag, requester="123456789012")
    assert found == (("unknown", None) if by_hand else ("ada", "123456789012"))


def test_a_run_by_hand_without_a_version_is_no_users(place: Place) -> None:
    place.put(KEY, SOUND)
    assert admitted("by-hand-1") == ("unknown", None)


def test_a_job_with_a_study_is_not_run_as_one_run(place: Place) -> None:
    study = {"maximize": "a", "parameters": {"args.lr": {"range": [0, 1]}}, "limits": {"dollars": 30}}
    place.put(KEY, SOUND | {"study": study})
    event = {
        "run": "slow-1",
        "execution": "arn",
        "started": "2026-11-20T12:00:00.000Z",
        "input": {"job_key": KEY},
    }
    assert "submit the file, which starts the study" in admit.handler(event, CONTEXT)["reason"]


def test_a_run_of_a_yard_with_a_receiver_of_metrics_has_its_address_beside_the_jobs_own_keys(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = JobSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        aws_region="us-east-1",
        otlp_endpoint="https://otlp.example.com",
        otlp_headers="otlp",
    )
    monkeypatch.setattr(environment, "read", lambda _: receiver)
    place.put(KEY, SOUND)
    admitted("by-hand-1")
    job = json.loads(boto3.client("s3").get_object(Bucket="bucket", Key=keys.job("by-hand-1"))["Body"].read())
    assert job["telemetry"] == {"endpoint": "https://otlp.example.com", "headers": "otlp"}
    assert (job.get("track", []), job["program"].get("environment", {})) == ([], {})
    assert job["nccl_check_seconds"] is None


def test_hosts_read_the_time_limit_of_their_check_in_the_job(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking = JobSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        aws_region="us-east-1",
        nccl_check_seconds=120,
    )
    monkeypatch.setattr(environment, "read", lambda _: checking)
    place.put(KEY, SOUND)
    admitted("by-hand-1")
    job = json.loads(boto3.client("s3").get_object(Bucket="bucket", Key=keys.job("by-hand-1"))["Body"].read())
    assert job["nccl_check_seconds"] == 120
