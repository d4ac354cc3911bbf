"""The permissions in the templates, and a yard without one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.infrastructure.assembly import Assembly, as_list, text
from trainyard.client import Yard

MANAGED = "AmazonSSMManagedInstanceCore"


@dataclass(frozen=True)
class Grant:
    """One action on one resource. `statement` is the index of the statement in the inline policy `policy`."""

    stack: str
    role: str
    policy: str
    statement: int
    action: str
    resource: int
    on: str

    def __str__(self) -> str:
        return f"{self.role[:-8]}-{self.action}-{self.on}"


def grants(assembly: Assembly) -> list[Grant]:
    """Return all grants in the order of the templates; instance roles also have AWS's managed policy."""
    found = []
    for role in assembly.resources("AWS::IAM::Role"):
        for policy, number, statement in _statements(assembly, role.name):
            for action in as_list(statement["Action"]):
                for place, resource in enumerate(as_list(statement["Resource"])):
                    on = _short(text(resource)) + (
                        "-marked" if "TagKeys" in str(statement.get("Condition")) else ""
                    )
                    found.append(Grant(role.stack, role.name, policy, number, action, place, on))
        if "ManagedPolicyArns" in role.properties:
            found.append(Grant(role.stack, role.name, "", -1, MANAGED, 0, "attached"))
    return found


def _statements(assembly: Assembly, role: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield each allowing statement of a role: the name of the policy, the index, the statement."""
    for policy in assembly.resources("AWS::IAM::Policy"):
        if {"Ref": role} in policy.properties["Roles"]:
            for number, statement in enumerate(policy.properties["PolicyDocument"]["Statement"]):
                if statement["Effect"] == "Allow":
                    yield policy.properties["PolicyName"], number, statement


def _short(resource: str) -> str:
    """Return a short name of a resource that is unique in its statement."""
    resource = resource.replace("${aws:userid}", "itself")
    words = [word for word in re.split(r"[/*{}.]+", resource.rsplit(":", 1)[-1]) if word not in ("", "Arn")]
    return "-".join(_plain(word) for word in words) or "all"


def _plain(word: str) -> str:
    """Remove CloudFormation's hashes: `ExportsOutputFnGetAttBucket83908E77Arn063C8555` becomes `Bucket`."""
    exported = re.fullmatch(
        r"ExportsOutput(?:FnGetAtt|Ref)(.+?)[0-9A-F]{8}(?:Arn|GroupId)?(?:[0-9A-F]{8})?", word
    )
    return re.sub(r"[0-9A-F]{8}$", "", exported[1] if exported else word)


def physical(yard: Yard, stack: str, logical: str) -> str:
    """Return the physical name of a resource."""
    detail = yard.session.client("cloudformation").describe_stack_resource(
        StackName=stack, LogicalResourceId=logical
    )
    return str(detail["StackResourceDetail"]["PhysicalResourceId"])


@contextmanager
def taken_away(yard: Yard, grant: Grant) -> Iterator[str]:
    """Remove a permission from the yard and yield the name of its role."""
    role = physical(yard, grant.stack, grant.role)
    iam = yard.session.client("iam")
    if grant.action == MANAGED:
        (attached,) = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        iam.detach_role_policy(RoleName=role, PolicyArn=attached["PolicyArn"])
        try:
            yield role
        finally:
            iam.attach_role_policy(RoleName=role, PolicyArn=attached["PolicyArn"])
        return
    policy = grant.policy
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    left = {**document, "Statement": list(less(document["Statement"], grant))}
    if left["Statement"]:
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(left))
    else:
        iam.delete_role_policy(RoleName=role, PolicyName=policy)
    try:
        yield role
    finally:
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))


def less(statements: list[dict[str, Any]], grant: Grant) -> Iterator[dict[str, Any]]:
    """Split the statement: other actions keep all resources, and the action keeps the other resources."""
    for number, statement in enumerate(statements):
        if number != grant.statement:
            yield statement
            continue
        actions, resources = as_list(statement["Action"]), as_list(statement["Resource"])
        assert grant.action in actions, f"{grant} is not what is deployed: {statement}"
        others = [action for action in actions if action != grant.action]
        if others:
            yield {**statement, "Action": others}
        left = [resource for place, resource in enumerate(resources) if place != grant.resource]
        if left:
            yield {**statement, "Action": [grant.action], "Resource": left}
