"""Messages that SNS refuses to publish, in AWS's words. Pure, because the simulator uses this module too."""

from __future__ import annotations

import json

MOST_BYTES, LONGEST_SUBJECT = 262_144, 100


def refusal(topic: str, region: str, message: str, subject: str | None, structure: str | None) -> str | None:
    """Return the message of the InvalidParameter error, or None."""
    return _of_topic(topic, region) or _of_text(message, subject) or _of_structure(message, structure)


def _of_topic(topic: str, region: str) -> str | None:
    parts = topic.split(":")
    if len(parts) < 6:
        return f"Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not {len(parts)}"
    return None if parts[3] == region else "Invalid parameter: TopicArn"


def _of_text(message: str, subject: str | None) -> str | None:
    if not message:
        return "Invalid parameter: Empty message"
    if len(message.encode()) > MOST_BYTES:
        return "Invalid parameter: Message too long"
    if subject is not None and not (0 < len(subject) <= LONGEST_SUBJECT and subject.isprintable()):
        return "Invalid parameter: Subject"
    return None


def _of_structure(message: str, structure: str | None) -> str | None:
    if structure != "json":
        return None
    try:
        parts = json.loads(message)
    except ValueError:
        return "Invalid parameter: Message Structure - JSON message body failed to parse"
    has_default = isinstance(parts, dict) and isinstance(parts.get("default"), str)
    return (
        None
        if has_default
        else "Invalid parameter: Message Structure - No default entry in JSON message body"
    )
