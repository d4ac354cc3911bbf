"""Event patterns: the events that AWS matches, and its messages for refused patterns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from simulation.aws.endpoint.api import ServiceError
from simulation.aws.eventbridge import compile_matcher
from tests.conformance.clients import Clients
from tests.conformance.recordings import Oracle, UnreadableError, read
from tests.conformance.result import Result, Verdict

REASON = "Event pattern is not valid. Reason: "


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Compare every pair of event and pattern, in both models."""
    folder = oracle.folder / "localstack/events/event_pattern_templates"
    words = {
        step: found["exception_message"]["Error"]["Message"]
        for each in oracle.of("events")
        for step, found in each.content.items()
        if isinstance(found, dict) and "exception_message" in found
    }
    for file in sorted(folder.glob("*.json5")):
        try:
            pair = read(file)
        except UnreadableError as error:
            print(error)
            continue
        wanted = _recorded(file, words)
        answers = {"local cloud": _local_cloud(clients, pair), "simulator": _simulator(pair)}
        for model, ours in answers.items():
            verdict = _verdict(wanted, ours)
            difference = "" if verdict is Verdict.SAME else f"{ours}, AWS {wanted}"
            yield Result("patterns", "events", model, file.stem, verdict, difference)


def _recorded(file: Path, words: dict[str, str]) -> bool | str:
    """Return AWS's answer: True, False, or the words of its refusal."""
    if file.stem.endswith("_EXC"):
        return words.get(file.stem, REASON)
    return not file.stem.endswith("_NEG")


def _local_cloud(clients: Clients, pair: dict[str, Any]) -> bool | str:
    event, pattern = json.dumps(pair["Event"]), json.dumps(pair["EventPattern"])
    try:
        answer = clients.of("events").test_event_pattern(Event=event, EventPattern=pattern)
    except ClientError as refused:
        return str(refused.response["Error"]["Message"])
    return bool(answer["Result"])


def _simulator(pair: dict[str, Any]) -> bool | str:
    try:
        return compile_matcher(pair["EventPattern"])(pair["Event"])
    except ServiceError as refused:
        return refused.message


def _verdict(wanted: bool | str, ours: bool | str) -> Verdict:
    match wanted, ours:
        case str(), bool():
            return Verdict.FORGIVES
        case bool(), str():
            return Verdict.STRICTER
        case bool(), bool():
            return Verdict.SAME if wanted is ours else Verdict.WRONG
        case _:
            return Verdict.SAME if wanted in (REASON, ours) else Verdict.COSMETIC
