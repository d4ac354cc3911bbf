"""Task tokens: opaque to whoever holds one, yet telling us which state machine waits for it.

IAM judges an answer by the state machine it goes to, also when the task is long over.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets

PREFIX = "AQCEAAAAKgAAAAMAAAAA"
"""What AWS's tokens begin with, more or less; a token without it is none of ours."""


def issue(state_machine: str) -> str:
    """A new token for a task of this state machine."""
    content = json.dumps([state_machine, secrets.token_urlsafe(24)]).encode()
    return PREFIX + base64.b64encode(content).decode()


def machine_of(token: str) -> str | None:
    """The ARN of the state machine that waits (or waited) for this token; None when it is not a token."""
    if not token.startswith(PREFIX):
        return None
    try:
        content = json.loads(base64.b64decode(token[len(PREFIX) :], validate=True))
    except (binascii.Error, ValueError):
        return None
    return str(content[0]) if isinstance(content, list) and content else None
