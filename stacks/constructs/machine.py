"""A state machine from its file in lambdas/workflows. It may call only the functions that it names."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge, skip
from stacks.constructs.function import LOG_ACCEPTED, Function, camel, retention_days
from stacks.constructs.names import arn_in, by_name
from stacks.constructs.permissions import account_principal, allow
from stacks.constructs.permissions.kms import key_of
from stacks.settings import YardSettings

FOLDER = Path(__file__).parents[2] / "lambdas/workflows"

RETRY: Sequence[Mapping[str, Any]] = (
    {
        "ErrorEquals": [
            "Lambda.ServiceException",
            "Lambda.SdkClientException",
            "Lambda.TooManyRequestsException",
            "Lambda.ClientExecutionTimeoutException",
        ],
        "IntervalSeconds": 2,
        "MaxAttempts": 5,
        "BackoffRate": 2,
        "JitterStrategy": "FULL",
    },
    {"ErrorEquals": ["Lambda.AWSLambdaException"], "IntervalSeconds": 1, "MaxAttempts": 1},
    {
        "ErrorEquals": ["Runtime.ExitError", "Runtime.OutOfMemory", "Lambda.Unknown", "Sandbox.Timedout"],
        "IntervalSeconds": 2,
        "MaxAttempts": 3,
        "BackoffRate": 2,
    },
    {
        "ErrorEquals": ["ServiceUnavailable"],
        "IntervalSeconds": 4,
        "MaxAttempts": 16,
        "BackoffRate": 2,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    },
    {"ErrorEquals": ["AccessDenied"], "IntervalSeconds": 15, "MaxAttempts": 2, "BackoffRate": 2},
)
"""Retries of every Task after its own: Lambda failed or throttled, the function's process ended, or AWS did not
answer the function. The pauses add up to six minutes on average (full jitter), and each attempt takes some seconds,
so an outage of three minutes ends no run. A permission may be missing for seconds while IAM applies a change. A Task
with a token is also repeated after the denial of a host: the function finds that the attempt has ended, and fails
with the same denial."""


class StateMachine(sfn.StateMachine):
    """The state machine `<yard>-<word>`, from `lambdas/workflows/<word>.asl.json`. In the file `${XFunctionArn}`
    stands for a function; in states that wait for events `${LookSeconds}` stands for the yard's `look_seconds`, and
    `${Partition}` for the region's partition (aws, aws-us-gov, aws-cn). `timeout` is the last resort against a run
    that nothing ends: a workflow that reaches it releases nothing."""

    def __init__(
        self,
        scope: Construct,
        word: str,
        *,
        settings: YardSettings,
        functions: Sequence[Function],
        timeout: cdk.Duration,
        waits: bool = False,
    ) -> None:
        yard, text = settings.yard, (FOLDER / f"{word}.asl.json").read_text()
        arns = {f"{camel(function.word)}FunctionArn": function.arn_in(scope) for function in functions}
        known = {"LookSeconds": str(settings.look_seconds), "Partition": cdk.Aws.PARTITION} if waits else {}
        looks = {name: value for name, value in known.items() if f"${{{name}}}" in text}
        _check(word, text, arns | looks)
        role = iam.Role(
            scope,
            "WorkflowRole",
            assumed_by=account_principal("states.amazonaws.com"),
            description=f"Permissions of the workflow {yard}-{word}",
        )
        self.log_name, self._named = f"/aws/vendedlogs/states/{yard}-{word}", f"{yard}-{word}"
        log = logs.LogGroup(
            scope,
            "WorkflowLog",
            log_group_name=self.log_name,
            encryption_key=key_of(scope, settings.kms_key),
            retention=retention_days(settings.log_days),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        skip(log, LOG_ACCEPTED)
        super().__init__(
            scope,
            "Workflow",
            state_machine_name=f"{yard}-{word}",
            definition_body=sfn.DefinitionBody.from_string(_complete(text, timeout)),
            definition_substitutions=arns | looks,
            role=role,
            logs=sfn.LogOptions(destination=log, level=sfn.LogLevel.ALL, include_execution_data=True),
        )
        self.functions = functions
        named = by_name(scope, "states", "stateMachine", self._named)
        self.measured = sfn.StateMachine.from_state_machine_arn(scope, "Measured", named)
        """The machine whose metrics any stack may use."""
        _configure_linter(self)
        allow(role, ["lambda:InvokeFunction"], list(arns.values()))
        acknowledge(
            role,
            "IAM5[Resource::*]",
            "Log delivery has no resources; functions are named one by one.",
        )
        acknowledge(
            self,
            "SF2",
            "Its log contains every step with its data; X-Ray would need further permissions.",
        )

    def arn_in(self, scope: Construct) -> str:
        """Return the ARN for use in the stack of `scope`."""
        return arn_in(scope, self, self.state_machine_arn, "states", "stateMachine", self._named)


def _complete(text: str, timeout: cdk.Duration) -> str:
    """Return the definition with its time limit, which the CDK ignores for a text, and with RETRY."""
    definition = json.loads(text)
    for state in definition["States"].values():
        if state["Type"] == "Task":
            state["Retry"] = [*state.get("Retry", []), *RETRY]
    return json.dumps({**definition, "TimeoutSeconds": timeout.to_seconds()}, indent=1)


def _configure_linter(machine: sfn.StateMachine) -> None:
    """Allow JSONata for TimeoutSeconds and HeartbeatSeconds, where cfn-lint expects a number."""
    plain = machine.node.default_child
    assert isinstance(plain, sfn.CfnStateMachine)
    plain.cfn_options.metadata = {"cfn-lint": {"config": {"ignore_checks": ["E3601"]}}}


def _check(word: str, text: str, given: dict[str, str]) -> None:
    named = set(re.findall(r"\$\{(\w+)\}", text))
    if named != set(given):
        raise ValueError(
            f"lambdas/workflows/{word}.asl.json and its stack differ: only the file names "
            f"{sorted(named - set(given))}, only the stack provides {sorted(set(given) - named)}"
        )
