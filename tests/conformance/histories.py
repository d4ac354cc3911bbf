"""Histories of state machines: each recorded execution is run again, and its history compared event by event."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from simulation.aws.endpoint.api import ACCOUNT, REGION, Caller, ServiceError
from simulation.aws.functions import LambdaFailure
from simulation.aws.stepfunctions import Machine, StepFunctions
from simulation.world.world import World
from tests.conformance.clients import Clients
from tests.conformance.likeness import differences
from tests.conformance.player import Answer, answers, play
from tests.conformance.recordings import Oracle, Recording, UnreadableError, read
from tests.conformance.result import Result, Verdict

COSMETIC = frozenset(
    {
        "previousEventId",  # of parallel branches; no program follows it
        "inputDetails",
        "outputDetails",
        "timestamp",
        "assignedVariables",  # shown in the console only
        "assignedVariablesDetails",
        "SdkHttpMetadata",  # of the client in which Step Functions calls Lambda
        "SdkResponseMetadata",
        "requestId",
        "stackTrace",
    }
)
USED = frozenset({"Task", "Choice", "Wait", "Pass", "Succeed", "Fail"})
"""Types of states in the yard's workflows."""
UNFINISHED = re.compile("_+(tbd|TBD)_+|%[A-Za-z_]+%")
"""Parts of a template that a test replaces."""
FILLED = re.compile(
    r'(?<="Resource": ")(_+(tbd|TBD)_+|arn:aws:lambda:your-[^"]+)(?=")|(?<="FunctionName": ")_+(tbd|TBD)_+'
)
"""Parts of a template that are replaced by the ARN of a function."""
FUNCTION = re.compile(r"<?lambda_function(_\d)?_name(:\d)?>?")
"""The name of a function, in an input."""
UNKNOWN = re.compile('"(date|timestamp|datetime)"|<[^<>]+>')
"""Placeholders of the recordings for parts of the input."""
REDRIVEN = datetime(2023, 11, 16, tzinfo=UTC)
"""Since this day, executions have a RedriveCount."""
SECONDS, AT_ONCE = 90.0, 8
CALLER = Caller("user", "root")
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": ["states.amazonaws.com", "lambda.amazonaws.com"]},
            "Action": "sts:AssumeRole",
        }
    ],
}


@dataclass(frozen=True)
class Case:
    """A machine that ran on AWS, its input, and its history."""

    name: str
    definition: str
    """JSON, with FILLED for the ARN of the function that it calls."""
    given: str
    """The input, with FUNCTION for its name."""
    events: list[dict[str, Any]]
    recorded: datetime

    @property
    def cosmetic(self) -> frozenset[str]:
        """Return the fields that are not compared: those that no program reads, or that AWS did not have yet."""
        return COSMETIC if self.recorded >= REDRIVEN else COSMETIC | {"RedriveCount"}

    @cached_property
    def script(self) -> list[Answer] | None:
        """Return the answers of the functions, or None for a kind of state or call that no yard has."""
        return answers(self.events) if not self.unused_kinds else None

    @property
    def unused_kinds(self) -> set[str]:
        """Return the kinds of states that no machine of a yard has."""
        return {str(state.get("Type")) for state in json.loads(self.definition)["States"].values()} - USED

    @property
    def reason(self) -> str:
        """Return why a case without a script is not compared."""
        if self.unused_kinds:
            return f"no machine of a yard has {' or '.join(sorted(self.unused_kinds))} states"
        return "no machine of a yard makes such calls"

    def with_function(self, name: str, arn: str) -> Case:
        """Return the case for a function that exists here."""
        given = FUNCTION.sub(name, self.given)
        return replace(self, definition=FILLED.sub(arn, self.definition), given=given)


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Run each machine with a known template again."""
    iam, role = clients.of("iam"), f"conformance-{uuid.uuid4().hex[:8]}"
    arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
    invoke = {"Effect": "Allow", "Action": "lambda:*", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [invoke]})
    iam.put_role_policy(RoleName=role, PolicyName="functions", PolicyDocument=document)
    for service in ("stepfunctions", "lambda"):
        clients.of(service)
    cases = list(_cases(oracle))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(lambda case: _compared(case, clients, arn), cases)
    yield from map(_simulated, cases)


def _compared(case: Case, clients: Clients, role: str) -> Result:
    def result(verdict: Verdict, difference: str = "") -> Result:
        return Result("histories", "stepfunctions", "local cloud", case.name, verdict, difference)

    if case.script is None:
        return result(Verdict.UNUSED, case.reason)
    try:
        case = case.with_function(*play(clients, role, case.script)) if case.script else case
        ours = _history(clients.of("stepfunctions"), case, role)
    except ClientError as refused:
        return result(Verdict.STRICTER, str(refused)[:300])
    recorded = [_bare(event) for event in case.events]
    found = list(differences(recorded, [_bare(each) for each in ours], case.cosmetic))
    if not found:
        return result(Verdict.SAME)
    failed = "ExecutionFailed" in (case.events[-1]["type"], ours[-1]["type"])
    forgives = failed and ours[-1]["type"] == "ExecutionSucceeded"
    kinds = [each["type"] for each in ours]
    difference = (
        "; ".join(found[:3])
        if len(kinds) == len(recorded)
        else f"{kinds}, AWS {[e['type'] for e in case.events]}"
    )
    return result(Verdict.FORGIVES if forgives else Verdict.WRONG, difference[:500])


def _bare(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in ("id", "timestamp", "previousEventId")}


def _history(states: Any, case: Case, role: str) -> list[dict[str, Any]]:
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    machine = states.create_state_machine(name=name, definition=case.definition, roleArn=role)
    arn = states.start_execution(stateMachineArn=machine["stateMachineArn"], input=case.given)["executionArn"]
    deadline = time.monotonic() + SECONDS
    while states.describe_execution(executionArn=arn)["status"] == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.2)
    return list(states.get_execution_history(executionArn=arn, maxResults=1000)["events"])


def _cases(oracle: Oracle) -> Iterator[Case]:
    root = oracle.folder / "localstack/stepfunctions/templates"
    templates: dict[Path, Any] = {}
    for file in sorted(root.rglob("*.json5")):
        try:
            templates[file] = read(file)
        except UnreadableError as error:
            print(error)
    for recording in oracle.of("stepfunctions"):
        for step, found in recording.content.items():
            events = found.get("events") if isinstance(found, dict) else None
            if not isinstance(events, list) or not events or events[0].get("type") != "ExecutionStarted":
                continue
            definition = _definition(recording, events, templates)
            given = events[0]["executionStartedEventDetails"].get("input", {})
            text = given if isinstance(given, str) else json.dumps(given)
            if definition is not None and not UNKNOWN.search(FUNCTION.sub("", text)):
                name = f"{recording.file.parent.name}/{recording.test}/{step}"
                yield Case(name, json.dumps(definition), text, events, _date(recording.date))


def _date(text: str) -> datetime:
    return datetime.strptime(text, "%d-%m-%Y, %H:%M:%S").replace(tzinfo=UTC)


def _definition(
    recording: Recording, events: list[dict[str, Any]], templates: Mapping[Path, Any]
) -> dict[str, Any] | None:
    """Find the machine of a recording by the name of its test, or the only one in its folder with the same states."""
    name, _, parameter = recording.test.removeprefix("test_").partition("[")
    parameter = parameter.removesuffix("]")
    names = {each.lower() for each in (name, parameter) if each}
    if recording.file.name.endswith("_jsonata.snapshot.json"):
        names = {f"{each}_jsonata" for each in names}
    by_name = [file for file in templates if names & {file.stem, *_short(file.stem)}]
    folder = recording.file.parent.name.replace("_", "")
    near = [file for file in templates if folder in (part.replace("_", "") for part in file.parts)]
    for candidates in (by_name, near):
        fitting = [file for file in candidates if _fits(templates[file], events)]
        if len(fitting) == 1:
            return _with_parameter(templates[fitting[0]], parameter)
    return None


def _short(stem: str) -> list[str]:
    return [stem.removeprefix("base_"), stem.removesuffix("_base")]


def _fits(template: Any, events: list[dict[str, Any]]) -> bool:
    """Return True if the history enters only states of the template, and its first one first."""
    states = template.get("States") if isinstance(template, dict) else None
    if not isinstance(states, dict) or UNFINISHED.search(FILLED.sub("", json.dumps(template))):
        return False
    entered = [each for each in events if "stateEnteredEventDetails" in each]
    names = [each["stateEnteredEventDetails"]["name"] for each in entered]
    if names and names[0] != template.get("StartAt"):
        return False
    kinds = {name: f"{state.get('Type')}StateEntered" for name, state in states.items()}
    same = all(
        kinds.get(name, each["type"]) == each["type"] for name, each in zip(names, entered, strict=True)
    )
    has_inner = any({"Iterator", "ItemProcessor", "Branches"} & set(state) for state in states.values())
    return same and (has_inner or set(names) <= set(kinds))


def _with_parameter(template: dict[str, Any], parameter: str) -> dict[str, Any]:
    """Replace the only path of a machine by the path in the name of its test."""
    text = json.dumps(template)
    paths = re.findall(r'"\$\.[^"]*"', text)
    if re.match(r"\$[.\[]", parameter) and len(paths) == 1:
        text = text.replace(paths[0], json.dumps(parameter))
    definition: dict[str, Any] = json.loads(text)
    return definition


# ---------------------------------------------------------------------------------------------------- the simulator


def _simulated(case: Case) -> Result:
    """Compare the end of the execution in the simulator, which has no history of events."""

    def result(verdict: Verdict, difference: str = "") -> Result:
        return Result("histories", "stepfunctions", "simulator", case.name, verdict, difference)

    if case.script is None:
        return result(Verdict.UNUSED, case.reason)
    case = case.with_function("work", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:work")
    world, script = World(1), iter(case.script or ())

    def invoke(function: str, payload: Any, on_done: Callable[[Any], None]) -> None:
        answer = next(script)
        if answer.kind == "raises":
            failure = {"errorMessage": answer.given[1], "errorType": answer.given[0]}
            on_done(LambdaFailure(answer.given[0], json.dumps(failure)))
        elif answer.kind == "returns":
            on_done(answer.given[0])

    states = StepFunctions(world, invoke, lambda *_: None)
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:it"
    try:
        states.create(Machine(arn, "it", json.loads(case.definition), "arn:aws:iam::123456789012:role/it"))
        asked = {"stateMachineArn": arn, "name": "it", "input": case.given}
        execution = states.executions[states.start_execution(CALLER, asked)["executionArn"]]
    except ServiceError as refused:
        verdict = Verdict.UNUSED if refused.code == "NotSimulated" else Verdict.STRICTER
        return result(verdict, str(refused))
    world.run(world.now + timedelta(days=1))
    recorded = _bare(case.events[-1])
    results = {"output": execution.output, "error": execution.error, "cause": execution.cause}
    details = {name: value for name, value in results.items() if value is not None}
    kind = "ExecutionSucceeded" if execution.status == "SUCCEEDED" else "ExecutionFailed"
    ours = {"type": kind, f"{kind[0].lower()}{kind[1:]}EventDetails": details}
    found = list(differences(recorded, ours, case.cosmetic))
    if not found:
        return result(Verdict.SAME)
    forgives = kind == "ExecutionSucceeded" != recorded["type"]
    return result(Verdict.FORGIVES if forgives else Verdict.WRONG, "; ".join(found)[:500])
