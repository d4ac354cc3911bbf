"""The conclusion from the workflow's last answer, even if the end of the run fails."""

import json

from lambdas.core.run import outcome
from lambdas.core.run.recovery import Trouble
from trainyard.core.model.errors import AccessDenied
from trainyard.protocol.ledger.run import Outcome

DENIED = (
    "User: arn:aws:sts::123456789012:assumed-role/R/x is not authorized to perform: ec2:TerminateInstances"
)
FAILURE = Trouble.caught("AccessDenied", json.dumps({"errorMessage": DENIED}))


def test_a_state_machine_that_may_not_call_a_function_is_an_access_error() -> None:
    plain = "User: arn:aws:sts::1:assumed-role/W/x is not authorized to perform: lambda:InvokeFunction on resource: f"
    assert Trouble.caught("Lambda.AWSLambdaException", plain).error == "AccessDenied"
    assert outcome.conclude("error", error="Lambda.AWSLambdaException", cause=plain).error == "AccessDenied"


def test_hosts_that_nobody_could_end_are_named_with_the_command_that_ends_them() -> None:
    said = outcome.release_error("digits-1", ["i-2", "i-1"], FAILURE)
    assert isinstance(said, AccessDenied)
    assert "ec2:TerminateInstances" in said.reason
    assert "aws ec2 terminate-instances --instance-ids i-1 i-2" in said.reason


def test_where_the_ledger_knows_no_host_the_command_that_finds_them_is_named() -> None:
    said = outcome.release_error("digits-1", [], FAILURE)
    assert "Name=tag:trainyard:run,Values=digits-1" in said.reason


def test_a_finished_run_whose_hosts_run_on_has_failed() -> None:
    finished = outcome.conclude("finished", reason="the program finished")
    spoiled = outcome.spoil(finished, outcome.release_error("digits-1", ["i-1"], FAILURE))
    assert (spoiled.outcome, spoiled.error) == (Outcome.FAILED, "AccessDenied")


def test_a_failed_run_keeps_its_own_reason_first() -> None:
    failed = outcome.conclude("stop", error="ProgramFailed", reason="the program ended with 1")
    spoiled = outcome.spoil(failed, outcome.release_error("digits-1", ["i-1"], FAILURE))
    assert spoiled.error == "ProgramFailed"
    assert spoiled.reason.startswith("the program ended with 1")
    assert "i-1" in spoiled.reason
