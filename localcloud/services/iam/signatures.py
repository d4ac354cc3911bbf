"""Verification of signatures before any service or admin route of ministack sees a request, also for the root.

ministack accepts unsigned requests to S3, takes the key `test` and any account id as the root without verification, and
has routes in front of its check (health, reset, messages, CORS). All of these are disabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ministack import app
from ministack.core import iam_evaluator
from ministack.core.iam_evaluator import AuthError
from ministack.core.responses import get_account_id
from ministack.core.router import detect_service, extract_access_key_id
from ministack.services import s3, sts

from localcloud.base.context import ACCOUNT
from localcloud.base.root_key import RootKey
from localcloud.patches import MINISTACK

Answer = tuple[int, dict[str, str], bytes]

CUSTOM_RESOURCES = "/_ministack/cfn-response/"
"""Prefix of callback URLs for custom resources; a random token follows. AWS uses a presigned URL."""
UNSIGNED = "MissingAuthenticationToken"
"""The code of the failure of a request without a signature."""


class SignatureRefused(tuple[int, dict[str, str], bytes]):
    """The answer to a request whose signature is missing or wrong."""

    code: str
    """The kind of the failure, whatever the answer calls it."""

    def __new__(cls, answer: Answer, code: str) -> Self:
        made = super().__new__(cls, answer)
        made.code = code
        return made


def install(root: RootKey) -> None:
    """Make the holder of this key the only root, and refuse each request without a valid signature."""
    stock_shortcuts = MINISTACK.stock("app:_handle_post_body_shortcuts")

    async def verified(
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: Mapping[str, Any],
        request_id: str,
    ) -> Answer | None:
        """Verify a request once its body is complete, before any handler. Return an error answer or None."""
        if path.startswith(CUSTOM_RESOURCES):
            shortcut: Answer | None = await stock_shortcuts(method, path, headers, body, query, request_id)
            return shortcut
        if _is_presigned_for_s3():
            unfit: Answer | None = s3._verify_presigned_sigv4(method, path, headers, query)
            return unfit
        failure = _failure(headers, query)
        if failure is None:
            return None
        parameters = app._routing_params(method, path, headers, body, query)
        service = detect_service(method, path, headers, parameters)
        shown = failure
        if service == "s3" and failure.code == UNSIGNED:
            shown = AuthError("AccessDenied", "Access Denied")
        return SignatureRefused(
            app._credential_failure(service, "", request_id, shown, headers), failure.code
        )

    async def no_route(*_: Any) -> None:
        """Disable a route in front of the check."""

    MINISTACK.replace("core.iam_evaluator:is_root_access_key", lambda _: False)
    MINISTACK.replace("app:_handle_pre_body_request", no_route)
    MINISTACK.replace("app:_handle_post_body_shortcuts", verified)
    sts._sessions[root.access_key_id] = {
        "Arn": f"arn:aws:iam::{ACCOUNT}:root",
        "UserId": ACCOUNT,
        "AccountId": ACCOUNT,
        "PrincipalType": "Root",
        "SecretAccessKey": root.secret_access_key,
    }


def _is_presigned_for_s3() -> bool:
    request = iam_evaluator._signed_request.get()
    return request is not None and request.s3_scoped


def _failure(headers: Mapping[str, str], query: Mapping[str, Any]) -> AuthError | None:
    if iam_evaluator._signed_request.get() is None:  # not a signature
        return AuthError(UNSIGNED, "Request is missing Authentication Token")
    key = extract_access_key_id(dict(headers), query)
    checked = iam_evaluator.authenticate(key, get_account_id())
    if checked is None:  # signed with one key, on behalf of another
        return AuthError("IncompleteSignature", "The request names more than one access key.")
    return checked if isinstance(checked, AuthError) else None
