"""Next invocations of a command, and its status from the status of its invocations."""

import pytest

from localcloud.base.run_command import allowance, status_of
from localcloud.services.ssm.commands import (
    Command,
    Invocation,
    StepRun,
    iso,
    next_invocations,
)
from localcloud.services.ssm.document import Script

SCRIPT = Script("step", "aws:runShellScript", "true", {}, "/", 600.0, None, False, False, False)
STATUS = {"Terminated": "Cancelled", "ExecutionTimedOut": "TimedOut", "DeliveryTimedOut": "TimedOut"}


def command(*details: str, sent: int = 99, concurrency: str = "50", errors: str = "0") -> Command:
    """Return a command whose invocations have these details. The first `sent` were sent."""
    made = Command(
        id="c", document="d", document_version="$DEFAULT", parameters={}, scripts=(SCRIPT,), instance_ids=[],
        targets=[], requested=0.0, timeout=3600, max_concurrency=concurrency, max_errors=errors, comment="",
        bucket="", prefix="", asked={},
    )  # fmt: skip
    for number, detail in enumerate(details):
        invocation = Invocation("c", f"i-{number}", "", 0.0, [StepRun("step", "aws:runShellScript")])
        invocation.status, invocation.details = STATUS.get(detail, detail), detail
        invocation.is_sent = number < sent
        made.invocations[invocation.instance_id] = invocation
    return made


@pytest.mark.parametrize(
    ("text", "targets", "at_least", "allowed"),
    [
        ("10", 4, 1, 10),
        ("50%", 5, 1, 3),
        ("1%", 5, 1, 1),
        ("100%", 5, 1, 5),
        ("0", 5, 0, 0),
        ("10%", 5, 0, 0),
        ("50%", 5, 0, 2),
    ],
)
def test_a_limit_is_a_number_or_a_share_of_the_targets(
    text: str, targets: int, at_least: int, allowed: int
) -> None:
    assert allowance(text, targets, at_least=at_least) == allowed


@pytest.mark.parametrize(
    ("sentence", "waiting", "next_ones"),
    [
        ("all go at once", command("Pending", "Pending", sent=0), ["i-0", "i-1"]),
        ("one at a time", command("Pending", "Pending", sent=0, concurrency="1"), ["i-0"]),
        ("none while one runs", command("InProgress", "Pending", sent=1, concurrency="1"), []),
        ("the next when it has ended", command("Success", "Pending", sent=1, concurrency="1"), ["i-1"]),
        ("none after too many errors", command("Failed", "Pending", sent=1, concurrency="1"), []),
        ("errors may be allowed", command("Failed", "Pending", sent=1, concurrency="1", errors="1"), ["i-1"]),
        ("a late delivery is not an error", command("DeliveryTimedOut", "Pending", sent=1), ["i-1"]),
    ],
)
def test_who_is_next(sentence: str, waiting: Command, next_ones: list[str]) -> None:
    assert [one.instance_id for one in next_invocations(waiting)] == next_ones, sentence


@pytest.mark.parametrize(
    ("standing", "status", "details"),
    [
        (command(), "Success", "NoInstancesInTag"),
        (command("Pending", "Pending"), "Pending", "Pending"),
        (command("InProgress", "Pending"), "InProgress", "InProgress"),
        (command("Success", "InProgress"), "InProgress", "InProgress"),
        (command("Cancelling", "InProgress"), "Cancelling", "Cancelling"),
        (command("Success", "Success"), "Success", "Success"),
        (command("Failed", "Success"), "Failed", "Failed"),
        (command("Failed", "Terminated"), "Failed", "Failed"),
        (command("Failed", "Success", errors="1"), "Failed", "Incomplete"),
        (command("ExecutionTimedOut", "Success"), "TimedOut", "ExecutionTimedOut"),
        (command("DeliveryTimedOut", "DeliveryTimedOut"), "TimedOut", "DeliveryTimedOut"),
        (command("DeliveryTimedOut", "Success"), "Failed", "Incomplete"),
        (command("Cancelled", "Success"), "Cancelled", "Cancelled"),
    ],
)
def test_a_command_stands_as_its_invocations_do(standing: Command, status: str, details: str) -> None:
    limit = int(standing.max_errors)
    assert status_of(standing.invocations.values(), limit) == (status, details)


def test_a_command_expires_after_delivery_and_execution() -> None:
    assert command("InProgress").expires == 3600 + 600
    assert iso(0.25) == "1970-01-01T00:00:00.250Z"
