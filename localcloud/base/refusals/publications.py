"""Messages that SNS refuses to publish."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.base.refusals import Refusal, Request, first

MOST_BYTES, LONGEST_SUBJECT, LONGEST_NAME = 262_144, 100, 256
NAME = re.compile(r"[\w.-]*", re.ASCII)
FIELDS = {"String": "StringValue", "Number": "StringValue", "Binary": "BinaryValue"}
"""The field of an attribute's value, by type."""


def refusal(request: Request, region: str) -> Refusal | None:
    """Return why SNS does not publish the message."""
    message = str(request.get("Message") or "")
    wrong = (
        _of_target(request, region)
        or _of_text(message, request.get("Subject"))
        or _of_structure(message, request.get("MessageStructure"))
        or _of_topic_kind(request)
    )
    attributes = request.get("MessageAttributes") or {}
    return first(invalid(wrong) if wrong else None, *_of_attributes(attributes))


def invalid(message: str) -> Refusal:
    return Refusal("InvalidParameter", f"Invalid parameter: {message}")


def malformed(field: str, arn: str) -> str | None:
    """Return SNS's words for an ARN with too few parts."""
    parts = arn.split(":")
    if len(parts) >= 6:
        return None
    return f"{field} Reason: An ARN must have at least 6 elements, not {len(parts)}"


def _of_target(request: Request, region: str) -> str | None:
    if "TopicArn" not in request and ":endpoint/" in str(request.get("TargetArn")):
        return "TargetArn Reason: No endpoint found for the target arn specified"
    topic = str(request.get("TopicArn") or request.get("TargetArn") or "")
    if not topic:
        return None
    return malformed("TopicArn", topic) or (None if topic.split(":")[3] == region else "TopicArn")


def _of_text(message: str, subject: str | None) -> str | None:
    if not message:
        return "Empty message"
    if len(message.encode()) > MOST_BYTES:
        return "Message too long"
    if subject is not None and not (0 < len(subject) <= LONGEST_SUBJECT and subject.isprintable()):
        return "Subject"
    return None


def _of_structure(message: str, structure: str | None) -> str | None:
    if structure != "json":
        return None
    try:
        parts = json.loads(message)
    except ValueError:
        return "Message Structure - JSON message body failed to parse"
    has_default = isinstance(parts, dict) and isinstance(parts.get("default"), str)
    return None if has_default else "Message Structure - No default entry in JSON message body"


def _of_topic_kind(request: Request) -> str | None:
    is_fifo = str(request.get("TopicArn", "")).endswith(".fifo")
    if is_fifo and not request.get("MessageGroupId"):
        return "The MessageGroupId parameter is required for FIFO topics"
    if not is_fifo and request.get("MessageDeduplicationId"):
        kind = "MessageDeduplicationId parameter that is not valid for this topic type"
        return f"MessageDeduplicationId Reason: The request includes {kind}"
    return None


def _of_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> Iterator[Refusal]:
    for name, attribute in attributes.items():
        if wrong := _of_name(name) or _of_value(name, attribute):
            yield wrong


def _of_name(name: str) -> Refusal | None:
    wrong = None
    if len(name.encode()) > LONGEST_NAME:
        wrong = f"Length of message attribute name must be less than {LONGEST_NAME} bytes."
    elif not NAME.fullmatch(name):
        foreign = next(each for each in name if not NAME.fullmatch(each))
        wrong = (
            f"Invalid non-alphanumeric character '#x{ord(foreign):X}' was found in the message attribute name. "
            "Can only include alphanumeric characters, hyphens, underscores, or dots."
        )
    elif name.startswith("."):
        wrong = "Invalid message attribute name starting with character '.' was found."
    elif name.endswith("."):
        wrong = "Invalid message attribute name ending with character '.' was found."
    elif ".." in name:
        wrong = "Message attribute name can not have successive '.' character."
    return Refusal("ParameterValueInvalid", wrong) if wrong else None


def _of_value(name: str, attribute: Mapping[str, Any]) -> Refusal | None:
    kind = attribute.get("DataType")
    if not kind:
        where = f"messageAttributes.{name}.member.dataType"
        words = f"Value null at '{where}' failed to satisfy constraint: Member must not be null"
        return Refusal("ValidationError", f"1 validation error detected: {words}")
    prefix, subject = str(kind).partition(".")[0], f"The message attribute '{name}'"
    field, wrong = FIELDS.get(prefix), None
    if field is None:
        prefixes = "the set of supported type prefixes is Binary, Number, and String."
        wrong = f"{subject} has an invalid message attribute type, {prefixes}"
    elif any(other != field for other in ("StringValue", "BinaryValue") if other in attribute):
        wrong = f"{subject} with type '{kind}' must use field '{field.removesuffix('Value')}'."
    elif not attribute.get(field):
        wrong = (
            f"{subject} must contain non-empty message attribute value for message attribute type '{kind}'."
        )
    return Refusal("ParameterValueInvalid", wrong) if wrong else None
