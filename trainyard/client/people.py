"""Requests of users to the yard, as events in their own name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, assert_never

from trainyard.client.errors import RequestNotAccepted
from trainyard.client.identity import event_source
from trainyard.protocol.requests import (
    AddPoint,
    DevHost,
    EndWarmHosts,
    ModelRequest,
    More,
    Request,
    ScheduleRequest,
    Stop,
)
from trainyard.values import serialization

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment


def send_request(yard: Deployment, request: Request, source: str | None = None) -> None:
    """Put a request on the yard's bus, in the caller's name unless a source is given. Raise NotTaken if the bus refuses
    it."""
    event = {
        "EventBusName": yard.bus,
        "Source": source or event_source(yard.session),
        "DetailType": request.detail_type,
        "Detail": json.dumps(serialization.to_json(request)),
    }
    (answer,) = yard.session.client("events").put_events(Entries=[event])["Entries"]
    if "ErrorCode" in answer:
        raise RequestNotAccepted(
            f"the event bus {yard.bus} did not take it ({answer['ErrorCode']})",
            f"{answer.get('ErrorMessage', 'it gave no reason')}; {_explain(request)}",
            _advice(request),
        )


def _explain(request: Request) -> str:
    match request:
        case Stop():
            return f"{request.run} continues"
        case EndWarmHosts():
            return f"the hosts that {request.run} keeps continue to wait"
        case ModelRequest():
            return f"{request.model} is unchanged"
        case DevHost():
            return f"{request.run} does not begin; nothing was changed"
        case More():
            return f"{request.run} does not continue; nothing was changed"
        case AddPoint():
            return f"{request.run} has no further point; nothing was changed"
        case ScheduleRequest():
            return f"the schedule {request.schedule} is unchanged"
    assert_never(request)


def _advice(request: Request) -> str:
    match request:
        case Stop():
            return "ask again, or stop it without saving"
        case EndWarmHosts():
            return "ask again; they end automatically after pool.minutes"
        case DevHost() | ModelRequest() | More() | AddPoint() | ScheduleRequest():
            return "ask again"
    assert_never(request)
