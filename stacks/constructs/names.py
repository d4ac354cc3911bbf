"""How stacks speak of each other's resources: what the yard names, by that name.

A reference to another stack is an export, and CloudFormation refuses to change or to delete an export that is in use.
So only what AWS names is referred to, and what an update never replaces: the bucket, the ledger, subnets, the security
group (a test holds this).
"""

import aws_cdk as cdk
from constructs import Construct


def by_name(scope: Construct, service: str, resource: str, name: str = "") -> str:
    """The ARN of what some stack of the yard makes, be it later. SNS and SQS have no kind before the name: it is the
    `resource`."""
    return cdk.Stack.of(scope).format_arn(
        service=service,
        resource=resource,
        resource_name=name or None,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME if name else cdk.ArnFormat.NO_RESOURCE_NAME,
    )


def arn_in(scope: Construct, made: Construct, arn: str, *named: str) -> str:
    """`arn`, which refers to `made`, in the stack that made it; in another what its name makes of it."""
    here, there = cdk.Stack.of(scope), cdk.Stack.of(made)
    return arn if here.node.path == there.node.path else by_name(scope, *named)
