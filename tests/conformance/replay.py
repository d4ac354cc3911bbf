"""Requests that a recorded error names itself: "Value 'a b' at 'name' failed to satisfy constraint: ..."."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore import xform_name
from botocore.model import OperationModel

from localcloud.base import constraints
from tests.conformance import called

DETECTED = re.compile(r"\d+ validation errors? detected: ")
VIOLATION = re.compile(
    r"Value (?:'(?P<value>.*)' |null )at '(?P<path>[\w.]+)' failed to satisfy.*", re.DOTALL
)
VALUE = re.compile(r"Value (?:'.*?' )?(?:null )?at(?= '[\w.]+' failed)", re.DOTALL)
BETWEEN = re.compile(r"; (?=Value )")
DEFINED = re.compile(r" in definition '(.*)'\.$", re.DOTALL)
LISTED = re.compile(r"(enum value set|regular expression pattern): .*?(?=; Value at|$)", re.DOTALL)
QUOTED = re.compile(r'at \[Source: \(String\)"(.*)"; line: \d+, column: \d+\]', re.DOTALL)
EVENT = json.dumps(
    {
        "id": "0",
        "account": "123456789012",
        "source": "a",
        "time": "2030-01-01T00:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail-type": "a",
        "detail": {},
    }
)
TEXTS = (
    "a",
    "aa",
    "arn:aws:iam::123456789012:role/a",
    "arn:aws:lambda:us-east-1:123456789012:function:a",
    "{}",
)
"""Values for required texts. The first that keeps the constraints is used."""
Same = Callable[[str], bool]


def calls(
    service: str, message: str, same: Same, named: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the calls of a yard, with their requests, that AWS refuses with these words."""
    if quoted := QUOTED.search(message):
        yield from _with_quoted(service, message, quoted[1], named)
        return
    if defined := DEFINED.search(message):
        machine = {"name": "replayed", "definition": defined[1], "roleArn": named["$ROLE"]}
        yield "create_state_machine", machine
        return
    if not DETECTED.match(message):
        return
    for operation in called.operations(service):
        if request := _request(operation, message, same):
            yield xform_name(operation.name), request


def without_values(words: str) -> str:
    return VALUE.sub("Value at", words)


def without_lists(words: str) -> str:
    """Remove patterns and listed values, which AWS changes from year to year."""
    return LISTED.sub(r"\1", without_values(words))


def _with_quoted(
    service: str, message: str, text: str, named: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the call with a quoted event pattern or filter policy."""
    if service == "events":
        yield "test_event_pattern", {"Event": EVENT, "EventPattern": text}
    elif service == "sns" and "Attributes Reason" in message:
        attributes = {"FilterPolicy": text, "FilterPolicyScope": "MessageBody"}
        queue = f"{named['$QUEUE']}-{zlib.crc32(text.encode())}"  # another endpoint for each policy
        target = {"TopicArn": named["$TOPIC"], "Protocol": "sqs", "Endpoint": queue}
        yield "subscribe", {**target, "Attributes": attributes}
    elif service == "sns":
        value = {"AttributeName": "FilterPolicy", "AttributeValue": text}
        yield "set_subscription_attributes", {"SubscriptionArn": named["$SUBSCRIPTION"], **value}


def is_of_another(service: str, message: str, same: Same) -> bool:
    """Return True if the model refuses requests of an operation that no yard calls with these words."""
    if not DETECTED.match(message):
        return False
    foreign = (each for each in called.every_operation(service) if not called.is_called(service, each.name))
    return any(_request(operation, message, same) for operation in foreign)


def _request(operation: OperationModel, message: str, same: Same) -> Mapping[str, Any] | None:
    shape = operation.input_shape
    found = [VIOLATION.fullmatch(each) for each in BETWEEN.split(DETECTED.sub("", message))]
    if shape is None or not all(found):
        return None
    request: dict[str, Any] = _required(shape)
    for each in found:
        if each is None or not _set(shape, request, each["path"].split("."), each["value"]):
            return None
    return request if same(constraints.refusal(shape, request) or "") else None


def _required(shape: Any) -> Any:
    """Return a value with all that the shape requires."""
    match shape.type_name:
        case "structure":
            names = shape.metadata.get("required", ())
            return {name: _required(shape.members[name]) for name in names}
        case "list":
            return [_required(shape.member)] * shape.metadata.get("min", 1)
        case "map":
            return {}
        case "string":
            allowed = shape.metadata.get("enum") or TEXTS
            return next((each for each in allowed if not constraints.broken(shape, each)), allowed[0])
        case "boolean":
            return True
        case "blob":
            return b"text"
        case _:
            return shape.metadata.get("min", 1)


def _set(shape: Any, request: dict[str, Any], path: list[str], text: str | None) -> bool:
    """Set the value at a path. Return False if the shape has no such path."""
    names = {constraints.lowered(each): each for each in getattr(shape, "members", {})}
    name = names.get(path[0])
    if name is None:
        return False
    member, rest = shape.members[name], path[1:]
    if not rest:
        request[name] = _typed(member, text)
        if text is None:
            del request[name]
        return True
    if member.type_name == "list" and rest[1:2] == ["member"]:
        items = request.get(name) or [_required(member.member)]
        request[name] = [
            dict(items[0]) if isinstance(items[0], dict) else items[0] for _ in range(int(rest[0]))
        ]
        if not rest[2:]:
            request[name][-1] = _typed(member.member, text)
            return True
        return member.member.type_name == "structure" and _set(
            member.member, request[name][-1], rest[2:], text
        )
    if member.type_name != "structure":
        return False
    inner = request.setdefault(name, _required(member))
    return _set(member, inner, rest, text)


def _typed(shape: Any, text: str | None) -> Any:
    match shape.type_name:
        case "list" if text is not None and shape.member.type_name == "structure":
            return [_required(shape.member)] * text.count(f"{shape.member.name}(")
        case "list" if text is not None:
            inner = text.removeprefix("[").removesuffix("]")
            return [_typed(shape.member, each) for each in inner.split(", ")] if inner else []
        case "integer" | "long" if text is not None and re.fullmatch(r"-?\d+", text):
            return int(text)
        case _:
            return text
