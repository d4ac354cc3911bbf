"""A function that repeats the answers of a recording's functions, one for each invocation."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.clients import Clients

CODE = """
import json, pathlib, time

ANSWERS = json.loads(pathlib.Path(__file__).with_name("answers.json").read_text())

def handler(event, context):
    kind, *given = ANSWERS.pop(0)
    if kind == "sleeps":
        time.sleep(30)
    if kind == "raises":
        raise type(given[0], (Exception,), {})(given[1])
    return given[0]
"""


@dataclass(frozen=True)
class Answer:
    """The end of one invocation: a result, an error with a message, or neither in time."""

    kind: str
    given: Sequence[Any] = ()


def answers(events: Iterable[Mapping[str, Any]]) -> list[Answer] | None:
    """Return what a function answered in a history; None if the history has calls of other kinds, or two functions."""
    found, called = [], set()
    for event in events:
        details: Mapping[str, Any] = next(
            (each for key, each in event.items() if key.endswith("Details")), {}
        )
        match event["type"]:
            case "TaskScheduled" if (details["resourceType"], details["resource"]) != ("lambda", "invoke"):
                return None
            case "TaskSubmitted" | "ActivityScheduled" | "MapStateStarted" | "ParallelStateStarted":
                return None
            case "LambdaFunctionScheduled":
                called.add(details["resource"])
            case "LambdaFunctionSucceeded":
                found.append(Answer("returns", [details.get("output")]))
            case "TaskSucceeded":
                found.append(Answer("returns", [(details.get("output") or {}).get("Payload")]))
            case "LambdaFunctionFailed" | "TaskFailed":
                cause = details.get("cause")
                if isinstance(cause, dict) and "errorType" in cause:
                    found.append(Answer("raises", [cause["errorType"], cause.get("errorMessage", "")]))
            case "LambdaFunctionTimedOut" | "TaskTimedOut":
                found.append(Answer("sleeps"))
    return found if len(called) < 2 else None


def play(clients: Clients, role: str, script: Sequence[Answer]) -> tuple[str, str]:
    """Make the function; return its name and its ARN."""
    name, packed = f"conformance-{uuid.uuid4().hex[:12]}", io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("player.py", CODE)
        archive.writestr("answers.json", json.dumps([[each.kind, *each.given] for each in script]))
    made = clients.of("lambda").create_function(
        FunctionName=name,
        Runtime="python3.12",
        Handler="player.handler",
        Role=role,
        Timeout=60,
        Code={"ZipFile": packed.getvalue()},
    )
    return name, str(made["FunctionArn"])
