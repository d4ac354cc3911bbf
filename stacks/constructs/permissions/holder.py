"""Holders of permissions: a role, or a policy for users."""

from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct


class PeoplesPolicy(iam.ManagedPolicy):
    """A policy with the interface of a role, which an account attaches to its users."""

    def add_to_policy(self, statement: iam.PolicyStatement) -> None:
        self.add_statements(statement)


class NarrowedRole(iam.Role):
    """A role that only one function assumes. The function gives its credentials to others, each time narrowed by a
    session policy."""

    def __init__(self, scope: Construct, name: str, *, description: str, taken_by: iam.Role) -> None:
        super().__init__(scope, name, assumed_by=iam.ArnPrincipal(taken_by.role_arn), description=description)
        taken_by.add_to_policy(iam.PolicyStatement(actions=["sts:AssumeRole"], resources=[self.role_arn]))


Holder = iam.Role | PeoplesPolicy
Condition = dict[str, dict[str, Any]]
"""A condition of IAM: its operators, each with keys and their values."""
