"""Refusals of Parameter Store that ministack lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ministack.services import ssm as stock

from localcloud.services.ssm.document import SsmError

Request = dict[str, Any]

TYPES = ("String", "StringList", "SecureString")
TIERS = ("Standard", "Advanced", "Intelligent-Tiering")
MOST = {"Standard": 4096, "Advanced": 8192}
"""Maximum size of a value in bytes, by tier."""
POLICIES = ("Expiration", "ExpirationNotification", "NoChangeNotification")
NAME = re.compile(r"[a-zA-Z0-9_.\-/]+")
DEEPEST = 15
READS = ("GetParameter", "GetParameters", "GetParameterHistory", "DeleteParameter")
FILTERS: Mapping[str, tuple[str, ...]] = {
    "Name": ("BeginsWith", "Contains", "Equals"),
    "Path": ("OneLevel", "Recursive"),
    **dict.fromkeys(("Type", "KeyId", "Tier", "DataType"), ("BeginsWith", "Equals")),
}
"""Filters of DescribeParameters and their options."""


def to_ministack(action: str, request: Request) -> Request:
    """Return the request in ministack's form. Raise SsmError if AWS refuses it."""
    if action == "PutParameter":
        return _put(request)
    if action == "DescribeParameters":
        _check_filters(request.get("ParameterFilters") or [])
    if action in READS:
        for name in request.get("Names") or [request.get("Name")]:
            check_name(bare_name(str(name)))
    return request


def bare_name(name: str) -> str:
    """Return the name within an ARN or before a version or a label."""
    return re.sub(r"^arn:[^:]+:ssm:[^:]*:[^:]*:parameter(?=/)", "", name).partition(":")[0]


def _put(request: Request) -> Request:
    name, value = str(request.get("Name", "")), str(request.get("Value", ""))
    check_name(name)
    if not value:
        raise _constraint("", "value", "Member must have length greater than or equal to 1")
    for field, given, allowed in (("type", request.get("Type"), TYPES), ("tier", request.get("Tier"), TIERS)):
        if given is not None and given not in allowed:
            raise _constraint(given, field, f"Member must satisfy enum value set: [{', '.join(allowed)}]")
    tier = request.get("Tier") or stock._default_tier(request, value, stock._parameters.get(name))
    most = MOST.get(tier, MOST["Advanced"])
    if len(value.encode()) > most:
        more = (
            " To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier."
            if tier == "Standard"
            else ""
        )
        raise SsmError(
            "ValidationException",
            f"{tier} tier parameters support a maximum parameter value of {most} characters.{more}",
        )
    policies = request.get("Policies")
    if not policies:
        return request
    if tier == "Standard":
        raise SsmError("ValidationException", "Parameter policies are only supported for the advanced tier.")
    return {**request, "Policies": _policies(policies)}


def check_name(name: str) -> None:
    """Refuse an invalid name."""
    if not NAME.fullmatch(name) or ("/" in name and not name.startswith("/")) or "//" in name:
        raise SsmError(
            "ValidationException",
            'Parameter name: can\'t be prefixed with "ssm" (case-insensitive). If formed as a path, it can consist of '
            "sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, numbers and the "
            "following 3 symbols .-_",
        )
    if name.count("/") > DEEPEST:
        raise SsmError(
            "HierarchyLevelLimitExceededException",
            f"The hierarchy can have a maximum of {DEEPEST} levels.",
        )


def _policies(text: str) -> list[Request]:
    """Return the policies in the format of DescribeParameters."""
    try:
        policies = [(policy, str(policy["Type"])) for policy in json.loads(text)]
    except (KeyError, TypeError, ValueError) as wrong:
        raise SsmError(
            "InvalidPolicyAttributeException", "The parameter policies are not valid JSON."
        ) from wrong
    for policy, kind in policies:
        if kind not in POLICIES:
            raise SsmError(
                "InvalidPolicyTypeException",
                f"The policy type {kind} is not supported. Supported are {', '.join(POLICIES)}.",
            )
        if not isinstance(policy.get("Attributes"), dict):
            raise SsmError("InvalidPolicyAttributeException", f"The policy {kind} has no Attributes.")
    return [
        {"PolicyText": json.dumps(policy), "PolicyType": kind, "PolicyStatus": "Pending"}
        for policy, kind in policies
    ]


def _check_filters(filters: list[Request]) -> None:
    for each in filters:
        key, option = str(each.get("Key", "")), each.get("Option")
        if key.startswith("tag:"):
            continue
        if key not in FILTERS:
            raise SsmError(
                "InvalidFilterKey",
                f"The following filter key is not valid: {key}. "
                f"Valid filter keys include: [{', '.join(FILTERS)}, tag:].",
            )
        if option is not None and option not in FILTERS[key]:
            raise SsmError(
                "InvalidFilterOption",
                f"The following filter option is not valid: {option}. "
                f"Valid options include: [{', '.join(FILTERS[key])}].",
            )


def _constraint(value: Any, field: str, wanted: str) -> SsmError:
    return SsmError(
        "ValidationException",
        f"1 validation error detected: Value '{value}' at '{field}' failed to satisfy constraint: {wanted}",
    )
