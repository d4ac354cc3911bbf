"""STS refusals that ministack lacks, and transitive session tags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from ministack.core.router import extract_access_key_id
from ministack.services import iam
from ministack.services import sts as stock_sts

from localcloud.base.assume_role import CHAINED, AssumeRoleRequest, refusal
from localcloud.patches import MINISTACK

TRANSITIVE = "TransitiveTagKeys"
"""Field of a session's record: the tag keys that chained sessions inherit."""


def install() -> None:
    """Check AssumeRole before ministack performs it."""
    stock = MINISTACK.stock("app:SERVICE_HANDLERS")["sts"]

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Any:
        given = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        if given.get("Action") != "AssumeRole":
            return await stock(method, path, headers, body, query_params)
        key = extract_access_key_id(headers, query_params) or ""
        caller = stock_sts._sessions.get(key) or {}
        request = parse_request(given)
        role = iam._roles.get(request.role.rpartition("/")[2]) or {}
        wrong = refusal(
            request,
            is_chained=key.startswith("ASIA"),
            longest=int(role.get("MaxSessionDuration") or CHAINED),
            inherited=caller.get(TRANSITIVE, ()),
        )
        if wrong:
            return iam._error(400, wrong.code, escape(wrong.message), ns="sts")
        answer = await stock(method, path, headers, body, query_params)
        _hand_on(caller, request, answer)
        return answer

    MINISTACK.extend("app:SERVICE_HANDLERS", {"sts": handle})


def parse_request(given: Mapping[str, str]) -> AssumeRoleRequest:
    return AssumeRoleRequest(
        role=given.get("RoleArn", ""),
        name=given.get("RoleSessionName", ""),
        seconds=given.get("DurationSeconds", str(CHAINED)),
        tags=_members(given, r"Tags\.member\.\d+\.Key"),
        transitive=_members(given, r"TransitiveTagKeys\.member\.\d+"),
    )


def _members(given: Mapping[str, str], pattern: str) -> list[str]:
    return [value for name, value in given.items() if re.fullmatch(pattern, name)]


def _hand_on(caller: Mapping[str, Any], request: AssumeRoleRequest, answer: Any) -> None:
    """Give the new session the caller's transitive tags and its own tags."""
    inherited = list(caller.get(TRANSITIVE, ()))
    status, _, body = answer
    if status != 200 or not (inherited or request.transitive):
        return
    text = body.decode() if isinstance(body, bytes) else body
    found = re.search(r"<AccessKeyId>(\w+)</AccessKeyId>", text)
    assert found, text
    session = stock_sts._sessions[found[1]]
    kept = [tag for tag in caller.get("SessionTags") or [] if tag["Key"] in inherited]
    session["SessionTags"] = [*kept, *(session.get("SessionTags") or [])]
    session[TRANSITIVE] = [*inherited, *request.transitive]
