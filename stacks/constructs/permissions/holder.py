"""Holders of permissions: a role, or the people that a policy is attached to."""

from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct


class PeoplesPolicy(iam.ManagedPolicy):
    """A policy that is filled as a role is; an account attaches it to its people."""

    def add_to_policy(self, statement: iam.PolicyStatement) -> None:
        self.add_statements(statement)


class NarrowedRole(iam.Role):
    """Taken by one function alone, which gives its credentials to others, each time narrowed by a session policy."""

    def __init__(self, scope: Construct, name: str, *, description: str, taken_by: iam.Role) -> None:
        super().__init__(scope, name, assumed_by=iam.ArnPrincipal(taken_by.role_arn), description=description)
        taken_by.add_to_policy(iam.PolicyStatement(actions=["sts:AssumeRole"], resources=[self.role_arn]))


Holder = iam.Role | PeoplesPolicy
Condition = dict[str, dict[str, Any]]
"""A condition of IAM: its operators, each with keys and their values."""
