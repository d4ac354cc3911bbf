"""Permissions for sessions: their owners, opening of channels, and agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ministack.core import iam_evaluator
from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.core.router import extract_access_key_id

from localcloud.base.upgrades import Refusal, Upgrade
from localcloud.services.iam import enforcement
from localcloud.services.iam.checks import Check
from localcloud.services.iam.requests import Request
from localcloud.services.ssm.session import Caller, Session
from localcloud.services.ssm.sessions import CHANNEL_ACTIONS, Sessions

OPEN = "ssmmessages:OpenDataChannel"
SERVICE = "ssmmessages"


def caller(headers: Mapping[str, str], query: Mapping[str, Any]) -> Caller:
    """Return the signer of this request, and the endpoint's name that it used."""
    key = extract_access_key_id(dict(headers), query) or ""
    known = iam_evaluator.resolve_caller_identity(key) or {}
    return Caller(str(known.get("userArn", "")), str(known.get("userId", "")), headers.get("host", ""))


def expanders(sessions: Sessions) -> dict[str, Callable[[Request, Check], list[Check] | None]]:
    """Return the checks for resuming and terminating a session, including its owner's tag."""

    def of_session(request: Request, base: Check) -> list[Check]:
        session_id = str(request.fields().get("SessionId", ""))
        found = sessions.get(session_id)
        return [Check(request.action, arn(session_id), {**base.context, **condition_keys(found)})]

    return dict.fromkeys(("ssm:ResumeSession", "ssm:TerminateSession"), of_session)


def arn(session_id: str) -> str:
    return f"arn:aws:ssm:{get_region()}:{get_account_id()}:session/{session_id}"


def condition_keys(session: Session | None) -> dict[str, str]:
    """Return the session's tags as condition keys."""
    tags = session.tags() if session else {}
    return {f"{prefix}:resourcetag/{key}": value for key, value in tags.items() for prefix in ("aws", "ssm")}


def may_hold_sessions(access_key: str, account: str, region: str) -> bool:
    with request_scope(account, region):
        checks = [Check(action, "*") for action in CHANNEL_ACTIONS]
        return enforcement.first_denial(access_key, SERVICE, region, checks) is None


def refusal(upgrade: Upgrade, session: Session, account: str, region: str) -> Refusal | None:
    """Check the permission of a signed opening. An unsigned one, by clients before 1.2.764, needs only its token."""
    scope = {
        "raw_path": upgrade.path.encode(),
        "path": upgrade.path,
        "query_string": upgrade.query.encode(),
        "headers": list(upgrade.raw_headers),
    }
    with request_scope(account, region):
        checked = iam_evaluator.authenticate_handshake(scope, SERVICE)
        if isinstance(checked, iam_evaluator.AuthError):
            return Refusal(403, str(checked.message))
        key = extract_access_key_id(dict(upgrade.headers), None)
        if not key:
            return None
        opening = Check(OPEN, arn(session.id), condition_keys(session))
        denial = enforcement.first_denial(key, SERVICE, region, [opening])
        if denial is None:
            return None
        known = iam_evaluator.resolve_caller_identity(key) or {}
        return Refusal(403, denial.message(SERVICE, str(known.get("userArn", ""))))
