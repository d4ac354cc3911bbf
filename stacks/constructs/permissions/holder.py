"""Who has permissions: a role, or whoever a policy is attached to."""

from aws_cdk import aws_iam as iam


class PeoplesPolicy(iam.ManagedPolicy):
    """A policy that is filled as a role is; an account attaches it to its people."""

    def add_to_policy(self, statement: iam.PolicyStatement) -> None:
        self.add_statements(statement)


Holder = iam.Role | PeoplesPolicy
