"""STS as far as ministack takes what AWS refuses: how long a session may last, and what it may be called.

docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from ministack.core.router import extract_access_key_id
from ministack.services import iam

from localcloud.patches import MINISTACK

SHORTEST, LONGEST, CHAINED = 900, 43_200, 3_600
"""Seconds; the last for who has a session itself."""
NAME = r"[\w+=,.@-]{2,64}"


def install() -> None:
    """Refuse what AWS does before ministack assumes a role."""
    stock = MINISTACK.stock("app:SERVICE_HANDLERS")["sts"]

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Any:
        asked = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        if asked.get("Action") == "AssumeRole":
            wrong = problem(asked, extract_access_key_id(headers, query_params) or "")
            if wrong:
                return iam._error(400, "ValidationError", escape(wrong), ns="sts")
        return await stock(method, path, headers, body, query_params)

    MINISTACK.extend("app:SERVICE_HANDLERS", {"sts": handle})


def problem(asked: Mapping[str, str], access_key: str) -> str | None:
    """What AWS says of a request that it does not even look up; None of one that it may grant."""
    name = asked.get("RoleSessionName", "")
    if not re.fullmatch(NAME, name, re.ASCII):
        return _violated(name, "roleSessionName", f"Member must satisfy regular expression pattern: {NAME}")
    seconds = asked.get("DurationSeconds", str(CHAINED))
    if not seconds.isdigit() or int(seconds) < SHORTEST:
        return _violated(
            seconds, "durationSeconds", f"Member must have value greater than or equal to {SHORTEST}"
        )
    if int(seconds) > LONGEST:
        return _violated(
            seconds, "durationSeconds", f"Member must have value less than or equal to {LONGEST}"
        )
    if access_key.startswith("ASIA") and int(seconds) > CHAINED:
        return "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining"
    role = iam._roles.get(asked.get("RoleArn", "").rpartition("/")[2]) or {}
    if int(seconds) > int(role.get("MaxSessionDuration") or CHAINED):
        return "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
    return None


def _violated(value: str, name: str, constraint: str) -> str:
    return (
        f"1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: {constraint}"
    )
