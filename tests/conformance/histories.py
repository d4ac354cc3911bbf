"""Histories of state machines: each recorded execution is run again, and its history compared event by event."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from simulation.aws.door.api import Caller, ServiceError
from simulation.aws.stepfunctions import Machine, StepFunctions
from simulation.world.world import World
from tests.conformance.clients import Clients
from tests.conformance.likeness import differences
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
    }
)
USED = frozenset({"Task", "Choice", "Wait", "Pass", "Succeed", "Fail"})
"""Types of states in the yard's workflows."""
OUTSIDE = ("TaskScheduled", "LambdaFunctionScheduled", "ActivityScheduled")
"""Events of what an execution calls: recorded answers of other services cannot be given again."""
UNFINISHED = re.compile("__tbd__|%[A-Za-z_]+%")
"""Parts of a template that a test replaces."""
UNKNOWN = re.compile('"(date|timestamp|datetime)"|<[^<>]+>')
"""Words that the recordings put in the place of a part of the input."""
SECONDS, AT_ONCE = 90.0, 8
CALLER = Caller("somebody", "root")
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


@dataclass(frozen=True)
class Case:
    """A machine that AWS ran, its input, and the history that followed."""

    name: str
    definition: dict[str, Any]
    events: list[dict[str, Any]]

    @property
    def is_used(self) -> bool:
        """False if a state or a call is of a kind that no yard has."""
        kinds = {state.get("Type") for state in self.definition["States"].values()}
        return kinds <= USED and not any(event["type"] in OUTSIDE for event in self.events)


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Run each machine again whose template is found."""
    iam, role = clients.of("iam"), f"conformance-{uuid.uuid4().hex[:8]}"
    arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
    clients.of("stepfunctions")
    cases = list(_cases(oracle))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(lambda case: _compared(case, clients, arn), cases)
    yield from map(_simulated, cases)


def _compared(case: Case, clients: Clients, role: str) -> Result:
    def result(verdict: Verdict, said: str = "") -> Result:
        return Result("histories", "stepfunctions", "local cloud", case.name, verdict, said)

    if not case.is_used:
        return result(Verdict.UNUSED)
    try:
        ours = _history(clients.of("stepfunctions"), case, role)
    except ClientError as refused:
        return result(Verdict.STRICTER, str(refused)[:300])
    recorded = [_bare(event) for event in case.events]
    found = list(differences(recorded, [_bare(each) for each in ours], COSMETIC))
    if not found:
        return result(Verdict.SAME)
    failed = "ExecutionFailed" in (case.events[-1]["type"], ours[-1]["type"])
    forgives = failed and ours[-1]["type"] == "ExecutionSucceeded"
    kinds = [each["type"] for each in ours]
    said = (
        "; ".join(found[:3])
        if len(kinds) == len(recorded)
        else f"{kinds}, AWS {[e['type'] for e in case.events]}"
    )
    return result(Verdict.FORGIVES if forgives else Verdict.WRONG, said[:500])


def _bare(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in ("id", "timestamp", "previousEventId")}


def _history(states: Any, case: Case, role: str) -> list[dict[str, Any]]:
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    machine = states.create_state_machine(name=name, definition=json.dumps(case.definition), roleArn=role)
    given = case.events[0]["executionStartedEventDetails"].get("input", {})
    text = given if isinstance(given, str) else json.dumps(given)
    arn = states.start_execution(stateMachineArn=machine["stateMachineArn"], input=text)["executionArn"]
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
            given = json.dumps(events[0]["executionStartedEventDetails"].get("input", {}))
            if definition is not None and not UNKNOWN.search(given):
                yield Case(f"{recording.file.parent.name}/{recording.test}/{step}", definition, events)


def _definition(
    recording: Recording, events: list[dict[str, Any]], templates: Mapping[Path, Any]
) -> dict[str, Any] | None:
    """Find the machine of a recording: by its test's name, else the only one of its folder with the same states."""
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
    if not isinstance(states, dict) or UNFINISHED.search(json.dumps(template)):
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
    """Put the path that a test is named after in the place of the only path of its machine."""
    text = json.dumps(template)
    paths = re.findall(r'"\$\.[^"]*"', text)
    if re.match(r"\$[.\[]", parameter) and len(paths) == 1:
        text = text.replace(paths[0], json.dumps(parameter))
    definition: dict[str, Any] = json.loads(text)
    return definition


# ---------------------------------------------------------------------------------------------------- the simulator


def _simulated(case: Case) -> Result:
    """Compare how the execution ends in the simulator, which tells no history event by event."""

    def result(verdict: Verdict, said: str = "") -> Result:
        return Result("histories", "stepfunctions", "simulator", case.name, verdict, said)

    if not case.is_used:
        return result(Verdict.UNUSED)
    world = World(1)
    states = StepFunctions(world, _no_function, lambda *_: None)
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:it"
    try:
        states.create(Machine(arn, "it", case.definition, "arn:aws:iam::123456789012:role/it"))
        given = json.dumps(case.events[0]["executionStartedEventDetails"].get("input", {}))
        asked = {"stateMachineArn": arn, "name": "it", "input": given}
        execution = states.executions[states.start_execution(CALLER, asked)["executionArn"]]
    except ServiceError as refused:
        verdict = Verdict.UNUSED if refused.code == "NotSimulated" else Verdict.STRICTER
        return result(verdict, str(refused))
    world.run(world.now + timedelta(days=1))
    recorded = _bare(case.events[-1])
    told = {"output": execution.output, "error": execution.error, "cause": execution.cause}
    details = {name: value for name, value in told.items() if value is not None}
    kind = "ExecutionSucceeded" if execution.status == "SUCCEEDED" else "ExecutionFailed"
    ours = {"type": kind, f"{kind[0].lower()}{kind[1:]}EventDetails": details}
    found = list(differences(recorded, ours, COSMETIC))
    if not found:
        return result(Verdict.SAME)
    forgives = kind == "ExecutionSucceeded" != recorded["type"]
    return result(Verdict.FORGIVES if forgives else Verdict.WRONG, "; ".join(found)[:500])


def _no_function(function: str, payload: Any, on_done: Any) -> None:
    raise ServiceError("NotSimulated", f"{function} does not exist here")
