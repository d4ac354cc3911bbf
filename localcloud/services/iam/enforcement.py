"""Enforcement of permissions, around ministack's own check, which judges one pair at a time."""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ministack.core import iam_evaluator
from ministack.services import s3

from localcloud.patches import MINISTACK
from localcloud.services.iam import headers, keys
from localcloud.services.iam.checks import Check, skip
from localcloud.services.iam.expansion import checks_of
from localcloud.services.iam.requests import Request

_request: contextvars.ContextVar[Request | None] = contextvars.ContextVar("iam_request", default=None)
_denied: contextvars.ContextVar[Check | None] = contextvars.ContextVar("iam_denied", default=None)

PATH_CONDITIONS: dict[str, Callable[[str, str], Mapping[str, str]]] = {}
"""For each service: a function from service and source address to the condition keys of the network path."""
_stock_enforce: list[Any] = []
_stock_tags: list[Any] = []
RPC_OPERATION = re.compile(r"/service/\w+/operation/(\w+)$")


def install() -> None:
    """Wrap ministack's check, its denial, and its view of a request's transport."""
    stock_tags = MINISTACK.stock("core.iam_actions:request_tag_context")
    _stock_tags.append(stock_tags)
    _stock_enforce.append(MINISTACK.stock("core.iam_evaluator:enforce"))
    stock_denial = MINISTACK.stock("core.iam_actions:access_denied_response")
    stock_action = MINISTACK.stock("core.iam_actions:extract_iam_action")
    stock_origin = MINISTACK.stock("core.iam_evaluator:pin_request_origin")
    namespaces = MINISTACK.stock("core.iam_actions:SERVICE_TO_IAM_NAMESPACE")

    def remember_request(service: str, iam_action: str, body: bytes, params: Mapping[str, Any]) -> Any:
        """Remember the request before its check. Only this call receives all parts of it."""
        _request.set(Request(service, iam_action, body, params))
        _denied.set(None)
        return stock_tags(service, iam_action, body, params)

    def enforce_every_pair(
        access_key_id: str,
        iam_action: str,
        service: str,
        region: str,
        resource_arn: str = "*",
        service_context: Mapping[str, Any] | None = None,
    ) -> Any:
        request = _request.get()
        base = Check(iam_action, resource_arn, _lower(service_context or {}) | _way(service))
        if service == "s3":
            checks = [
                base,
                *_check_listing(base),
                *headers.checks_of(base),
                *keys.checks_of(request, service, base),
            ]
        elif service in ("dynamodb", "sns"):
            checks = [base, *keys.checks_of(request, service, base)]
        elif request is None or request.action != iam_action or service not in _EXPANDED:
            checks = [base]
        elif request.expanded:
            return None  # ministack calls this for every further resource; the first call judged all
        else:
            request.expanded = True
            checks = checks_of(request, base)
        denial = first_denial(access_key_id, service, region, checks)
        if denial is None:
            return None
        _denied.set(denial.check)
        return denial.answer

    def denial_that_names_the_pair(
        service: str, action: str, principal_arn: str, request_id: str, **more: Any
    ) -> Any:
        failed = _denied.get()
        if failed is None or more.get("error_code"):
            return stock_denial(service, action, principal_arn, request_id, **more)
        if not more.get("resource_policy_arn"):
            deny = bool(more.get("explicit_deny"))
            more["message"] = denial_message(service, failed, principal_arn, explicit_deny=deny)
        more["resource_arn"] = failed.resource
        return stock_denial(service, failed.action, principal_arn, request_id, **more)

    def action_of_every_protocol(
        service: str,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        query: Mapping[str, Any],
    ) -> str | None:
        """Return the action in every protocol. ministack lets requests pass if it cannot parse their action."""
        rpc = RPC_OPERATION.search(path)
        if rpc and service in namespaces:
            return f"{namespaces[service]}:{rpc[1]}"
        found: str | None = stock_action(service, method, path, headers, body, query)
        return found

    def loopback_is_secure(source_ip: str, secure_transport: bool) -> None:
        """Treat plain http on loopback as TLS, so that policies that demand TLS need no change."""
        stock_origin(source_ip, True)

    headers.install()
    MINISTACK.replace("core.iam_actions:request_tag_context", remember_request)
    MINISTACK.replace("core.iam_actions:access_denied_response", denial_that_names_the_pair)
    MINISTACK.replace("core.iam_actions:extract_iam_action", action_of_every_protocol)
    MINISTACK.replace("core.iam_evaluator:enforce", enforce_every_pair)
    MINISTACK.replace("core.iam_evaluator:pin_request_origin", loopback_is_secure)
    MINISTACK.replace("app:pin_request_origin", loopback_is_secure)


def _way(service: str) -> dict[str, str]:
    """Return the condition keys of the connection. Empty for a request that a service makes itself."""
    find, came = PATH_CONDITIONS.get(service), iam_evaluator._request_origin.get()
    return dict(find(service, came[0])) if find and came else {}


def _check_listing(check: Check) -> list[Check]:
    """Return the check for a missing object: callers without s3:ListBucket get "denied" instead of "not found"."""
    name, _, key = check.resource.removeprefix("arn:aws:s3:::").partition("/")
    bucket = s3._buckets.get(name)
    if check.action != "s3:GetObject" or bucket is None or key in bucket["objects"]:
        return []
    return [Check("s3:ListBucket", f"arn:aws:s3:::{name}", check.context)]


_EXPANDED = frozenset(
    {
        "ec2",
        "ssm",
        "lambda",
        "states",
        "events",
        "scheduler",
        "monitoring",
        "cloudformation",
        "iam",
        "servicequotas",
        "pricing",
        "kms",
    }
)
"""Services whose requests `expansion` splits. S3 and DynamoDB pass their pairs to ministack themselves."""


@dataclass(frozen=True)
class Denial:
    """A failed check and ministack's result (an EvalResult or an AuthError)."""

    check: Check
    answer: Any

    def message(self, service: str, principal_arn: str) -> str:
        """Return AWS's message with caller, action, resource and reason."""
        if not hasattr(self.answer, "decision"):
            return str(self.answer.message)
        return denial_message(
            service, self.check, principal_arn, explicit_deny=self.answer.decision == "Deny"
        )


def first_denial(access_key_id: str, service: str, region: str, checks: Iterable[Check]) -> Denial | None:
    """Return the first failed check for the holder of this key, or None. Optional checks are skipped instead."""
    skipped = []
    for check in checks:
        context = {key: value for key, value in check.context.items() if value is not None}
        asked = "kms" if check.action.startswith("kms:") else service  # a key has its own policy
        answer = _stock_enforce[0](
            access_key_id, check.action, asked, region, resource_arn=check.resource, service_context=context
        )
        if answer and check.optional:
            skipped.append(check)
        elif answer:
            return Denial(check, answer)
    skip(skipped)
    return None


def denial_message(service: str, failed: Check, principal_arn: str, *, explicit_deny: bool = False) -> str:
    """Return AWS's message for a denial."""
    reason = (
        "with an explicit deny in an identity-based policy"
        if explicit_deny
        else f"because no identity-based policy allows the {failed.action} action"
    )
    opening = "You are not authorized to perform this operation. " if service == "ec2" else ""
    return (
        f"{opening}User: {principal_arn} is not authorized to perform: {failed.action} "
        f"on resource: {failed.resource} {reason}"
    )


def request_tags(service: str, action: str, body: bytes, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return aws:RequestTag/... and aws:TagKeys of a request that did not come over the network."""
    found: dict[str, Any] = _stock_tags[0](service, action, body, parameters)
    return found


def _lower(context: Mapping[str, Any]) -> dict[str, Any]:
    return {key.lower(): value for key, value in context.items()}
