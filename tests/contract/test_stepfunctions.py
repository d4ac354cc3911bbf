"""Step Functions: task tokens, heartbeats, timeouts, error names, roles, history."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow, eventually

QUEUE_PREFIX = f"arn:aws:sqs:{REGION}:{ACCOUNT}:"
SEND = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"
CAUGHT = {
    "ErrorEquals": ["States.ALL"],
    "Output": "{% $states.errorOutput %}",
    "Next": "Caught",
}
ENDS = {"Done": {"Type": "Succeed"}, "Caught": {"Type": "Succeed"}}


def task(**settings: Any) -> dict[str, Any]:
    """Return a machine with one task that ends in Done or, with `Catch`, in Caught."""
    state = {"Type": "Task", "Next": "Done", **settings}
    ends = ENDS if "Catch" in settings else {"Done": ENDS["Done"]}
    return {"StartAt": "It", "States": {"It": state, **ends}}


class Mailbox:
    """A queue for the machines' task tokens."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.sqs = cloud.client("sqs")
        self.url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        self.statement = allow("sqs:SendMessage", QUEUE_PREFIX + name)

    def waiting(self, **settings: Any) -> dict[str, Any]:
        body = {"token": "{% $states.context.Task.Token %}"}
        return task(Resource=SEND, Arguments={"QueueUrl": self.url, "MessageBody": body}, **settings)

    def token(self) -> str:
        message = eventually(lambda: self.sqs.receive_message(QueueUrl=self.url).get("Messages"))[0]
        self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return str(json.loads(message["Body"])["token"])


@pytest.fixture
def mailbox(cloud: Cloud, request: pytest.FixtureRequest) -> Mailbox:
    return Mailbox(cloud, f"tokens-{abs(hash(request.node.nodeid))}")


def code_of(refused: pytest.ExceptionInfo[ClientError]) -> str:
    return str(refused.value.response["Error"]["Code"])


def test_an_answered_token_is_the_tasks_result(cloud: Cloud, mailbox: Mailbox) -> None:
    execution = cloud.start(cloud.machine(mailbox.waiting(), mailbox.statement))
    cloud.client("stepfunctions").send_task_success(taskToken=mailbox.token(), output='{"a": 1}')
    assert json.loads(cloud.end_of(execution)["output"]) == {"a": 1}


def test_a_token_answered_twice_or_late_is_timed_out(cloud: Cloud, mailbox: Mailbox) -> None:
    states = cloud.client("stepfunctions")
    execution = cloud.start(cloud.machine(mailbox.waiting(), mailbox.statement))
    token = mailbox.token()
    states.send_task_failure(taskToken=token, error="Mine", cause="because")
    ended = cloud.end_of(execution)
    assert (ended["status"], ended["error"], ended["cause"]) == ("FAILED", "Mine", "because")
    for answer, given in (
        (states.send_task_success, {"output": "1"}),
        (states.send_task_failure, {}),
        (states.send_task_heartbeat, {}),
    ):
        with pytest.raises(ClientError) as refused:
            answer(taskToken=token, **given)
        assert code_of(refused) == "TaskTimedOut"


def test_a_token_that_never_was_one_is_invalid(cloud: Cloud) -> None:
    with pytest.raises(ClientError) as refused:
        cloud.client("stepfunctions").send_task_success(taskToken="no token", output="1")
    assert code_of(refused) == "InvalidToken"


def test_every_attempt_has_a_token_of_its_own(cloud: Cloud, mailbox: Mailbox) -> None:
    states = cloud.client("stepfunctions")
    retry = {"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}
    execution = cloud.start(cloud.machine(mailbox.waiting(Retry=[retry]), mailbox.statement))
    first = mailbox.token()
    states.send_task_failure(taskToken=first, error="Again")
    second = mailbox.token()
    assert second != first
    with pytest.raises(ClientError) as refused:
        states.send_task_success(taskToken=first, output="1")
    assert code_of(refused) == "TaskTimedOut"
    states.send_task_success(taskToken=second, output="2")
    assert cloud.end_of(execution)["output"] == "2"


def test_a_missing_heartbeat_ends_the_task(cloud: Cloud, mailbox: Mailbox) -> None:
    machine = cloud.machine(mailbox.waiting(HeartbeatSeconds="{% $states.input.beat %}"), mailbox.statement)
    execution = cloud.start(machine, beat=1)
    assert mailbox.token()
    ended = cloud.end_of(execution)
    assert (ended["error"], "cause" in ended) == ("States.Timeout", False)


def test_heartbeats_keep_a_task_alive(cloud: Cloud, mailbox: Mailbox) -> None:
    states = cloud.client("stepfunctions")
    execution = cloud.start(cloud.machine(mailbox.waiting(HeartbeatSeconds=4), mailbox.statement))
    token = mailbox.token()
    for _ in range(8):
        time.sleep(0.7)
        states.send_task_heartbeat(taskToken=token)
    assert states.describe_execution(executionArn=execution)["status"] == "RUNNING"
    states.send_task_success(taskToken=token, output="1")
    assert cloud.end_of(execution)["status"] == "SUCCEEDED"


@pytest.mark.parametrize("names", [["States.HeartbeatTimeout"], ["States.Timeout"], ["States.ALL"]])
def test_a_missing_heartbeat_is_caught(cloud: Cloud, mailbox: Mailbox, names: list[str]) -> None:
    waiting = mailbox.waiting(HeartbeatSeconds=1, Catch=[{**CAUGHT, "ErrorEquals": names}])
    ended = cloud.run(cloud.machine(waiting, mailbox.statement))
    assert json.loads(ended["output"]) == {"Error": "States.Timeout", "Cause": ""}


def test_a_time_limit_may_be_an_expression(cloud: Cloud, mailbox: Mailbox) -> None:
    machine = cloud.machine(mailbox.waiting(TimeoutSeconds="{% $states.input.limit %}"), mailbox.statement)
    assert cloud.run(machine, limit=1)["error"] == "States.Timeout"


def test_a_stopped_execution_stays_aborted_and_its_token_is_dead(cloud: Cloud, mailbox: Mailbox) -> None:
    states = cloud.client("stepfunctions")
    execution = cloud.start(cloud.machine(mailbox.waiting(), mailbox.statement))
    token = mailbox.token()
    states.stop_execution(executionArn=execution, cause="enough")
    with pytest.raises(ClientError) as refused:
        states.send_task_success(taskToken=token, output="1")
    assert code_of(refused) == "TaskTimedOut"
    time.sleep(0.5)
    assert states.describe_execution(executionArn=execution)["status"] == "ABORTED"
    states.stop_execution(executionArn=execution, cause="once more")
    assert states.describe_execution(executionArn=execution)["cause"] == "enough"


def test_an_execution_that_is_over_by_itself_cannot_be_stopped(cloud: Cloud) -> None:
    machine = cloud.machine({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
    execution = cloud.run(machine)["executionArn"]
    with pytest.raises(ClientError, match="Execution is not running"):
        cloud.client("stepfunctions").stop_execution(executionArn=execution)


RAISES = """
class CapacityRefused(Exception):
    pass

def handler(event, context):
    raise CapacityRefused("no room in us-east-1a")
"""


def invoking(function: str, **settings: Any) -> dict[str, Any]:
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
    return task(Resource=arn, Arguments="{% $states.input %}", **settings)


def may_invoke(function: str) -> dict[str, Any]:
    return allow("lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}")


def test_an_exceptions_class_is_the_error_that_catch_matches(cloud: Cloud) -> None:
    function = cloud.function(RAISES)
    catch = {**CAUGHT, "ErrorEquals": ["CapacityRefused"]}
    ended = cloud.run(cloud.machine(invoking(function, Catch=[catch]), may_invoke(function)))
    caught = json.loads(ended["output"])
    assert caught["Error"] == "CapacityRefused"
    cause = json.loads(caught["Cause"])
    assert cause["errorMessage"] == "no room in us-east-1a"
    assert "raise CapacityRefused" in "".join(cause["stackTrace"])


IS_LATE = """
import time

def handler(event, context):
    if time.time() < event["until"]:
        raise KeyError("not yet")
    return "done"
"""


def test_retry_by_name_tries_again_until_it_succeeds(cloud: Cloud) -> None:
    function = cloud.function(IS_LATE)
    retry = {"ErrorEquals": ["KeyError"], "IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 60}
    machine = cloud.machine(invoking(function, Retry=[retry]), may_invoke(function))
    ended = cloud.run(machine, until=time.time() + 8)
    assert ended.get("output") == '"done"', ended.get("cause")
    history = cloud.client("stepfunctions").get_execution_history(executionArn=ended["executionArn"])
    assert "LambdaFunctionFailed" in {event["type"] for event in history["events"]}


def test_a_throttled_function_is_an_error_that_retry_knows(cloud: Cloud) -> None:
    function = cloud.function("def handler(event, context): return 1")
    cloud.client("lambda").put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
    ended = cloud.run(cloud.machine(invoking(function), may_invoke(function)))
    assert ended["error"] == "Lambda.TooManyRequestsException"


def test_an_error_of_the_function_that_should_have_kept_the_token_fails_the_task(cloud: Cloud) -> None:
    function = cloud.function(RAISES)
    state = task(
        Resource="arn:aws:states:::lambda:invoke.waitForTaskToken",
        Arguments={"FunctionName": function, "Payload": {"token": "{% $states.context.Task.Token %}"}},
        TimeoutSeconds=60,
    )
    assert cloud.run(cloud.machine(state, may_invoke(function)))["error"] == "CapacityRefused"


def test_a_state_machine_may_do_what_its_role_may_and_no_more(cloud: Cloud) -> None:
    function = cloud.function("def handler(event, context): return 1")
    assert cloud.run(cloud.machine(invoking(function), may_invoke(function)))["output"] == "1"
    refused = cloud.run(cloud.machine(invoking(function)))
    assert refused["error"] == "Lambda.AWSLambdaException"
    assert "is not authorized to perform: lambda:InvokeFunction" in refused["cause"]


def test_a_role_that_does_not_trust_step_functions_is_no_use(cloud: Cloud) -> None:
    function = cloud.function("def handler(event, context): return 1")
    made = cloud.client("stepfunctions").create_state_machine(
        name=f"untrusted-{function}",
        definition=json.dumps({"QueryLanguage": "JSONata", **invoking(function)}),
        roleArn=cloud.role("lambda.amazonaws.com", may_invoke(function)),
    )
    assert "not authorized to assume" in cloud.run(made["stateMachineArn"])["cause"]


@pytest.mark.parametrize(("account", "output"), [(ACCOUNT, "1"), ("210987654321", None)])
def test_a_role_may_trust_step_functions_for_one_account_alone(
    cloud: Cloud, account: str, output: str | None
) -> None:
    function = cloud.function("def handler(event, context): return 1")
    role = cloud.role("states.amazonaws.com", may_invoke(function))
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "states.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    cloud.client("iam").update_assume_role_policy(RoleName=role.rpartition("/")[2], PolicyDocument=document)
    made = cloud.client("stepfunctions").create_state_machine(
        name=f"of-one-{function}",
        definition=json.dumps({"QueryLanguage": "JSONata", **invoking(function)}),
        roleArn=role,
    )
    ended = cloud.run(made["stateMachineArn"])
    assert ended.get("output") == output
    assert output or "not authorized to assume" in ended["cause"]


@pytest.mark.parametrize(
    ("resource", "arguments", "action", "error"),
    [
        ("dynamodb:deleteTable", {"TableName": "none"}, "dynamodb:DeleteTable", "DynamoDb.DynamoDbException"),
        ("ssm:getParameter", {"Name": "/none"}, "ssm:GetParameter", "Ssm.SsmException"),
        ("ec2:terminateInstances", {"InstanceIds": ["i-1"]}, "ec2:TerminateInstances", "Ec2.Ec2Exception"),
        ("sfn:startExecution", {"StateMachineArn": "arn:x"}, "states:StartExecution", "Sfn.SfnException"),
    ],
)
def test_a_call_to_a_service_needs_the_roles_permission(
    cloud: Cloud, resource: str, arguments: dict[str, Any], action: str, error: str
) -> None:
    definition = task(Resource=f"arn:aws:states:::aws-sdk:{resource}", Arguments=arguments)
    refused = cloud.run(cloud.machine(definition))
    assert refused["error"] == error
    assert f"is not authorized to perform: {action}" in refused["cause"]


@pytest.mark.parametrize(
    ("resource", "arguments", "error"),
    [
        ("ssm:getParameter", {"Name": "/none/such"}, "Ssm.ParameterNotFoundException"),
        ("ec2:describeInstances", {"InstanceIds": ["i-0123456789abcdef0"]}, "Ec2.Ec2Exception"),
    ],
)
def test_a_services_error_has_the_name_the_java_sdk_gives_it(
    cloud: Cloud, resource: str, arguments: dict[str, Any], error: str
) -> None:
    definition = task(Resource=f"arn:aws:states:::aws-sdk:{resource}", Arguments=arguments)
    assert cloud.run(cloud.machine(definition, allow("*")))["error"] == error


def test_succeed_answers_its_output(cloud: Cloud) -> None:
    end = {"Type": "Succeed", "Output": {"said": "{% $states.input.word %}"}}
    machine = cloud.machine({"StartAt": "End", "States": {"End": end}})
    assert json.loads(cloud.run(machine, word="yes")["output"]) == {"said": "yes"}


def test_assign_sees_the_variables_as_they_were(cloud: Cloud) -> None:
    states = {
        "First": {"Type": "Pass", "Assign": {"a": 1, "b": 2}, "Next": "Swap"},
        "Swap": {"Type": "Pass", "Assign": {"a": "{% $b %}", "b": "{% $a %}"}, "Next": "End"},
        "End": {"Type": "Succeed", "Output": ["{% $a %}", "{% $b %}"]},
    }
    assert json.loads(cloud.run(cloud.machine({"StartAt": "First", "States": states}))["output"]) == [2, 1]


def test_history_tells_what_a_task_was_given_and_gave(cloud: Cloud) -> None:
    function = cloud.function("def handler(event, context): return event['n'] + 1")
    state = task(
        Resource="arn:aws:states:::lambda:invoke",
        Arguments={"FunctionName": function, "Payload": {"n": 1}},
        Output="{% $states.result.Payload %}",
    )
    ended = cloud.run(cloud.machine(state, may_invoke(function)))
    events = cloud.client("stepfunctions").get_execution_history(executionArn=ended["executionArn"])["events"]
    assert [event["type"] for event in events] == [
        "ExecutionStarted",
        "TaskStateEntered",
        "TaskScheduled",
        "TaskStarted",
        "TaskSucceeded",
        "TaskStateExited",
        "SucceedStateEntered",
        "SucceedStateExited",
        "ExecutionSucceeded",
    ]
    scheduled = events[2]["taskScheduledEventDetails"]
    assert (scheduled["resourceType"], scheduled["resource"]) == ("lambda", "invoke")
    assert json.loads(scheduled["parameters"])["Payload"] == {"n": 1}
    assert [event["id"] for event in events] == list(range(1, 10))


@pytest.mark.parametrize(
    ("level", "data", "types"),
    [
        (
            "ALL",
            True,
            [
                "ExecutionStarted",
                "PassStateEntered",
                "PassStateExited",
                "FailStateEntered",
                "ExecutionFailed",
            ],
        ),
        ("ERROR", False, ["ExecutionFailed"]),
        ("OFF", True, []),
    ],
)
def test_a_machine_logs_the_events_that_it_is_asked_to(
    cloud: Cloud, level: str, data: bool, types: list[str]
) -> None:
    logs, group = cloud.client("logs"), f"/machines/{uuid.uuid4().hex[:8]}"
    logs.create_log_group(logGroupName=group)
    arn = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}:*"
    machine = cloud.machine(
        {
            "StartAt": "One",
            "States": {"One": {"Type": "Pass", "Next": "No"}, "No": {"Type": "Fail", "Error": "Why"}},
        }
    )
    cloud.client("stepfunctions").update_state_machine(
        stateMachineArn=machine,
        loggingConfiguration={
            "level": level,
            "includeExecutionData": data,
            "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": arn}}],
        },
    )
    execution = cloud.run(machine, number=7)["executionArn"]
    lines = [json.loads(event["message"]) for event in logs.filter_log_events(logGroupName=group)["events"]]
    assert [line["type"] for line in lines] == types
    assert {line["execution_arn"] for line in lines} <= {execution}
    started = [line["details"] for line in lines if line["type"] == "ExecutionStarted"]
    assert [json.loads(details["input"]) for details in started] == [{"number": 7}] * len(started)


def test_a_failed_function_is_told_as_such_by_history(cloud: Cloud) -> None:
    function = cloud.function(RAISES)
    ended = cloud.run(cloud.machine(invoking(function), may_invoke(function)))
    history = cloud.client("stepfunctions").get_execution_history(executionArn=ended["executionArn"])
    failed = next(event for event in history["events"] if event["type"] == "LambdaFunctionFailed")
    assert failed["lambdaFunctionFailedEventDetails"]["error"] == "CapacityRefused"


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        ("not json", "INVALID_JSON_DESCRIPTION"),
        ({"StartAt": "A", "States": {"B": {"Type": "Succeed"}}}, "MISSING_TRANSITION_TARGET"),
        ({"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "Z"}}}, "Missing 'Next' target: Z"),
        ({"StartAt": "A", "States": {"A": {"Type": "Sleep"}}}, "should have one of these values"),
        ({"StartAt": "A", "States": {"A": {"Type": "Pass"}}}, r"required: \[Next or End\]"),
        (
            {"StartAt": "A", "States": {"A": {"Type": "Succeed"}, "B": {"Type": "Succeed"}}},
            "is not reachable",
        ),
    ],
)
def test_a_faulty_definition_is_refused(cloud: Cloud, definition: Any, fault: str) -> None:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    with pytest.raises(ClientError, match=fault) as refused:
        cloud.client("stepfunctions").create_state_machine(
            name="faulty", definition=text, roleArn=cloud.role("states.amazonaws.com")
        )
    assert code_of(refused) == "InvalidDefinition"


@pytest.mark.parametrize("text", ["{job: digits}", '{"loss": NaN}', '{"hours": -Infinity}', " "])
def test_an_input_that_is_no_json_starts_nothing(cloud: Cloud, text: str) -> None:
    machine = cloud.machine({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
    states = cloud.client("stepfunctions")
    with pytest.raises(ClientError) as refused:
        states.start_execution(stateMachineArn=machine, input=text)
    assert code_of(refused) == "InvalidExecutionInput"
    assert states.list_executions(stateMachineArn=machine)["executions"] == []


@pytest.mark.parametrize("name", ["a/b", "a b", "a<b", "a:b", "x" * 81])
def test_a_name_that_cannot_be_one_starts_nothing(cloud: Cloud, name: str) -> None:
    machine = cloud.machine({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
    states = cloud.client("stepfunctions")
    with pytest.raises(states.exceptions.InvalidName):
        states.start_execution(stateMachineArn=machine, name=name)
    assert states.list_executions(stateMachineArn=machine)["executions"] == []


def test_the_same_name_and_input_is_the_execution_that_runs(cloud: Cloud) -> None:
    wait = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 60, "End": True}}}
    asked = {"stateMachineArn": cloud.machine(wait), "name": "once", "input": '{"a": 1}'}
    states = cloud.client("stepfunctions")
    first, again = states.start_execution(**asked), states.start_execution(**asked)
    assert (first["executionArn"], first["startDate"]) == (again["executionArn"], again["startDate"])
    states.stop_execution(executionArn=first["executionArn"])
    with pytest.raises(ClientError) as refused:
        states.start_execution(**asked)
    assert code_of(refused) == "ExecutionAlreadyExists"


def test_an_execution_that_failed_has_no_output(cloud: Cloud) -> None:
    fail = {"Type": "Fail", "Error": "Oops", "Cause": "it broke"}
    ended = cloud.run(cloud.machine({"StartAt": "End", "States": {"End": fail}}))
    assert (ended["error"], ended["cause"]) == ("Oops", "it broke")
    assert "output" not in ended


def test_the_same_name_starts_once(cloud: Cloud) -> None:
    machine = cloud.machine({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
    states = cloud.client("stepfunctions")
    states.start_execution(stateMachineArn=machine, name="once", input='{"a": 1}')
    with pytest.raises(ClientError) as refused:
        states.start_execution(stateMachineArn=machine, name="once", input='{"a": 2}')
    assert code_of(refused) == "ExecutionAlreadyExists"
