"""Webhooks of a yard, and of the caller. Their URLs and keys are written, and never read."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from trainyard.client.errors import WebhookNotFound, WebhookRefused
from trainyard.client.identity import caller_name
from trainyard.command_line import command_line
from trainyard.core.model import addresses
from trainyard.protocol import webhooks
from trainyard.protocol.webhooks import ME, Webhook, WebhookKind, WebhookListing
from trainyard.values import serialization
from trainyard.values.validation import did_you_mean

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

KEY_BYTES = 32
FUNCTION = "try-webhook"
NOTHING_CHANGED = "nothing was changed"


@dataclass(frozen=True)
class Listed:
    """A registered webhook."""

    name: str
    about: WebhookListing | None
    """None if its description was written by hand."""
    at: datetime
    """When it was registered."""


def make_key() -> str:
    """Return a new key for signatures, in the format of Standard Webhooks."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def add(yard: Deployment, name: str, hook: Webhook, *, replace: bool = False) -> None:
    """Store the webhook. Raise WebhookRefused for a URL of something else, or if the name is in use."""
    parts = addresses.split_url(hook.url)
    if isinstance(parts, str):
        raise WebhookRefused(parts, NOTHING_CHANGED, "copy the URL from the receiver again")
    public = WebhookListing(kind=hook.kind, on=hook.on, named_only=hook.named_only, by=hook.by)
    try:
        yard.session.client("ssm").put_parameter(
            Name=_parameter(yard, name),
            Type="SecureString",
            Value=json.dumps(serialization.to_json(hook)),
            Description=json.dumps(serialization.to_json(public)),
            Overwrite=replace,
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterAlreadyExists":
            raise
        again = command_line("webhook", "add", name, "--kind", hook.kind.value, "--replace")
        raise WebhookRefused(f"the webhook {name} exists already", NOTHING_CHANGED, again) from error


def remove(yard: Deployment, name: str) -> None:
    """Delete the webhook. Raise WebhookNotFound."""
    client = yard.session.client("ssm")
    try:
        client.delete_parameter(Name=_parameter(yard, name))
    except client.exceptions.ParameterNotFound as error:
        raise _not_found(yard, name) from error


def list_all(yard: Deployment) -> list[Listed]:
    """Return the webhooks of the yard by name, and first the caller's own one, which is named ME."""
    mine = webhooks.own_parameter(yard.name.lower(), caller_name(yard.session))
    folder = webhooks.folder(yard.name.lower())
    chosen = [{"Key": "Path", "Option": "Recursive", "Values": [folder]}]
    pages = yard.session.client("ssm").get_paginator("describe_parameters").paginate(ParameterFilters=chosen)
    found = []
    for each in (parameter for page in pages for parameter in page["Parameters"]):
        name = ME if each["Name"] == mine else str(each["Name"]).removeprefix(f"{folder}/")
        if "/" not in name:
            found.append(Listed(name, _read(each.get("Description", "")), each["LastModifiedDate"]))
    return sorted(found, key=lambda each: (each.name != ME, each.name))


def test(yard: Deployment, name: str) -> str:
    """Let the yard send a message to the webhook. Return why the webhook did not take it, or an empty text."""
    payload = json.dumps({"name": name, "user": caller_name(yard.session)})
    function = f"{yard.name.lower()}-{FUNCTION}"
    answer = yard.session.client("lambda").invoke(FunctionName=function, Payload=payload.encode())
    found: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise WebhookRefused(
            f"the function {function} failed: {found.get('errorMessage', found)}",
            "no message was sent",
            f"aws logs tail /{yard.name.lower()}/functions/{FUNCTION}",
        )
    if found["problem"] == webhooks.NOT_REGISTERED:
        raise _not_found(yard, name)
    return str(found["problem"])


def _parameter(yard: Deployment, name: str) -> str:
    if name == ME:
        return webhooks.own_parameter(yard.name.lower(), caller_name(yard.session))
    if not webhooks.is_name(name):
        raise WebhookRefused(f"{name} is not {webhooks.NAMED}", NOTHING_CHANGED, "choose another name")
    return webhooks.parameter(yard.name.lower(), name)


def _read(description: str) -> WebhookListing | None:
    try:
        found = json.loads(description)
    except ValueError:
        return None
    wrong = serialization.faults(WebhookListing, found)
    return None if wrong else serialization.from_json(WebhookListing, found)


def _not_found(yard: Deployment, name: str) -> WebhookNotFound:
    names = [each.name for each in list_all(yard)]
    add_it = command_line("webhook", "add", name, "--kind", WebhookKind.SLACK.value)
    what = "you have no webhook of your own" if name == ME else f"the yard has no webhook {name}"
    known = f"registered: {', '.join(names)}{did_you_mean(name, names)}" if names else "none is registered"
    return WebhookNotFound(what, known, add_it)
