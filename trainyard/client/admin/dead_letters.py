"""Events that were given up: an event that no target received, one on which a function failed three times, or a message
that a webhook refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from trainyard.values.text import printable

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

MOST_READ = 50
HIDDEN_SECONDS = 20
"""The time for which other readers do not see the messages, so that each is read once."""
MOST_CHARACTERS = 800
"""The longest reason that is shown."""
NEVER_DELIVERED = "EventBridge could not deliver it"


@dataclass(frozen=True)
class DeadLetter:
    """An event that was given up."""

    subject: str
    """The subject of the event: an uploaded object, a run, or a model."""
    reason: str
    """The last error of the function. It names the command that repeats the request, if there is one."""

    @classmethod
    def of(cls, body: str) -> Self:
        """Return the event in a message of the queue. Lambda wraps the event into a report, EventBridge does not."""
        try:
            found = json.loads(body)
        except ValueError:
            found = {}
        found = found if isinstance(found, dict) else {}
        if "webhook" in found:
            return cls(_subject(found), printable(str(found.get("reason", "")), MOST_CHARACTERS))
        event, error = found.get("requestPayload", found), found.get("responsePayload")
        function = str((found.get("requestContext") or {}).get("functionArn", "")).rpartition(":function:")[2]
        if not isinstance(error, dict):
            return cls(_subject(event), NEVER_DELIVERED)
        said = error.get("errorMessage") or error.get("errorType") or "it failed without a message"
        first_line = str(said).partition("\n")[0]  # the report of a crash has a traceback below it
        reason = f"{function.partition(':')[0]} failed on it three times: {first_line}"
        return cls(_subject(event), printable(reason, MOST_CHARACTERS))


def read(yard: Deployment) -> Iterator[DeadLetter]:
    """Yield the events in the queue, at most MOST_READ. They stay there. Raise Denied if the caller may not read the
    queue, which only operators may."""
    client = yard.session.client("sqs")
    url = queue_url(yard)
    seen = set[str]()
    while len(seen) < MOST_READ:
        messages = client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=HIDDEN_SECONDS
        ).get("Messages", [])
        new = [each for each in messages if each["MessageId"] not in seen]
        if not new:
            return
        seen |= {each["MessageId"] for each in new}
        yield from (DeadLetter.of(each["Body"]) for each in new)


def queue_url(yard: Deployment) -> str:
    """Return the address of the queue."""
    endpoint = yard.session.client("sqs").meta.endpoint_url
    return f"{endpoint}/{yard.account}/{yard.name.lower()}-dead-letters"


def _subject(event: Any) -> str:
    """Return the subject of an event, or of a message to a webhook."""
    if not isinstance(event, Mapping):
        return "an event"
    if message := _message_of(event):
        return printable(f"message {json.dumps(message, ensure_ascii=False)}", 200)
    detail = event.get("detail")
    detail = detail if isinstance(detail, Mapping) else {}
    kind, uploaded = str(event.get("detail-type", "event")), detail.get("object")
    if isinstance(uploaded, Mapping):
        return printable(f"upload of {uploaded.get('key')}", 200)
    about = detail.get("run") or detail.get("model") or event.get("run") or detail.get("name")
    return printable(f"{kind} about {about}" if about else kind, 200)


def _message_of(event: Mapping[str, Any]) -> str:
    """Return the subject of a message of the yard's topic, in a letter of `notify` or in an event of SNS."""
    if "webhook" in event:
        return str(event.get("subject", ""))
    try:
        return str(event["Records"][0]["Sns"]["Subject"])
    except (LookupError, TypeError):
        return ""
