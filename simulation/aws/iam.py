"""IAM: decides by the synthesised policies, with the evaluator of the local cloud (ministack's).

The evaluator handles explicit denies, wildcards, conditions, NotAction and resource policies. This module
selects the statements on the action, caches verdicts, and refuses anything that the evaluator would ignore
silently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ministack.core.iam_evaluator import (
    EvalContext,
    EvalResult,
    ParsedStatement,
    combine_resource_policy,
    evaluate,
    evaluate_resource_policy,
    fnmatch_iam,
    parse_policy_document,
)

from localcloud.services.iam import variables
from simulation.aws.endpoint.api import ACCOUNT, REGION, Caller, Check, ServiceError
from simulation.aws.endpoint.parameters import not_simulated

Document = Mapping[str, Any]
"""A policy as JSON, with all references resolved."""
MOST_REMEMBERED = 1_000
"""The maximum number of cached verdicts. Names differ between worlds, so a larger cache would only grow."""

OPERATORS = frozenset(
    {
        "StringEquals", "StringNotEquals", "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase",
        "StringLike", "StringNotLike", "ArnEquals", "ArnNotEquals", "ArnLike", "ArnNotLike", "Bool", "Null",
        "NumericEquals", "NumericNotEquals", "NumericLessThan", "NumericLessThanEquals",
        "NumericGreaterThan", "NumericGreaterThanEquals",
    }
)  # fmt: skip
"""The condition operators that the evaluator implements without the wall clock."""
USER_ID_VARIABLE = "${aws:userid}"
"""The only supported policy variable."""
STATEMENT = frozenset(
    {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition", "Principal"}
)


class Verdict(StrEnum):
    ALLOWED = "allowed"
    NOT_ALLOWED = "no policy allows it"
    NOT_BY_SESSION = "the session's policy does not allow it"
    DENIED = "an identity policy denies it"
    DENIED_BY_RESOURCE = "the resource's policy denies it"


@dataclass(frozen=True)
class Refusal:
    """The error that a service returns for a denied request."""

    code: str
    status: int
    opening: str = ""
    quote: str = ""


JSON = Refusal("AccessDeniedException", 400)
REFUSALS: Mapping[str, Refusal] = {
    "ec2": Refusal(
        "UnauthorizedOperation", 403, opening="You are not authorized to perform this operation. "
    ),
    "s3": Refusal("AccessDenied", 403, quote='"'),
    "sns": Refusal("AuthorizationError", 403),
    "sqs": Refusal("AccessDenied", 403),
    "sts": Refusal("AccessDenied", 403),
    "iam": Refusal("AccessDenied", 403),
    "cloudwatch": Refusal("AccessDenied", 403),
    "cloudformation": Refusal("AccessDenied", 403),
    "lambda": Refusal("AccessDeniedException", 403),
}
"""By the service's name in boto3; the default is for services with a JSON protocol."""


@dataclass(frozen=True)
class ActionStatements:
    """The statements of a role on an action, in order."""

    statements: Sequence[ParsedStatement]
    is_per_caller: bool
    """True if a policy variable makes them depend on the caller."""


class Iam:
    """The policies of an account.

    `roles`: policy documents by role ARN. `trusts`: trust policies by role ARN. `resources`: the policies of
    buckets, topics and queues by their ARNs.
    """

    def __init__(
        self,
        roles: Mapping[str, Sequence[Document]],
        *,
        trusts: Mapping[str, Document] | None = None,
        resources: Mapping[str, Document] | None = None,
    ) -> None:
        self._trusts = dict(trusts or {})
        self._resources = dict(resources or {})
        for document in (*self._resources.values(), *self._trusts.values()):
            _check_understood(document)
            if any("${" in text for text in _texts(document)):
                raise not_simulated(f"a policy variable in a resource's own policy: {document}")
        self._roles = {role: _statements(documents) for role, documents in roles.items()}
        self._by_action: dict[tuple[str, str], ActionStatements] = {}
        self._verdicts: dict[tuple[Any, ...], Verdict] = {}

    def first_denied(self, caller: Caller, checks: Iterable[Check]) -> Check | None:
        """Return the first check that the caller lacks permission for, or None."""
        if caller.role == "root":
            return None
        return next((each for each in checks if self.verdict(caller, each) is not Verdict.ALLOWED), None)

    def may(self, caller: Caller, check: Check) -> bool:
        """Return True if the caller has the permission."""
        return self.first_denied(caller, (check,)) is None

    def denial(self, check: Check, caller: Caller, service: str) -> ServiceError:
        """Return the error of AWS for a denied check. `service` is its name in boto3."""
        form = REFUSALS.get(service, JSON)
        return ServiceError(form.code, self._sentence(check, caller, form), status=form.status)

    def trusts_role(self, role: str, other: str) -> bool:
        """Return True if the other role may assume the role."""
        return any(
            statement["Effect"] == "Allow"
            and other in _as_list((statement.get("Principal") or {}).get("AWS"))
            and "sts:AssumeRole" in _as_list(statement.get("Action"))
            for statement in _as_list((self._trusts.get(role) or {}).get("Statement"))
        )

    def allows_service(self, service: str, check: Check) -> bool:
        """Return True if the resource's policy allows the action for an AWS service (`events.amazonaws.com`)."""
        document = self._policy_of(check.resource)
        context = _context(f"service:{service}", check)
        found: EvalResult = evaluate_resource_policy(document, context, service=service)
        return bool(found.decision == "Allow")

    def verdict(self, caller: Caller, check: Check) -> Verdict:
        """Return the verdict on a caller. It is cached by role, or by caller if a policy depends on the caller."""
        is_per_caller = self._statements_on(caller.role, check.action).is_per_caller
        who = (user_id(caller) if is_per_caller else caller.role, caller.session, caller.vpc)
        question = (who, check.action, check.resource, _frozen(check.context))
        found = self._verdicts.get(question)
        if found is None:
            if len(self._verdicts) >= MOST_REMEMBERED:
                self._verdicts.clear()
            found = self._verdicts[question] = self._judge(caller, check)
        return found

    def _judge(self, caller: Caller, check: Check) -> Verdict:
        context = _context(session_arn(caller), check, user_id(caller), caller.vpc)
        on_action = self._statements_on(caller.role, check.action)
        statements = [variables.fill_in(each, context) for each in on_action.statements]
        answer: EvalResult = evaluate(context, [statements])
        document = self._policy_of(check.resource)
        if document is not None:
            answer = combine_resource_policy(answer, context, document, ACCOUNT)
        if answer.decision == "Allow":
            return Verdict.ALLOWED if _session_allows(caller, context) else Verdict.NOT_BY_SESSION
        if answer.decision == "ImplicitDeny":
            return Verdict.NOT_ALLOWED
        return Verdict.DENIED_BY_RESOURCE if answer.resource_policy_arn else Verdict.DENIED

    def _statements_on(self, role: str, action: str) -> ActionStatements:
        if (role, action) not in self._by_action:
            if role not in self._roles:
                raise not_simulated(f"the role {role}")
            found = [each for each in self._roles[role] if _is_about(each, action)]
            self._by_action[role, action] = ActionStatements(
                found, any(variables.are_in(each) for each in found)
            )
        return self._by_action[role, action]

    def _policy_of(self, resource: str) -> Document | None:
        if resource.startswith("arn:aws:s3:::"):
            resource = resource.partition("/")[0]
        return self._resources.get(resource)

    def _sentence(self, check: Check, caller: Caller, form: Refusal) -> str:
        verdict = Verdict.DENIED if caller.role == "root" else self.verdict(caller, check)
        kind = "session" if verdict is Verdict.NOT_BY_SESSION else "identity-based"
        reason = {
            Verdict.DENIED: "with an explicit deny in an identity-based policy",
            Verdict.DENIED_BY_RESOURCE: "with an explicit deny in a resource-based policy",
        }.get(verdict, f"because no {kind} policy allows the {check.action} action")
        return (
            f"{form.opening}User: {session_arn(caller)} is not authorized to perform: {check.action} "
            f"on resource: {form.quote}{check.resource}{form.quote} {reason}"
        )


def _session_allows(caller: Caller, context: EvalContext) -> bool:
    """Return True if the session's policy allows the request, too, or there is none."""
    if caller.session is None:
        return True
    answer: EvalResult = evaluate(context, [_statements([json.loads(caller.session)])])
    return bool(answer.decision == "Allow")


def session_arn(caller: Caller) -> str:
    """Return the ARN of the session of the assumed role."""
    if caller.role == "root":
        return f"arn:aws:iam::{ACCOUNT}:root"
    role = caller.role.rpartition("/")[2]
    return f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{caller.instance or caller.name}"


def role_id(role: str) -> str:
    """Return the unique id of a role in IAM."""
    return f"AROA{hashlib.sha256(role.encode()).hexdigest()[:17].upper()}"


def user_id(caller: Caller) -> str:
    """Return the caller's aws:userid: the id of the role and the name of the session."""
    return f"{role_id(caller.role)}:{caller.instance or caller.name}"


def _context(principal: str, check: Check, user: str = "", vpc: str | None = None) -> EvalContext:
    # A request without tags has no aws:TagKeys.
    question = {"aws:tagkeys": None, **check.context}
    if vpc and check.action.startswith("s3:"):
        question["aws:sourcevpc"] = vpc
    return EvalContext(
        principal_arn=principal,
        principal_type="AssumedRole",
        principal_account=ACCOUNT,
        action=check.action,
        resource_arn=check.resource,
        region=REGION,
        source_ip="203.0.113.9",
        secure_transport=str(question.get("aws:securetransport", "true")) == "true",
        service_context=question,
        principal_keys={"aws:userid": user} if user else {},
    )


def _statements(documents: Sequence[Document]) -> list[ParsedStatement]:
    for document in documents:
        _check_understood(document)
    return [statement for document in documents for statement in parse_policy_document(dict(document))]


def _is_about(statement: ParsedStatement, action: str) -> bool:
    if statement.actions:
        return any(fnmatch_iam(action, pattern) for pattern in statement.actions)
    return not any(fnmatch_iam(action, pattern) for pattern in statement.not_actions)


def _check_understood(document: Document) -> None:
    """Raises NotSimulated for anything that the evaluator would ignore silently."""
    for statement in _as_list(document.get("Statement")):
        unknown = sorted(set(statement) - STATEMENT)
        if unknown:
            raise not_simulated(f"a policy with {unknown[0]}")
        for operator, facts in (statement.get("Condition") or {}).items():
            name = operator.removesuffix("IfExists").rpartition(":")[2]
            if name not in OPERATORS:
                raise not_simulated(f"the condition operator {operator}")
            if any(key.lower() in ("aws:currenttime", "aws:epochtime", "aws:sourceip") for key in facts):
                raise not_simulated(f"a condition on {', '.join(sorted(facts))}")
        for text in _texts(statement):
            if "${" in text.replace(USER_ID_VARIABLE, ""):
                raise not_simulated(f"the policy variable in {text}")
            if text.startswith("{") or "Fn::" in text:
                raise not_simulated(f"a policy that is not resolved: {text}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key in ("Ref", "Fn::GetAtt", "Fn::Join", "Fn::Sub", "Fn::ImportValue"):
                raise not_simulated(f"a policy that is not resolved: {value}")
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _frozen(context: Mapping[str, str | list[str]]) -> tuple[tuple[str, Any], ...]:
    if not context:
        return ()
    return tuple(
        sorted((key, value if isinstance(value, str) else tuple(value)) for key, value in context.items())
    )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
