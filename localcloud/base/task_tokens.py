"""Task tokens. They are opaque to clients and encode the ARN of the waiting state machine.

IAM checks SendTaskSuccess against that ARN, even long after the task has ended.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets

PREFIX = "AQCEAAAAKgAAAAMAAAAA"
"""Prefix of AWS's tokens. A token without the prefix is not ours."""


def issue(state_machine: str) -> str:
    """Return a new token for a task of this state machine."""
    content = json.dumps([state_machine, secrets.token_urlsafe(24)]).encode()
    return PREFIX + base64.b64encode(content).decode()


def machine_of(token: str) -> str | None:
    """Return the ARN of the token's state machine, or None if the text is not a token."""
    if not token.startswith(PREFIX):
        return None
    try:
        content = json.loads(base64.b64decode(token[len(PREFIX) :], validate=True))
    except (binascii.Error, ValueError):
        return None
    return str(content[0]) if isinstance(content, list) and content else None
