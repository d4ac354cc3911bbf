"""Check every state machine against the input and answer classes of its functions.

Every path is walked. A state may answer with any class of its function's union, and fail with any error that it
catches. On every path each variable must exist with the requested key, and fit the field that receives it."""

import dataclasses
import importlib
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lambdas.steps.attempts import Available, Done, Finished, GangReady
from lambdas.steps.conclusion import NotConcluded
from lambdas.steps.inputs import Denied, Nothing
from lambdas.workflows.bake.document import Step
from lambdas.workflows.snapshot.quiesce import Quiesce
from lambdas.workflows.version.convert import Prepared
from trainyard.values import serialization

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = {
    path.name.partition(".")[0]: path for path in sorted((ROOT / "lambdas/workflows").glob("*.asl.json"))
}
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "lambdas/workflows").rglob("*.py"))
    if path.stem != "patrol" and "def handler(" in path.read_text()
]


def name_of(module: str) -> str:
    """Return the name in the state machines: TrainAwaitHosts for train.await_hosts."""
    words = re.split(r"[._]", module.removeprefix("lambdas.workflows."))
    return "".join(word.capitalize() for word in words)


HANDLERS = {name_of(module): importlib.import_module(module).handler for module in MODULES}
HANDLERS |= {"BakePlan": HANDLERS["TrainPlan"], "BakeLaunch": HANDLERS["TrainLaunch"]}
TOKENS: Mapping[str, tuple[type, ...]] = {
    "TrainAwaitHosts": (GangReady, Denied),
    "TrainTrain": (Finished, Denied),
    "TrainAwaitRuns": (Done,),
    "StudyTurn": (Finished,),
    "BakeDocument": (Done, Denied),
    "BakeCapture": (Available, Denied),
    "SnapshotQuiesce": (Done, Denied),
    "SnapshotCapture": (Available, Denied),
    "VersionConvert": (Prepared,),
}
"""The answers of the tasks of waiting states."""
NOT_TO_A_STATE = {Nothing, NotConcluded}
"""Answers that no state receives: of calls that wait for a task, and of calls with `cut_short`."""
CONTEXT = {"StartTime": datetime, "EnteredTime": datetime}
"""Values of Step Functions' context that are not texts."""
EXPRESSION = re.compile(r"\{% (.*) %\}", flags=re.DOTALL)
PATH = re.compile(r"\$(\w+)((?:\.\w+)*)")
COMPARED = re.compile(r"\$(\w+)\.(\w+) = '(\w+)'")


class Shape(NamedTuple):
    """The shape of a mapping: each key with its type or literal value; `model` is the class, if any."""

    keys: tuple[tuple[str, Any], ...]
    model: type | None = None


def shape_of(model: type) -> Shape:
    hints = typing.get_type_hints(model)
    kind = getattr(model, "kind", None)
    fixed = [("kind", kind)] if isinstance(kind, str) else []
    return Shape((*fixed, *((key.key, hints[key.name]) for key in serialization.keys(model))), model)


def answers_of(handler: Any) -> tuple[type, ...]:
    hint = typing.get_type_hints(handler)["return"]
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def given_of(handler: Any) -> type:
    (hint,) = [hint for name, hint in typing.get_type_hints(handler).items() if name != "return"]
    assert isinstance(hint, type)
    return hint


class Call(NamedTuple):
    """The call of a state: its function, payload, and possible answers."""

    given: type
    payload: Mapping[str, Any]
    answers: tuple[type, ...]


def call_of(state: Mapping[str, Any]) -> Call:
    arguments = state["Arguments"]
    waits = state["Resource"].endswith("waitForTaskToken")
    named = arguments["FunctionName"] if waits else state["Resource"]
    (name,) = re.findall(r"\$\{(\w+)FunctionArn\}", named)
    payload = arguments["Payload"] if waits else arguments
    assert "cut_short" not in payload, "that is for rules and patrol"
    answers = TOKENS[name] if waits else set(answers_of(HANDLERS[name])) - NOT_TO_A_STATE
    return Call(given_of(HANDLERS[name]), payload, tuple(answers))


Variables = Mapping[str, Any]


def value_of(entry: Any, variables: Variables) -> Any:
    """Return the shape, type or value of an entry of Arguments or Assign; fail if a name is missing."""
    if isinstance(entry, dict):
        return Shape(tuple((key, value_of(value, variables)) for key, value in entry.items()))
    found = EXPRESSION.fullmatch(entry) if isinstance(entry, str) else None
    return evaluated(found.group(1), variables) if found else entry if isinstance(entry, str) else type(entry)


def evaluated(text: str, variables: Variables) -> Any:
    condition, choice, rest = text.partition(" ? ")
    if choice:
        well, _, otherwise = rest.rpartition(" : ")
        return evaluated(well if holds(condition, variables) else otherwise, variables)
    if text.startswith("{"):
        pairs = re.findall(r"'(\w+)': (\$string\([^)]*\)|[^,}]+)", text)
        return Shape(tuple((key, evaluated(value.strip(), variables)) for key, value in pairs))
    if text.startswith("'"):
        return text.strip("'")
    if text.startswith(("$states.context.", "$states.errorOutput.", "$string(")):
        return CONTEXT.get(text.rpartition(".")[2], str)
    if text == "$states.input":
        return Any
    assert PATH.fullmatch(text), text
    if text == "$states.result" or text.startswith("$states.result."):
        text = text.replace("$states.result", "$result")
    name, *keys = text.removeprefix("$").split(".")
    assert name in variables, f"${name} is not assigned"
    value = variables[name]
    for key in keys:
        assert isinstance(value, Shape), f"{text}: it is {value}"
        assert key in dict(value.keys), (
            f"{text}: {value.model or 'what is assigned'} has {[k for k, _ in value.keys]}"
        )
        value = dict(value.keys)[key]
    return value


def holds(condition: str, variables: Variables) -> bool:
    """Return the possible results of a condition; both, if only the field's value decides: see `outcomes`."""
    python = re.sub(
        r"\$\w+(?:\.\w+)+ = '\w+'", lambda found: str(_equal(found.group(0), variables)), condition
    )
    assert re.fullmatch(r"(True|False|and|or|[ ()])+", python), condition
    return bool(eval(python))


def _equal(comparison: str, variables: Variables) -> bool:
    path, _, word = comparison.partition(" = ")
    return bool(evaluated(path.replace("$result", "$states.result"), variables) == word.strip("'"))


def settled(condition: str, variables: Variables) -> Iterator[Variables]:
    """Yield the variables for each value of an enum that the condition compares."""
    for name, key, _ in COMPARED.findall(condition):
        name = "result" if name == "states" else name
        value = dict(variables[name].keys).get(key) if isinstance(variables.get(name), Shape) else None
        if isinstance(value, type) and issubclass(value, Enum):
            words = {w for n, k, w in COMPARED.findall(condition) if k == key and n in (name, "states")}
            never = words - {each.value for each in value}
            assert not never, f"{key} is never {never}"
            for each in value:
                keys = tuple((k, each.value if k == key else v) for k, v in variables[name].keys)
                yield from settled(condition, {**variables, name: Shape(keys, variables[name].model)})
            return
    yield variables


def fits(value: Any, hint: Any) -> bool:
    """Return True if the value can be read as the field's type."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or value == hint:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, each) for each in inside)
    if isinstance(value, types.UnionType):
        return all(fits(each, hint) for each in typing.get_args(value))
    if isinstance(value, Shape):
        return dataclasses.is_dataclass(hint) and not list(misfits(value, typing.cast(type, hint)))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value in [each.value for each in hint]
    if origin is tuple:
        return value is list
    if isinstance(value, type) and issubclass(value, Enum):
        return hint is str
    return isinstance(value, str) and hint is str


def misfits(payload: Shape, model: type) -> Iterator[str]:
    """Return why the payload cannot be read as that class. Unknown keys are allowed."""
    given = dict(payload.keys)
    for key in serialization.keys(model):
        if key.key in given and not fits(given[key.key], key.hint):
            yield f"{key.key} is {given[key.key]}, expected {key.hint}"
        elif key.key not in given and key.required:
            yield f"{key.key} is missing"


class Walk:
    """A walk along every path through one state machine."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.states: Mapping[str, Any] = document["States"]
        self.seen: set[tuple[str, str]] = set()
        self.reached: set[str] = set()
        self.held: set[str] = set()
        todo: list[tuple[str, Variables]] = [(document["StartAt"], {})]
        while todo:
            name, variables = todo.pop()
            place = name, repr(sorted(variables.items()))
            if place not in self.seen:
                self.seen.add(place)
                self.reached.add(name)
                try:
                    todo.extend(self.next(self.states[name], variables))
                except AssertionError as wrong:
                    raise AssertionError(f"{name}: {wrong}") from wrong

    def next(self, state: Mapping[str, Any], variables: Variables) -> Iterator[tuple[str, Variables]]:
        match state["Type"]:
            case "Task":
                yield from self.task(state, variables)
            case "Choice":
                conditions = " ".join(each["Condition"] for each in state["Choices"])
                for each in settled(conditions, variables):
                    yield self.choice(state, each)
            case "Wait":
                value_of(state["Seconds"], variables)
                yield state["Next"], variables
            case "Succeed" | "Fail":
                for key in {"Output", "Error", "Cause"} & state.keys():
                    value_of(state[key], variables)
            case unknown:
                raise AssertionError(f"a state of type {unknown}")

    def task(self, state: Mapping[str, Any], variables: Variables) -> Iterator[tuple[str, Variables]]:
        call = call_of(state)
        known = {key.key for key in serialization.keys(call.given)}
        assert set(call.payload) <= known, f"{call.given.__name__} has no {set(call.payload) - known}"
        payload = typing.cast(Shape, value_of(dict(call.payload), variables))
        wrong = list(misfits(payload, call.given))
        assert not wrong, f"{call.given.__name__}: {wrong}"
        for key in {"TimeoutSeconds", "HeartbeatSeconds"} & state.keys():
            if not isinstance(state[key], int) and "LookSeconds" not in state[key]:
                assert fits(value_of(state[key], variables), int), key
        for answer in call.answers:
            with_answer = {**variables, "result": shape_of(answer)}
            conditions = json.dumps(state.get("Assign", {}))
            for each in settled(conditions, with_answer):
                yield state["Next"], assigned(variables, state.get("Assign", {}), each)
        for catch in state.get("Catch", ()):
            yield catch["Next"], assigned(variables, catch.get("Assign", {}), variables)

    def choice(self, state: Mapping[str, Any], variables: Variables) -> tuple[str, Variables]:
        for choice in state["Choices"]:
            condition = EXPRESSION.fullmatch(choice["Condition"])
            assert condition, choice
            if holds(condition.group(1), variables):
                self.held.add(choice["Condition"])
                return choice["Next"], assigned(variables, choice.get("Assign", {}), variables)
        return state["Default"], variables


def assigned(before: Variables, assign: Mapping[str, Any], seen: Variables) -> Variables:
    return {**before, **{name: value_of(value, seen) for name, value in assign.items()}}


def check(document: Mapping[str, Any]) -> None:
    walk, states = Walk(document), document["States"]
    assert walk.reached == set(states), f"no path reaches {set(states) - walk.reached}"
    conditions = {choice["Condition"] for state in states.values() for choice in state.get("Choices", ())}
    assert walk.held == conditions, f"no answer is of that kind: {conditions - walk.held}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_path_gives_each_function_what_it_takes_and_finds_what_it_asks_for(name: str) -> None:
    check(json.loads(DOCUMENTS[name].read_text()))


def test_every_workflow_is_found() -> None:
    assert set(DOCUMENTS) == {"train", "study", "bake", "snapshot", "dev-host", "retire", "version"}


WRONG = [
    # name, workflow, replaced text, new text, text of the failure
    (
        "an argument of another name",
        "train",
        '"task_token": "{%',
        '"task_tokn": "{%',
        "Input has no {'task_tokn'}",
    ),
    ("an argument that is forgotten", "train", '"scope": "run"', '"keep": "none"', "scope is missing"),
    ("a word that an enum lacks", "train", '"scope": "run"', '"scope": "runs"', "scope is runs"),
    (
        "a key that the answer lacks",
        "train",
        "$launch.seconds",
        "$launch.second",
        "Wait for capacity: $launch.second:",
    ),
    (
        "a key of the answer of a call",
        "bake",
        "$states.result.attempt",
        "$states.result.atempt",
        "Recover: $result.atempt",
    ),
    (
        "a kind that no answer has",
        "dev-host",
        "$outcome.kind = 'admitted'",
        "$outcome.kind = 'admited'",
        "no path",
    ),
    (
        "a word that no field has",
        "snapshot",
        "$admitted.rest = 'stop'",
        "$admitted.rest = 'stopp'",
        "never {'stopp'}",
    ),
    ("a variable that is never assigned", "snapshot", '"undone": {},', "", "$undone is not assigned"),
    ("a part of the plan that Recover lacks", "bake", '"plan": "{% $plan %}"', '"plan": {}', "plan is"),
]


@pytest.mark.parametrize(
    ("workflow", "old", "new", "expected"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_a_slip_in_a_state_machine_is_found(workflow: str, old: str, new: str, expected: str) -> None:
    text = DOCUMENTS[workflow].read_text()
    assert old in text
    document = json.loads(text.replace(old, new))
    with pytest.raises(AssertionError) as wrong:
        check(document)
    assert expected in str(wrong.value)


def test_bake_and_snapshot_name_their_documents() -> None:
    assert [step.value for step in Step] == ["install", "test", "generalize"]
    assert [step.value for step in Quiesce] == ["pause", "generalize"]
