"""Test `doctor` of a deployed yard: it reports faults only, each with a command."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trainyard.client.admin.checkup import (
    judge_alarms,
    judge_budget,
    judge_dead_letters,
    judge_image,
    judge_no_image,
)
from trainyard.client.admin.dead_letters import DeadLetter
from trainyard.client.admin.requirements import Verdict
from trainyard.client.inventory import overview
from trainyard.client.inventory.images import Image
from trainyard.client.inventory.overview import Budget, Overview
from trainyard.client.run import Run

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def alarm(name: str, metric: str = "FunctionFailures", **more: Any) -> dict[str, Any]:
    """Return a ringing alarm of a yard that was deployed a week ago."""
    return {
        "AlarmName": f"trainyard-{name}",
        "MetricName": metric,
        "StateValue": "ALARM",
        "TreatMissingData": "notBreaching",
        "AlarmConfigurationUpdatedTimestamp": NOW - timedelta(days=7),
        "AlarmDescription": f"what to do about {name}",
        **more,
    }


def test_a_new_yard_whose_first_image_is_being_baked_is_well() -> None:
    row = judge_no_image(Run(None, "arn:aws:states:us-east-1:1:execution:bake:gpu-1"))  # type: ignore[arg-type]
    assert (row.verdict, "gpu-1" in row.found, "follows it" in row.next_step) == (Verdict.READY, True, True)
    assert judge_no_image(None).verdict is Verdict.SHORT


NEW = {"TreatMissingData": "breaching", "AlarmConfigurationUpdatedTimestamp": NOW - timedelta(minutes=2)}
ABSENT = alarm("patrol-absent", "Invocations", TreatMissingData="breaching")


@pytest.mark.parametrize(
    ("alarms", "verdict", "says"),
    [
        ([], Verdict.READY, ""),
        ([alarm("function-failed", StateValue="OK")], Verdict.READY, ""),
        ([alarm("patrol-absent", "Invocations", **NEW)], Verdict.READY, "a new yard"),
        ([ABSENT], Verdict.SHORT, "what to do about patrol-absent"),
        ([alarm("run-failed")], Verdict.SHORT, "what to do about run-failed"),
        ([alarm("function-failed")], Verdict.SHORT, "what to do about function-failed"),
    ],
)
def test_alarms_that_are_no_fault_of_the_yard_leave_it_ready(
    alarms: list[dict[str, Any]], verdict: Verdict, says: str
) -> None:
    row = judge_alarms(alarms, NOW)
    assert row.verdict is verdict
    assert says in row.next_step


def given_up(function: str, event: dict[str, Any], error: str) -> DeadLetter:
    """Return an event on which a function failed three times, as Lambda reports it."""
    report = {
        "requestContext": {"functionArn": f"arn:aws:lambda:us-east-1:1:function:{function}:$LATEST"},
        "requestPayload": event,
        "responsePayload": {"errorType": "ServiceUnavailable", "errorMessage": error},
    }
    return DeadLetter.of(json.dumps(report))


@pytest.mark.parametrize(
    ("letter", "subject", "reason"),
    [
        (
            given_up(
                "trainyard-submit",
                {"detail": {"object": {"key": "jobs/by/ada/d.json"}}},
                "Rate exceeded\nTraceback ...",
            ),
            "upload of jobs/by/ada/d.json",
            "trainyard-submit failed on it three times: Rate exceeded",
        ),
        (
            given_up("trainyard-signal", {"detail-type": "stop", "detail": {"run": "digits-1"}}, "no"),
            "stop about digits-1",
            "trainyard-signal failed on it three times: no",
        ),
        (
            DeadLetter.of('{"detail-type": "model", "detail": {"model": "digits"}}'),
            "model about digits",
            "EventBridge could not deliver it",
        ),
        (
            DeadLetter.of(
                '{"webhook": "ml", "subject": "Trainyard: digits-1 failed", "reason": "it answered 410"}'
            ),
            'message "Trainyard: digits-1 failed"',
            "it answered 410",
        ),
        (
            given_up("trainyard-notify", {"Records": [{"Sns": {"Subject": "the day"}}]}, "no answer"),
            'message "the day"',
            "trainyard-notify failed on it three times: no answer",
        ),
        (DeadLetter.of("\x1b[31mno JSON"), "event", "EventBridge could not deliver it"),
    ],
)
def test_a_dead_letter_names_its_subject_and_the_reason(
    letter: DeadLetter, subject: str, reason: str
) -> None:
    assert (letter.subject, letter.reason) == (subject, reason)


def test_dead_letters_are_reported_with_the_command_that_repeats_each() -> None:
    assert judge_dead_letters([], "Q").verdict is Verdict.READY
    letter = given_up(
        "trainyard-submit", {"detail": {"object": {"key": "jobs/d.json"}}}, "trainyard submit d.json"
    )
    row = judge_dead_letters([letter] * 5, "https://Q")
    assert (row.verdict, row.found) == (Verdict.SHORT, "5 events given up")
    assert "three times: trainyard submit d.json" in row.next_step
    assert "and 2 more events" in row.next_step
    assert row.next_step.endswith("aws sqs purge-queue --queue-url https://Q")


@pytest.mark.parametrize(
    ("budget", "verdict", "found", "says"),
    [
        (Budget(3.2, 1000.0), Verdict.READY, "$3.20 of $1,000.00 in", ""),
        (Budget(3.2, None), Verdict.READY, "$3.20 in", "trainyard yard deploy -c monthly_dollars=500"),
        (Budget(1.5, 1.0), Verdict.SHORT, "$1.50 of $1.00 in", "trainyard yard deploy -c monthly_dollars=2;"),
    ],
)
def test_the_budget_is_that_of_the_deployed_yard(
    budget: Budget, verdict: Verdict, found: str, says: str
) -> None:
    row = judge_budget(budget)
    assert row.verdict is verdict
    assert row.found.startswith(found)
    assert says in row.next_step


@pytest.mark.parametrize(
    ("software", "age_days", "verdict", "says"),
    [
        ("2", 1, Verdict.READY, ""),
        (
            "1",
            1,
            Verdict.SHORT,
            "trainyard image bake: until it has ended, hosts run the software of an earlier",
        ),
        ("", 1, Verdict.SHORT, "trainyard image bake"),
        ("2", 90, Verdict.SHORT, "trainyard image bake"),
    ],
)
def test_an_image_is_ready_if_it_has_the_deployed_yards_software_and_is_not_old(
    software: str, age_days: int, verdict: Verdict, says: str
) -> None:
    tags = [{"Key": "trainyard:software", "Value": software}] if software else []
    made = {"ImageId": "ami-1", "State": "available", "BlockDeviceMappings": [], "Tags": tags}
    created = NOW - timedelta(days=age_days)
    row = judge_image(Image.of({**made, "CreationDate": created.isoformat()}, "current", NOW), "2")
    assert row.verdict is verdict
    assert says in row.next_step


def test_the_status_of_a_yard_shows_its_budget() -> None:
    seen = Overview(
        yard="Trainyard",
        account="123456789012",
        region="us-east-1",
        version="1",
        bucket="b",
        image="none",
        previous_image="none",
        runs=(),
        hosts=0,
        per_hour=0.0,
        month=overview.this_month(),
        dollars=12.5,
        monthly_dollars=100.0,
        settings={"notify": "a@example.com"},
    )
    assert dict(seen.lines())["budget"] == f"$12.50 of $100.00 in {overview.this_month()}"
