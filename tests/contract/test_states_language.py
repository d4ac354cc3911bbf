"""Amazon States Language on the local cloud, compared with observed executions on AWS."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Cloud


def one(state: dict[str, Any], language: str = "JSONata") -> dict[str, Any]:
    """Return a machine with one state, which is the last."""
    end = {} if state["Type"] == "Fail" else {"End": True}
    return {"QueryLanguage": language, "StartAt": "It", "States": {"It": {**state, **end}}}


def wait(field: str, path: str) -> dict[str, Any]:
    return one({"Type": "Wait", f"{field}Path": path}, "JSONPath")


def ends_of(cloud: Cloud, machines: list[dict[str, Any]], **given: Any) -> list[dict[str, Any]]:
    """Run all machines in parallel and return the ends of their executions."""
    arns = [cloud.machine(each) for each in machines]
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda arn: cloud.run(arn, **given), arns))


def test_a_wait_for_no_time_fails_the_execution(cloud: Cloud) -> None:
    given = {"below": -1, "part": 1.5, "text": "1", "day": "2026-11-20", "space": "2026-11-20 12:00:00Z"}
    seconds = [wait("Seconds", f"$.{name}") for name in ("below", "part", "text")]
    times = [wait("Timestamp", f"$.{name}") for name in ("day", "space", "below")]
    ends = ends_of(cloud, [*seconds, *times], **given)
    assert [each["error"] for each in ends] == ["States.Runtime"] * 6
    begins = "An error occurred while executing the state 'It' (entered at the event id #2). The "
    assert [each["cause"].removeprefix(begins) for each in ends] == [
        "SecondsPath parameter references a negative value: $.below == -1",
        "SecondsPath parameter cannot be parsed as a long value: $.part == 1.5",
        "SecondsPath parameter cannot be parsed as a long value: $.text == 1",
        *(
            "TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format string: "
            f"$.{name} == {given[name]}"
            for name in ("day", "space", "below")
        ),
    ]


def test_an_expression_that_fails_is_an_event_with_its_field(cloud: Cloud) -> None:
    states = cloud.client("stepfunctions")
    field = {"Type": "Pass", "Output": {"it": "{% $states.input.missing %}"}}
    execution = cloud.start(cloud.machine(one(field)))
    ended = cloud.end_of(execution)
    events = states.get_execution_history(executionArn=execution)["events"]
    assert [each["type"] for each in events][-2:] == ["EvaluationFailed", "ExecutionFailed"]
    assert events[-2]["evaluationFailedEventDetails"] == {
        "error": "States.QueryEvaluationError",
        "cause": ended["cause"],
        "location": "Output/it",
        "state": "It",
    }
    assert ended["cause"].endswith(
        "expression '$states.input.missing' specified for the field 'Output/it' returned nothing (undefined)."
    )


def test_a_condition_is_true_or_false(cloud: Cloud) -> None:
    choice = {"Type": "Choice", "Choices": [{"Condition": "{% 'yes' %}", "Next": "Done"}], "Default": "Done"}
    ended = cloud.run(cloud.machine({"StartAt": "It", "States": {"It": choice, "Done": {"Type": "Succeed"}}}))
    assert ended["error"] == "States.QueryEvaluationError"
    assert "Expected 'boolean', but was 'string'" in ended["cause"]


def test_a_fail_state_tells_only_what_it_has(cloud: Cloud) -> None:
    fails = [{}, {"Error": "Mine"}, {"Cause": "because"}]
    ends = ends_of(cloud, [one({"Type": "Fail", **each}) for each in fails])
    told = [{key: each[key] for key in ("error", "cause") if key in each} for each in ends]
    assert told == [{}, {"error": "Mine"}, {"cause": "because"}]


def test_a_path_to_several_values_is_a_list_and_one_to_a_missing_value_fails(cloud: Cloud) -> None:
    paths = ("$.items[?(@.n == 9)]", "$.none[1:]", "$.items[*].n", "$.items[0].n")
    passing = [one({"Type": "Pass", "Parameters": {"it.$": path}}, "JSONPath") for path in paths]
    missing = one({"Type": "Pass", "Parameters": {"it.$": "$.none"}}, "JSONPath")
    *ends, failed = ends_of(cloud, [*passing, missing], items=[{"n": 1}, {"n": 2}])
    assert [json.loads(each["output"])["it"] for each in ends] == [[], [], [1, 2], 1]
    assert failed["error"] == "States.Runtime"
    assert (
        "The JSONPath '$.none' specified for the field 'it.$' could not be found in the input"
        in failed["cause"]
    )


def test_the_context_has_the_role_and_counts_retries_of_tasks_alone(cloud: Cloud) -> None:
    machine = cloud.machine(one({"Type": "Pass", "Output": "{% $states.context %}"}))
    context = json.loads(cloud.run(machine)["output"])
    role = cloud.client("stepfunctions").describe_state_machine(stateMachineArn=machine)["roleArn"]
    assert {name: sorted(value) for name, value in context.items()} == {
        "Execution": ["Id", "Input", "Name", "RedriveCount", "RoleArn", "StartTime"],
        "State": ["EnteredTime", "Name"],
        "StateMachine": ["Id", "Name"],
    }
    assert context["Execution"]["RoleArn"] == role


def test_nothing_catches_what_the_state_machine_itself_does_wrong(cloud: Cloud) -> None:
    catch = [{"ErrorEquals": ["States.Runtime"], "Next": "Caught"}]
    task = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Catch": catch, "End": True}
    machine = {"QueryLanguage": "JSONPath", "StartAt": "It", "States": {
        "It": {**task, "Parameters": {"FunctionName.$": "$.none"}}, "Caught": {"Type": "Succeed"},
    }}  # fmt: skip
    assert cloud.run(cloud.machine(machine))["error"] == "States.Runtime"


def test_a_resource_of_a_task_is_an_arn(cloud: Cloud) -> None:
    with pytest.raises(ClientError, match="Value is not a valid resource ARN at /States/It/Resource"):
        cloud.machine(one({"Type": "Task", "Resource": "function"}))


def test_states_in_jsonpath_assign_variables_from_their_result_or_input(cloud: Cloud) -> None:
    states = {
        "Old": {"Type": "Pass", "Result": {"is": 1}, "Assign": {"value.$": "$.is"}, "Next": "Order"},
        "Order": {
            "Type": "Pass",
            "Parameters": {"was.$": "$value"},
            "Assign": {"value": 2, "before.$": "$value"},
            "Next": "Which",
        },
        "Which": {
            "Type": "Choice",
            "Choices": [
                {
                    "Variable": "$value",
                    "NumericEquals": 2,
                    "Next": "End",
                    "Assign": {"chosen.$": "States.Format('{}{}', $.was, $value)"},
                }
            ],
            "Default": "End",
            "Assign": {"chosen": "the default"},
        },
        "End": {
            "Type": "Pass",
            "Parameters": {"now.$": "$value", "before.$": "$before", "chosen.$": "$chosen"},
            "End": True,
        },
    }
    (ended,) = ends_of(cloud, [{"QueryLanguage": "JSONPath", "StartAt": "Old", "States": states}])
    assert ended["status"] == "SUCCEEDED", ended
    assert json.loads(ended["output"]) == {"now": 2, "before": 1, "chosen": "12"}


def test_a_variable_may_be_null_and_a_choice_may_assign_it(cloud: Cloud) -> None:
    states = {
        "Begin": {
            "Type": "Pass",
            "Assign": {"deadline": None, "launch": {"until": "noon"}},
            "Next": "Before",
        },
        "Before": {"Type": "Pass", "Output": {"was": "{% $deadline %}"}, "Next": "Which"},
        "Which": {
            "Type": "Choice",
            "Choices": [
                {
                    "Condition": "{% $launch.until = 'noon' %}",
                    "Assign": {"deadline": "{% $launch.until %}"},
                    "Next": "End",
                }
            ],
            "Default": "End",
        },
        "End": {
            "Type": "Pass",
            "Output": {"was": "{% $states.input.was %}", "is": "{% $deadline %}"},
            "End": True,
        },
    }
    (ended,) = ends_of(cloud, [{"QueryLanguage": "JSONata", "StartAt": "Begin", "States": states}])
    assert ended["status"] == "SUCCEEDED", ended
    assert json.loads(ended["output"]) == {"was": None, "is": "noon"}


def test_functions_of_step_functions_in_jsonata(cloud: Cloud) -> None:
    expressions = {
        "parts": "{% $partition([1, 2, 3], 2) %}",
        "range": "{% $range(1, 5, 2) %}",
        "one": "{% $range(1, 1, 2) %}",
        "hash": "{% $hash('a', 'SHA-1') %}",
        "parsed": "{% $parse('{\"a\": 1}') %}",
    }
    (ended,) = ends_of(cloud, [one({"Type": "Pass", "Output": expressions})])
    assert json.loads(ended["output"]) == {
        "parts": [[1, 2], [3]],
        "range": [1, 3, 5],
        "one": 1,
        "hash": "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
        "parsed": {"a": 1},
    }


def test_a_result_of_more_than_256_kib_fails_the_state(cloud: Cloud) -> None:
    grows = {"Type": "Pass", "Output": "{% $join([1..300].('" + "x" * 1000 + "')) %}"}
    (ended,) = ends_of(cloud, [one(grows)])
    assert (ended["status"], ended["error"]) == ("FAILED", "States.DataLimitExceeded")
    assert ended["cause"] == (
        "The state/task 'It' returned a result with a size exceeding the maximum number of bytes service limit."
    )
