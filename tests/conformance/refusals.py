"""Errors: each row of tests/contract/refusals.yaml against the recording that it names, and against the local cloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.aws.eventbridge import EventBridge
from simulation.aws.notifications import Notifications
from simulation.aws.stepfunctions import Machine, StepFunctions
from simulation.world.world import World
from tests.conformance.clients import Clients
from tests.conformance.likeness import same_words
from tests.conformance.recordings import Oracle
from tests.conformance.result import Result, Verdict
from tests.contract.refused import Refused, filled, named_by, table

Answer = tuple[str, int | None, str]
"""Code, status and message. The code is empty for an accepted call."""
CALLER = Caller("user", "root")


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Compare code, status and words. A row whose recording is kept back is compared with nothing."""
    recorded = _recorded(oracle)
    named = named_by(clients.of)
    for row in table():
        wanted = recorded.get(row.seen)
        if wanted is None:
            print(f"no recording {row.seen}")
            continue
        expected = (row.code, row.status, row.message)
        ours = row.answer(clients.of(row.service), named)
        answers: dict[str, Answer] = {"our table": expected, "local cloud": ours}
        if (simulated := _simulated(row, named)) is not None:
            answers["simulator"] = simulated
        for model, answer in answers.items():
            verdict = _verdict(wanted, answer)
            difference = "" if verdict is Verdict.SAME else f"{answer}, AWS {wanted}"
            yield Result("errors", row.service, model, row.name, verdict, difference)


def _simulated(row: Refused, named: Mapping[str, Any]) -> Answer | None:
    """Return the simulator's answer; None if it does not have the operation or the request."""
    world = World(1)
    notices, states = Notifications(world), StepFunctions(world, _no_function, _no_event)
    notices.create_topic(named["$TOPIC"])
    ends = {"QueryLanguage": "JSONata", "StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
    states.create(Machine(named["$MACHINE"], "refused", ends, named["$ROLE"]))
    taken = {"stateMachineArn": named["$MACHINE"], "name": "taken", "input": "0"}
    states.start_execution(CALLER, taken)
    models = {"sns": notices, "stepfunctions": states, "events": EventBridge(world, [], _no_event)}
    operation = getattr(models.get(row.service), row.operation, None)
    if operation is None:
        return None
    try:
        operation(CALLER, filled(row.request, named))
    except ServiceError as refused:
        is_known = refused.code != "NotSimulated"
        return (refused.code, refused.status, refused.message) if is_known else None
    return "", 200, ""


def _no_function(*_: Any) -> None:
    raise ServiceError("NotSimulated", "no function is called here")


def _no_event(*_: Any) -> None:
    """Ignore events."""


def _recorded(oracle: Oracle) -> dict[str, Answer]:
    """Return the recorded errors by `file::test#step`."""
    found: dict[str, Answer] = {}
    root = oracle.folder / "localstack"
    for service in sorted(each.name for each in root.iterdir() if each.is_dir()):
        for recording in oracle.of(service):
            file = str(recording.file.relative_to(root)).removesuffix(".snapshot.json")
            for step, value in recording.content.items():
                error = _error(value)
                if error:
                    found[f"{file}::{recording.test}#{step}"] = error
    return found


def _error(value: Any) -> Answer | None:
    if not isinstance(value, dict):
        return None
    for wrapped in ("exception_message", "ErrorResponse"):
        if wrapped in value:
            return _error(value[wrapped])
    error = value.get("Error")
    if not isinstance(error, dict) or not isinstance(error.get("Code"), str):
        return None
    status = (value.get("ResponseMetadata") or {}).get("HTTPStatusCode")
    return error["Code"], status, str(error.get("Message") or "")


def _verdict(wanted: Answer, ours: Answer) -> Verdict:
    if not ours[0]:
        return Verdict.FORGIVES
    if ours[0] != wanted[0] or wanted[1] not in (None, ours[1]):
        return Verdict.WRONG
    return (
        Verdict.SAME
        if same_words(wanted[2].strip(), ours[2].strip()) or _same_but_for_values(wanted[2], ours[2])
        else Verdict.COSMETIC
    )


def _same_but_for_values(wanted: str, ours: str) -> bool:
    """Return True if the words differ in one name that the request gave."""
    one, other = wanted.split(), ours.split()
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) <= 1
