"""The request that a webhook gets for a message: the body of its kind, and the signature."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_never

from lambdas.core.webhooks import Message
from trainyard.protocol.webhooks import Webhook, WebhookKind
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

SLACK_CHARACTERS = 3800
"""Slack shortens longer texts (docs.slack.dev, chat.postMessage: 4,000 characters)."""
DISCORD_CHARACTERS = 1950
"""Discord refuses a `content` above 2,000 characters."""
TEAMS_LINES = 60
TEAMS_CHARACTERS = 20_000
"""Teams refuses a request above 28 KB."""
URL_CHARACTERS = 200_000
USER_AGENT = "Trainyard"


@dataclass(frozen=True)
class HookRequest:
    body: bytes
    headers: Mapping[str, str]


def make_request(hook: Webhook, message: Message, now: datetime) -> HookRequest:
    """Return the request. Each try has the same id and its own time, so that a receiver can refuse old requests."""
    body = json.dumps(_body(hook.kind, message), ensure_ascii=False, separators=(",", ":")).encode()
    headers = {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
    }
    if hook.key:
        headers["webhook-signature"] = sign(hook.key, message.id, headers["webhook-timestamp"], body)
    return HookRequest(body, headers)


def sign(key: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of Standard Webhooks (github.com/standard-webhooks/standard-webhooks)."""
    secret = base64.b64decode(key.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()}"


def _body(kind: WebhookKind, message: Message) -> dict[str, Any]:
    match kind:
        case WebhookKind.SLACK:
            return _slack(message)
        case WebhookKind.TEAMS:
            return _teams(message)
        case WebhookKind.DISCORD:
            title = f"**{message.subject}**\n{message.text}"
            return {"content": shorten(title, DISCORD_CHARACTERS), "allowed_mentions": {"parse": []}}
        case WebhookKind.URL:
            return {
                "type": message.kind.value,
                "timestamp": serialization.timestamp(message.at),
                "data": {
                    "run": message.run,
                    "submitter": message.submitter,
                    "subject": message.subject,
                    "text": shorten(message.text, URL_CHARACTERS),
                },
            }
    assert_never(kind)


def _slack(message: Message) -> dict[str, Any]:
    """Return a text in Slack's format, with `<` and `&` escaped: a job's name cannot mention a channel."""
    text = f"*{message.subject}*\n{shorten(message.text, SLACK_CHARACTERS)}"
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped, "unfurl_links": False}


def _teams(message: Message) -> dict[str, Any]:
    """Return an adaptive card, which the workflow "Post to a channel when a webhook request is received" posts."""
    lines = shorten(message.text, TEAMS_CHARACTERS).splitlines()
    shown = [*lines[:TEAMS_LINES], *(["..."] if len(lines) > TEAMS_LINES else [])]
    blocks = [
        {"type": "TextBlock", "text": message.subject, "weight": "Bolder", "wrap": True},
        *({"type": "TextBlock", "text": line, "wrap": True, "spacing": "None"} for line in shown if line),
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def shorten(text: str, most: int) -> str:
    """Return the text with at most `most` characters, with dots in place of its end."""
    text = text.rstrip("\n")
    return text if len(text) <= most else f"{text[: most - 4]}\n..."
