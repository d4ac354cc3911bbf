"""The simulated Step Functions through its API: function calls, their times, and the ends of executions."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from localcloud.base.states_language import reported_error
from simulation.aws.endpoint.api import ACCOUNT, REGION, Caller, Check, ServiceError
from simulation.aws.functions import LambdaFailure
from simulation.aws.stepfunctions import Execution, Machine, StepFunctions
from simulation.world.world import World

USER = Caller("user", "root")
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:work"
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:yard-it"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/it"
CALLBACK = "arn:aws:states:::lambda:invoke.waitForTaskToken"
CAUGHT = {"ErrorEquals": ["States.ALL"], "Output": "{% $states.errorOutput %}", "Next": "Caught"}
WORKFLOWS = Path(__file__).parents[3] / "lambdas" / "workflows"


def task(**settings: Any) -> dict[str, Any]:
    """Return a state machine with one task that ends in Done or, with `Catch`, in Caught."""
    state = {"Type": "Task", "Resource": FUNCTION, "Next": "Done", **settings}
    caught = {"Caught": {"Type": "Succeed"}} if "Catch" in settings else {}
    return machine({"It": state, "Done": {"Type": "Succeed"}, **caught})


def waiting(**settings: Any) -> dict[str, Any]:
    """Return a state machine whose task waits for its task token."""
    payload = {"task_token": "{% $states.context.Task.Token %}"}
    return task(Resource=CALLBACK, Arguments={"FunctionName": FUNCTION, "Payload": payload}, **settings)


def machine(states: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    return {"QueryLanguage": "JSONata", "StartAt": next(iter(states)), "States": dict(states), **settings}


def by_paths(states: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state machine in JSONPath."""
    return {**machine(states), "QueryLanguage": "JSONPath"}


@dataclass
class Call:
    at: float
    function: str
    payload: Any
    answer: Callable[[Any], None]


@dataclass
class Yard:
    """A world with only Step Functions. A function returns the values of `answers` in turn, then never returns."""

    seed: int = 1
    answers: list[Any] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.seed)
        self.begun = self.world.now
        self.states = StepFunctions(self.world, self.invoke, lambda *event: self.events.append(event[2]))

    def invoke(self, function: str, payload: Any, on_done: Callable[[Any], None]) -> None:
        self.calls.append(Call(self.seconds, function, payload, on_done))
        if self.answers:
            answer = self.answers.pop(0)
            self.world.after(1, lambda: on_done(answer))

    @property
    def seconds(self) -> float:
        return (self.world.now - self.begun).total_seconds()

    def start(self, definition: Mapping[str, Any], name: str = "run", **given: Any) -> Execution:
        self.states.create(Machine(MACHINE, "yard-it", definition, ROLE))
        request = {"stateMachineArn": MACHINE, "name": name, "input": json.dumps(given)}
        return self.states.executions[self.ask("start_execution", **request)["executionArn"]]

    def ask(self, operation: str, **request: Any) -> Any:
        return getattr(self.states, operation)(USER, request)

    def go_on(self, seconds: float = 10) -> None:
        self.world.run(self.world.now + timedelta(seconds=seconds))

    def token(self) -> str:
        return str(self.calls[-1].payload["task_token"])


@pytest.fixture
def yard() -> Yard:
    return Yard()


def code_of(refused: pytest.ExceptionInfo[ServiceError]) -> str:
    return refused.value.code


# --------------------------------------------------------------------------------------------------------- documents


def completed(word: str) -> dict[str, Any]:
    """Return the definition of a workflow with a different ARN for each function."""
    text = (WORKFLOWS / f"{word}.asl.json").read_text()
    text = re.sub(r"\$\{(\w+)FunctionArn\}", lambda found: f"{FUNCTION}-{found[1]}", text)
    document: dict[str, Any] = json.loads(
        text.replace("${LookSeconds}", "600").replace("${Partition}", "aws")
    )
    return {**document, "TimeoutSeconds": 86_400}


@pytest.mark.parametrize("word", sorted(file.name.partition(".")[0] for file in WORKFLOWS.glob("*.asl.json")))
def test_every_workflow_of_the_yard_is_understood(yard: Yard, word: str) -> None:
    yard.states.create(Machine(MACHINE, "yard-it", completed(word), ROLE))


def test_a_run_goes_from_admit_to_its_end(yard: Yard) -> None:
    answers = {
        "TrainAdmit": {"kind": "admitted"},
        "TrainPlan": {"kind": "planned", "snapshot": "never"},
        "TrainLaunch": {"kind": "launched", "ready_seconds": 600, "deadline": "2026-01-05T10:00:00Z"},
        "TrainConclude": {"outcome": "succeeded", "ends_as": "succeeded"},
    }
    execution = yard.start(completed("train"), bucket="b")
    for word in ("TrainAdmit", "TrainPlan", "TrainLaunch"):
        yard.go_on(1)
        assert yard.calls[-1].function == f"{FUNCTION}-{word}"
        yard.calls[-1].answer(answers[word])
    for output in ({"train_seconds": 3600, "heartbeat_seconds": 120}, {"kind": "finished"}):
        yard.go_on(1)
        yard.calls[-1].answer(None)
        yard.ask("send_task_success", taskToken=yard.token(), output=json.dumps(output))
    yard.go_on(1)
    yard.calls[-1].answer({})
    yard.go_on(1)
    assert yard.calls[-1].payload["outcome"] == {"kind": "finished"}
    yard.calls[-1].answer(answers["TrainConclude"])
    yard.go_on(1)
    assert (execution.status, execution.output) == (
        "SUCCEEDED",
        '{"outcome":"succeeded","ends_as":"succeeded"}',
    )
    entered = [state for _, state, what in execution.history if what == "entered"]
    assert entered == [
        *("Admit", "Is it admitted", "Plan", "Is it planned", "Launch", "Is the gang launched", "AwaitHosts"),
        *("Train", "Is an image wanted", "Release", "Conclude", "Did it succeed", "Succeeded"),
    ]
    assert execution.transitions == yard.states.transitions == len(entered)


WAIT = {"Type": "Wait", "Seconds": 1, "End": True}
DONE = {"Type": "Succeed"}


@pytest.mark.parametrize(
    ("definition", "code", "fault"),
    [
        (machine({"A": {**WAIT, "Secnods": 1}}), "InvalidDefinition", "Field is not supported"),
        (machine({"A": WAIT}, Processor={}), "InvalidDefinition", "Field is not supported"),
        (machine({"A": {"Type": "Sleep"}}), "InvalidDefinition", "not a valid type"),
        (machine({"A": {"Type": "Pass"}}), "InvalidDefinition", r"required: \[Next or End\]"),
        (machine({"A": {"Type": "Wait", "End": True}}), "InvalidDefinition", r"required: \[Seconds\]"),
        (machine({"A": {"Type": "Pass", "Next": "B"}}), "InvalidDefinition", "Missing 'Next' target: B"),
        (machine({"A": DONE, "B": DONE}), "InvalidDefinition", '"B" is not reachable'),
        (machine({"A": {**WAIT, "Seconds": "{% $a( %}"}}), "InvalidDefinition", r"\$a\("),
        (task(Catch=[{**CAUGHT, "ErrorEquals": ["States.ALL", "Mine"]}]), "InvalidDefinition", "alone"),
        (task(Catch=[CAUGHT, {**CAUGHT, "ErrorEquals": ["Mine"]}]), "InvalidDefinition", "last rule"),
        (by_paths({"A": {**WAIT, "Output": "{% 1 %}"}}), "InvalidDefinition", "A/Output"),
        (by_paths({"A": {"Type": "Choice", "Choices": []}}), "InvalidDefinition", "Choices"),
        (machine({"A": {"Type": "Map"}}), "NotSimulated", "type Map"),
        (task(Resource="arn:aws:states:::aws-sdk:ec2:runInstances"), "NotSimulated", "runInstances"),
        (machine({"A": {**WAIT, "Seconds": "{% $random() %}"}}), "NotSimulated", r"\$random"),
    ],
)
def test_a_document_that_is_not_understood_is_refused(
    yard: Yard, definition: dict[str, Any], code: str, fault: str
) -> None:
    with pytest.raises(ServiceError, match=fault) as refused:
        yard.states.create(Machine(MACHINE, "yard-it", definition, ROLE))
    assert code_of(refused) == code


# -------------------------------------------------------------------------------------------------------------- data


def test_a_machine_in_jsonpath_selects_assigns_chooses_and_catches(yard: Yard) -> None:
    yard.answers = [{"answer": {"n": 1}, "more": 2}, LambdaFailure("Mine", '"it failed"')]
    call = {"Type": "Task", "Resource": FUNCTION, "Parameters": {"it.$": "$.a", "run.$": "$$.Execution.Name"}}
    chosen = {"Variable": "$.own.n", "NumericEquals": 1, "Next": "Again", "Assign": {"word": "one"}}
    execution = yard.start(
        by_paths(
            {
                "It": {
                    **call,
                    "ResultSelector": {"n.$": "$.answer.n"},
                    "ResultPath": "$.own",
                    "Assign": {"more.$": "$.more"},
                    "Next": "Which",
                },
                "Which": {"Type": "Choice", "Choices": [chosen], "Default": "Failed"},
                "Again": {
                    **call,
                    "Catch": [{"ErrorEquals": ["Mine"], "ResultPath": "$.caught", "Next": "Wait"}],
                    "Next": "Failed",
                },
                "Wait": {"Type": "Wait", "SecondsPath": "$.pause", "Next": "End"},
                "End": {
                    "Type": "Pass",
                    "Parameters": {
                        "own.$": "$.own",
                        "caught.$": "$.caught.Error",
                        "is.$": "$word",
                        "more.$": "$more",
                    },
                    "End": True,
                },
                "Failed": {"Type": "Fail", "ErrorPath": "$.a", "Cause": "no choice"},
            }
        ),
        a="text",
        pause=3,
    )
    yard.go_on(30)
    assert [each.payload for each in yard.calls] == [{"it": "text", "run": "run"}] * 2
    assert json.loads(execution.output or "") == {"own": {"n": 1}, "caught": "Mine", "is": "one", "more": 2}


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ({"Type": "Pass", "InputPath": "$.none"}, "Invalid path '$.none' : No results for path: $['none']"),
        ({"Type": "Wait", "SecondsPath": "$.a"}, "SecondsPath parameter cannot be parsed as a long value"),
        ({"Type": "Wait", "TimestampPath": "$.a"}, "does not reference a valid ISO-8601"),
        (
            {"Type": "Task", "Resource": FUNCTION, "Parameters": {"it.$": "$.none"}},
            "could not be found in the input",
        ),
    ],
)
def test_a_path_without_a_value_fails_the_execution_as_on_aws(
    yard: Yard, state: dict[str, Any], cause: str
) -> None:
    execution = yard.start(by_paths({"It": {**state, "End": True}}), a="text")
    yard.go_on()
    assert execution.error == "States.Runtime"
    assert cause in (execution.cause or "")
    assert (execution.cause or "").startswith("An error occurred while executing the state 'It'")


@pytest.mark.parametrize("language", ["JSONata", "JSONPath"])
def test_a_wait_ends_at_its_time_and_invoke_returns_its_whole_answer(yard: Yard, language: str) -> None:
    yard.answers = [7]
    field = "Arguments" if language == "JSONata" else "Parameters"
    call = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", field: {"FunctionName": FUNCTION}}
    until = (yard.world.now + timedelta(seconds=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    states = {"Wait": {"Type": "Wait", "Timestamp": until, "Next": "It"}, "It": {**call, "End": True}}
    execution = yard.start({**machine(states), "QueryLanguage": language})
    yard.go_on(60)
    assert 39 <= yard.calls[0].at <= 41
    assert json.loads(execution.output or "") == {
        "ExecutedVersion": "$LATEST",
        "StatusCode": 200,
        "Payload": 7,
    }


def test_assign_sees_the_variables_as_they_were(yard: Yard) -> None:
    states = {
        "First": {"Type": "Pass", "Assign": {"a": 1, "b": None}, "Next": "Swap"},
        "Swap": {"Type": "Pass", "Assign": {"a": "{% $b %}", "b": "{% $a %}"}, "Next": "End"},
        "End": {"Type": "Succeed", "Output": ["{% $a %}", "{% $b %}"]},
    }
    execution = yard.start(machine(states))
    yard.go_on()
    assert execution.output == "[null,1]"


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("{% $states.input.list %}", ["one"]),
        ("{% $states.input.none %}", []),
        ("{% $states.input.nothing %}", None),
        ("{% {'a': $states.input.nothing, 'b': $states.input.missing} %}", {"a": None}),
        ("{% [$states.input.list, $states.input.missing] %}", ["one"]),
        ("{% $states.context.Execution.StartTime %}", "2026-01-05T08:00:00.000Z"),
        ("{% $exists($states.context.State.RetryCount) %}", False),
        ("not {% an expression %}", "not {% an expression %}"),
    ],
)
def test_an_expression_gives_plain_json(yard: Yard, expression: str, result: Any) -> None:
    end = {"Type": "Succeed", "Output": {"it": expression}}
    execution = yard.start(machine({"End": end}), list=["one"], none=[], nothing=None)
    yard.go_on()
    assert json.loads(execution.output or "") == {"it": result}


def test_an_expression_without_a_result_fails_the_state_where_all_errors_are_caught(yard: Yard) -> None:
    execution = yard.start(task(Arguments="{% $nobody %}", Catch=[CAUGHT]))
    yard.go_on()
    assert json.loads(execution.output or "")["Error"] == "States.QueryEvaluationError"
    assert yard.calls == []


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (
            {"Type": "Choice", "Choices": [{"Condition": "{% 1 %}", "Next": "End"}]},
            "States.QueryEvaluationError",
        ),
        (
            {"Type": "Choice", "Choices": [{"Condition": "{% false %}", "Next": "End"}]},
            "States.NoChoiceMatched",
        ),
        ({"Type": "Wait", "Seconds": "{% 1.5 %}", "Next": "End"}, "States.QueryEvaluationError"),
        ({"Type": "Wait", "Seconds": "{% 'soon' %}", "Next": "End"}, "States.QueryEvaluationError"),
    ],
)
def test_an_error_of_the_language_fails_the_execution(yard: Yard, state: dict[str, Any], error: str) -> None:
    execution = yard.start(machine({"It": state, "End": DONE}))
    yard.go_on()
    assert (execution.status, execution.error) == ("FAILED", error)


def test_a_choice_assigns_what_its_rule_says(yard: Yard) -> None:
    rule = {"Condition": "{% $states.input.n = 2 %}", "Assign": {"was": "two"}, "Next": "End"}
    choice = {"Type": "Choice", "Choices": [rule], "Assign": {"was": "another"}, "Default": "End"}
    states = {"It": choice, "End": {"Type": "Succeed", "Output": "{% $was %}"}}
    two, three = yard.start(machine(states), "two", n=2), yard.start(machine(states), "three", n=3)
    yard.go_on()
    assert (two.output, three.output) == ('"two"', '"another"')


def test_a_function_gets_its_own_copy_of_the_input(yard: Yard) -> None:
    """A function may modify its input without changing a variable."""
    first = {"Type": "Pass", "Assign": {"plan": "{% $states.input %}"}, "Next": "It"}
    work = {"Type": "Task", "Resource": FUNCTION, "Arguments": "{% $plan %}", "Next": "End"}
    end = {"Type": "Succeed", "Output": "{% $plan %}"}
    execution = yard.start(machine({"First": first, "It": work, "End": end}), pools=[1])
    yard.go_on()
    yard.calls[0].payload["pools"].append(2)
    yard.calls[0].answer({})
    yard.go_on()
    assert execution.output == '{"pools":[1]}'


@pytest.mark.parametrize(("catch", "status"), [({"Catch": [CAUGHT]}, "SUCCEEDED"), ({}, "FAILED")])
def test_more_than_256_kib_is_an_error_that_a_catch_of_all_errors_covers(
    yard: Yard, catch: dict[str, Any], status: str
) -> None:
    yard.answers = ["x" * 262_144]
    execution = yard.start(task(**catch))
    yard.go_on()
    ended = {"Error": execution.error, "Cause": execution.cause}
    shown: dict[str, Any] = json.loads(execution.output or "{}") if catch else ended
    assert (execution.status, shown["Error"]) == (status, "States.DataLimitExceeded")
    assert shown["Cause"].endswith(
        "a result with a size exceeding the maximum number of bytes service limit."
    )


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "wanted", "is_caught"),
    [
        ("CapacityRefused", ["CapacityRefused"], True),
        ("CapacityRefused", ["Refused", "States.TaskFailed"], True),
        ("Lambda.Unknown", ["States.ALL"], True),
        ("States.Timeout", ["States.ALL"], True),
        ("States.Timeout", ["States.TaskFailed"], False),
        ("States.HeartbeatTimeout", ["States.Timeout"], True),
        ("States.HeartbeatTimeout", ["States.TaskFailed"], True),
        ("States.Timeout", ["States.HeartbeatTimeout"], False),
        ("States.Runtime", ["States.ALL"], False),
        ("States.DataLimitExceeded", ["States.TaskFailed"], False),
        ("States.DataLimitExceeded", ["States.ALL"], True),
        ("Mine", ["Min"], False),
    ],
)
def test_which_errors_a_catch_is_for(yard: Yard, error: str, wanted: list[str], *, is_caught: bool) -> None:
    yard.answers = [LambdaFailure(error, "because")]
    execution = yard.start(task(Catch=[{**CAUGHT, "ErrorEquals": wanted}]))
    yard.go_on()
    assert (execution.status == "SUCCEEDED") is is_caught
    if is_caught:
        assert json.loads(execution.output or "") == {"Error": reported_error(error), "Cause": "because"}
    else:
        assert execution.error == reported_error(error)
        assert (execution.cause or "").endswith("because")


def test_a_retry_waits_longer_each_time_and_at_most_so_long(yard: Yard) -> None:
    yard.answers = [LambdaFailure("Again", "") for _ in range(5)]
    retry = {
        "ErrorEquals": ["Again"],
        "IntervalSeconds": 10,
        "MaxAttempts": 4,
        "BackoffRate": 2,
        "MaxDelaySeconds": 35,
    }
    execution = yard.start(task(Retry=[retry]))
    yard.go_on(200)
    pauses = [later.at - sooner.at - 1 for sooner, later in itertools.pairwise(yard.calls)]
    assert [round(pause) for pause in pauses] == [10, 20, 35, 35]
    assert (execution.status, execution.error) == ("FAILED", "Again")
    assert execution.transitions == 5


def test_full_jitter_is_drawn_from_the_seed() -> None:
    def called(seed: int) -> list[float]:
        yard = Yard(seed, answers=[LambdaFailure("Again", "") for _ in range(4)])
        retry = {"ErrorEquals": ["Again"], "IntervalSeconds": 60, "BackoffRate": 1, "JitterStrategy": "FULL"}
        yard.start(task(Retry=[retry]))
        yard.go_on(300)
        return [call.at for call in yard.calls]

    assert called(1) == called(1) != called(2)
    assert len(called(1)) == 4
    assert all(later - sooner < 62 for sooner, later in itertools.pairwise(called(1)))


def test_only_the_first_matching_retrier_counts_and_then_the_catch(yard: Yard) -> None:
    yard.answers = [LambdaFailure("Mine", "") for _ in range(3)]
    mine = {"ErrorEquals": ["Mine"], "IntervalSeconds": 1, "MaxAttempts": 1}
    others = {"ErrorEquals": ["States.TaskFailed"], "IntervalSeconds": 1, "MaxAttempts": 3}
    execution = yard.start(task(Retry=[mine, others], Catch=[CAUGHT]))
    yard.go_on()
    assert (len(yard.calls), execution.status) == (2, "SUCCEEDED")


def test_a_function_that_the_role_may_not_call_is_an_error_of_lambdas(yard: Yard) -> None:
    class Nothing:
        def first_denied(self, caller: Caller, checks: list[Check]) -> Check | None:
            assert (caller.role, checks) == (ROLE, [Check("lambda:InvokeFunction", FUNCTION)])
            return checks[0]

        def denial(self, check: Check, caller: Caller, service: str) -> ServiceError:
            return ServiceError("AccessDenied", f"{caller.name} is not authorized to perform: {check.action}")

    yard.states.iam = Nothing()
    execution = yard.start(task())
    yard.go_on()
    assert execution.error == "Lambda.AWSLambdaException"
    assert "is not authorized to perform: lambda:InvokeFunction" in (execution.cause or "")
    assert yard.calls == []


# ------------------------------------------------------------------------------------------------------ time and tokens


def test_an_answered_token_is_the_tasks_result(yard: Yard) -> None:
    execution = yard.start(waiting())
    yard.go_on(1)
    yard.calls[-1].answer("what the function says itself does not count")
    yard.go_on(60)
    assert execution.status == "RUNNING"
    yard.ask("send_task_success", taskToken=yard.token(), output='{"a": 1}')
    yard.go_on(1)
    assert execution.output == '{"a":1}'


def test_a_token_may_be_answered_before_the_function_has_ended(yard: Yard) -> None:
    execution = yard.start(waiting())
    yard.go_on(1)
    yard.ask("send_task_success", taskToken=yard.token(), output="1")
    yard.go_on(1)
    yard.calls[-1].answer(LambdaFailure("Sandbox.Timedout", "too late"))
    yard.go_on(1)
    assert execution.status == "SUCCEEDED"


def test_a_function_that_fails_while_its_token_is_waited_for_fails_the_task(yard: Yard) -> None:
    yard.answers = [LambdaFailure("HostLost", "{}")]
    execution = yard.start(waiting(TimeoutSeconds=600))
    yard.go_on()
    assert execution.error == "HostLost"


def test_a_token_answered_twice_or_late_is_timed_out(yard: Yard) -> None:
    execution = yard.start(waiting())
    yard.go_on(1)
    token = yard.token()
    yard.ask("send_task_failure", taskToken=token, error="Mine", cause="because")
    for operation, given in (
        ("send_task_success", {"output": "1"}),
        ("send_task_failure", {}),
        ("send_task_heartbeat", {}),
    ):
        with pytest.raises(ServiceError) as refused:
            yard.ask(operation, taskToken=token, **given)
        assert code_of(refused) == "TaskTimedOut"
    yard.go_on(1)
    assert (execution.error, execution.cause) == ("Mine", "because")


@pytest.mark.parametrize("token", ["no token", "AQCEAAAAKgAAAAMAAAAA!", ""])
def test_a_token_that_never_was_one_is_invalid(yard: Yard, token: str) -> None:
    with pytest.raises(ServiceError) as refused:
        yard.ask("send_task_success", taskToken=token, output="1")
    assert code_of(refused) == "InvalidToken"


def test_a_token_of_another_world_is_not_known(yard: Yard) -> None:
    yard.start(waiting())
    yard.go_on()
    with pytest.raises(ServiceError) as refused:
        Yard().ask("send_task_success", taskToken=yard.token(), output="1")
    assert code_of(refused) == "TaskDoesNotExist"


def test_an_output_that_is_no_json_answers_nothing(yard: Yard) -> None:
    execution = yard.start(waiting())
    yard.go_on(1)
    with pytest.raises(ServiceError) as refused:
        yard.ask("send_task_success", taskToken=yard.token(), output="{no")
    assert code_of(refused) == "InvalidOutput"
    yard.go_on(1)
    assert execution.status == "RUNNING"


def test_every_attempt_has_a_token_of_its_own(yard: Yard) -> None:
    retry = {"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}
    execution = yard.start(waiting(Retry=[retry]))
    yard.go_on(1)
    first = yard.token()
    yard.ask("send_task_failure", taskToken=first, error="Again")
    yard.go_on(2)
    assert yard.token() != first
    with pytest.raises(ServiceError):
        yard.ask("send_task_success", taskToken=first, output="1")
    yard.ask("send_task_success", taskToken=yard.token(), output="2")
    yard.go_on(1)
    assert execution.output == "2"


def test_a_task_times_out_and_what_its_function_says_later_is_nothing(yard: Yard) -> None:
    execution = yard.start(task(TimeoutSeconds="{% $states.input.limit %}"), limit=30)
    yard.go_on(29)
    assert execution.status == "RUNNING"
    yard.go_on(2)
    yard.calls[0].answer("late")
    yard.go_on(1)
    assert (execution.status, execution.error, execution.cause) == ("FAILED", "States.Timeout", None)


def test_a_token_may_fail_without_a_name_and_without_a_cause(yard: Yard) -> None:
    execution = yard.start(waiting(Catch=[{**CAUGHT, "ErrorEquals": ["States.TaskFailed"]}]))
    yard.go_on()
    yard.ask("send_task_failure", taskToken=yard.token())
    yard.go_on()
    assert json.loads(execution.output or "") == {"Error": None, "Cause": None}


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (
            {"Type": "Wait", "Seconds": "{% $states.input.seconds %}", "Next": "Done"},
            "The Seconds field cannot be parsed as an integer: 1.5",
        ),
        (
            {"Type": "Fail", "Error": "{% $states.input.seconds %}"},
            (
                "The JSONata expression '$states.input.seconds' specified for the field 'Error' returned an unexpected "
                "result type. Expected 'string', but was 'number' for value: 1.5"
            ),
        ),
        (
            {"Type": "Pass", "Output": {"it": "{% $states.input.missing %}"}, "Next": "Done"},
            (
                "The JSONata expression '$states.input.missing' specified for the field 'Output/it' returned nothing "
                "(undefined)."
            ),
        ),
        (
            {"Type": "Pass", "Assign": {"it": "{% 1 + 'a' %}"}, "Next": "Done"},
            (
                "The JSONata expression '1 + 'a'' specified for the field 'Assign/it' threw an error during "
                "evaluation. T2002: "
            ),
        ),
        (
            {"Type": "Choice", "Choices": [{"Condition": "{% 'yes' %}", "Next": "Done"}]},
            (
                "The JSONata expression ''yes'' specified for the field 'Condition' returned an unexpected result "
                "type. Expected 'boolean', but was 'string' for value: \"yes\""
            ),
        ),
    ],
)
def test_a_cause_names_the_state_and_the_field(yard: Yard, state: Mapping[str, Any], cause: str) -> None:
    ends = {} if state["Type"] == "Fail" else {"Done": {"Type": "Succeed"}}
    execution = yard.start(machine({"It": state, **ends}), seconds=1.5)
    yard.go_on()
    assert execution.error == "States.QueryEvaluationError"
    whole = f"An error occurred while executing the state 'It' (entered at the event id #2). {cause}"
    assert (execution.cause or "").startswith(whole)


def test_a_fail_state_without_an_error_has_none(yard: Yard) -> None:
    execution = yard.start(machine({"It": {"Type": "Fail"}}))
    yard.go_on()
    assert (execution.status, execution.error, execution.cause) == ("FAILED", None, None)


def test_a_missing_heartbeat_ends_the_task(yard: Yard) -> None:
    execution = yard.start(waiting(TimeoutSeconds=3600, HeartbeatSeconds="{% $states.input.beat %}"), beat=60)
    for _ in range(5):
        yard.go_on(50)
        yard.ask("send_task_heartbeat", taskToken=yard.token())
    yard.go_on(59)
    assert execution.status == "RUNNING"
    yard.go_on(2)
    assert (execution.error, execution.cause) == ("States.Timeout", None)


def test_heartbeats_do_not_extend_the_timeout(yard: Yard) -> None:
    execution = yard.start(waiting(TimeoutSeconds=100, HeartbeatSeconds=60))
    for _ in range(2):
        yard.go_on(49)
        yard.ask("send_task_heartbeat", taskToken=yard.token())
    yard.go_on(5)
    assert execution.error == "States.Timeout"


def test_a_heartbeat_no_shorter_than_the_timeout_fails_the_execution(yard: Yard) -> None:
    execution = yard.start(waiting(TimeoutSeconds=60, HeartbeatSeconds=60, Catch=[CAUGHT]))
    yard.go_on()
    assert execution.error == "States.Runtime"


def test_a_wait_takes_its_seconds(yard: Yard) -> None:
    execution = yard.start(machine({"It": {**WAIT, "Seconds": "{% $states.input.pause %}"}}), pause=90)
    yard.go_on(89)
    assert execution.status == "RUNNING"
    yard.go_on(2)
    assert execution.status == "SUCCEEDED"


def test_an_execution_has_a_limit_of_its_own(yard: Yard) -> None:
    execution = yard.start({**waiting(Catch=[CAUGHT]), "TimeoutSeconds": 300})
    yard.go_on(400)
    shown = yard.ask("describe_execution", executionArn=execution.arn)
    assert (shown["status"], shown["stopDate"] - shown["startDate"]) == ("TIMED_OUT", timedelta(seconds=300))
    assert not {"output", "error", "cause"} & set(shown)


# ----------------------------------------------------------------------------------------------------------- executions


def test_a_stopped_execution_stays_aborted_and_its_token_is_dead(yard: Yard) -> None:
    execution = yard.start(waiting(Catch=[CAUGHT]))
    yard.go_on(1)
    yard.ask("stop_execution", executionArn=execution.arn, cause="enough")
    with pytest.raises(ServiceError) as refused:
        yard.ask("send_task_success", taskToken=yard.token(), output="1")
    assert code_of(refused) == "TaskTimedOut"
    yard.calls[-1].answer(LambdaFailure("Mine", ""))
    yard.go_on()
    assert (execution.status, execution.cause) == ("ABORTED", "enough")
    assert not yard.world.busy()


@pytest.mark.parametrize("moment", [("It", "entered"), ("It", "exited")])
def test_an_execution_can_be_stopped_as_it_enters_or_leaves_a_state(
    yard: Yard, moment: tuple[str, str]
) -> None:
    def stop(execution: Execution, state: str, what: str) -> None:
        if (state, what) == moment:
            yard.ask("stop_execution", executionArn=execution.arn)

    yard.states.on_state, yard.answers = stop, [1]
    execution = yard.start(task())
    yard.go_on()
    assert execution.status == "ABORTED"
    assert len(yard.calls) == (moment[1] == "exited")


def test_a_start_with_the_same_name_and_input_returns_the_running_execution(yard: Yard) -> None:
    first = yard.start(waiting(), a=1)
    assert yard.start(waiting(), a=1) is first
    with pytest.raises(ServiceError) as refused:
        yard.start(waiting(), a=2)
    assert code_of(refused) == "ExecutionAlreadyExists"
    yard.ask("stop_execution", executionArn=first.arn)
    with pytest.raises(ServiceError) as refused:
        yard.start(waiting(), a=1)
    assert code_of(refused) == "ExecutionAlreadyExists"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"stateMachineArn": f"{MACHINE}-other"}, "StateMachineDoesNotExist"),
        ({"name": "with a blank"}, "InvalidName"),
        ({"name": "x" * 81}, "InvalidName"),
        ({"input": "{job: digits}"}, "InvalidExecutionInput"),
        ({"input": '{"loss": NaN}'}, "InvalidExecutionInput"),
        ({"input": json.dumps("x" * 262_144)}, "ValidationException"),
        ({"traceHeader": "x"}, "NotSimulated"),
    ],
)
def test_an_invalid_start_is_refused(yard: Yard, change: dict[str, str], code: str) -> None:
    yard.states.create(Machine(MACHINE, "yard-it", waiting(), ROLE))
    with pytest.raises(ServiceError) as refused:
        yard.ask("start_execution", **{"stateMachineArn": MACHINE, "name": "run", "input": "{}", **change})
    assert code_of(refused) == code
    assert yard.states.executions == {}


def test_an_execution_started_without_a_name_has_one_of_its_own(yard: Yard) -> None:
    yard.states.create(Machine(MACHINE, "yard-it", waiting(), ROLE))
    arns = {yard.ask("start_execution", stateMachineArn=MACHINE)["executionArn"] for _ in range(2)}
    assert len(arns) == 2


def test_lists_show_the_youngest_first_in_pages(yard: Yard) -> None:
    for number in range(5):
        yard.start(waiting(), f"run-{number}")
    yard.go_on()
    yard.ask("stop_execution", executionArn=f"{MACHINE.replace('stateMachine', 'execution')}:run-3")
    yard.go_on()

    def listed(**request: Any) -> list[list[str]]:
        pages, more = [], request
        while True:
            page = yard.ask("list_executions", stateMachineArn=MACHINE, maxResults=2, **more)
            pages.append([each["name"] for each in page["executions"]])
            if "nextToken" not in page:
                return pages
            more = {**request, "nextToken": page["nextToken"]}

    assert listed() == [["run-4", "run-3"], ["run-2", "run-1"], ["run-0"]]
    assert listed(statusFilter="RUNNING") == [["run-4", "run-2"], ["run-1", "run-0"]]
    assert listed(statusFilter="ABORTED") == [["run-3"]]


def test_a_start_or_end_is_listed_a_moment_later(yard: Yard) -> None:
    def running() -> int:
        return len(yard.ask("list_executions", stateMachineArn=MACHINE, statusFilter="RUNNING")["executions"])

    execution = yard.start(waiting())
    seen = [running()]
    yard.go_on()
    seen.append(running())
    yard.ask("stop_execution", executionArn=execution.arn)
    seen.append(running())
    assert yard.ask("describe_execution", executionArn=execution.arn)["status"] == "RUNNING"
    yard.go_on()
    assert [*seen, running()] == [0, 1, 1, 0]
    assert yard.ask("describe_execution", executionArn=execution.arn)["status"] == "ABORTED"


def test_an_execution_that_never_was_does_not_exist(yard: Yard) -> None:
    with pytest.raises(ServiceError) as refused:
        yard.ask("describe_execution", executionArn="arn:none")
    assert code_of(refused) == "ExecutionDoesNotExist"


def test_its_beginning_and_its_end_are_events(yard: Yard) -> None:
    yard.answers = [LambdaFailure("Mine", "because")]
    execution = yard.start(task(), a=1)
    yard.go_on()
    assert [event["status"] for event in yard.events] == ["RUNNING", "FAILED"]
    ended = yard.events[-1]
    assert (ended["executionArn"], ended["stateMachineArn"], ended["name"]) == (execution.arn, MACHINE, "run")
    assert (ended["startDate"], ended["stopDate"] - ended["startDate"] > 1000) == (1_767_600_000_000, True)
    assert (ended["input"], ended["output"], ended["error"]) == ('{"a": 1}', None, "Mine")


def test_an_execution_is_stuck_when_nothing_is_planned_that_could_move_it(yard: Yard) -> None:
    bounded, unbounded = (
        yard.start(waiting(TimeoutSeconds=600), "bounded"),
        yard.start(waiting(), "unbounded"),
    )
    yard.go_on(1)
    assert yard.states.stuck() == []
    for call in yard.calls:
        call.answer(None)
    assert yard.states.stuck() == [unbounded]
    yard.go_on(700)
    assert yard.states.stuck() == [unbounded]
    assert bounded.error == "States.Timeout"


@pytest.mark.parametrize(
    ("operation", "request_", "check"),
    [
        ("start_execution", {"stateMachineArn": MACHINE}, Check("states:StartExecution", MACHINE)),
        ("list_executions", {"stateMachineArn": MACHINE}, Check("states:ListExecutions", MACHINE)),
        ("describe_execution", {"executionArn": "arn:it"}, Check("states:DescribeExecution", "arn:it")),
        ("send_task_success", {"taskToken": "it"}, Check("states:SendTaskSuccess", "*")),
    ],
)
def test_required_permissions(yard: Yard, operation: str, request_: dict[str, Any], check: Check) -> None:
    assert yard.states.checks(USER, operation, request_) == [check]


def test_equal_seeds_give_equal_traces() -> None:
    def result() -> list[Any]:
        yard = Yard(7, answers=[LambdaFailure("Again", ""), {"n": 1}])
        yard.start(task(Retry=[{"ErrorEquals": ["Again"], "JitterStrategy": "FULL"}]))
        yard.go_on(60)
        return yard.world.trace

    assert result() == result()
