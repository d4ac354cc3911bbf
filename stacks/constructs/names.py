"""References between stacks, by the names of their resources.

A reference to another stack is an export, and CloudFormation refuses to change or delete an export in use. Therefore
only resources are referenced whose name AWS chooses and which no update replaces: the bucket, the ledger, subnets,
the security group (a test checks this).
"""

import aws_cdk as cdk
from constructs import Construct


def by_name(scope: Construct, service: str, resource: str, name: str = "") -> str:
    """Return the ARN of a resource of any stack, even a later one. SNS and SQS have no kind before the name: it is
    the `resource`."""
    return cdk.Stack.of(scope).format_arn(
        service=service,
        resource=resource,
        resource_name=name or None,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME if name else cdk.ArnFormat.NO_RESOURCE_NAME,
    )


def arn_in(scope: Construct, made: Construct, arn: str, *named: str) -> str:
    """Return `arn` in the stack that made the resource. In another stack, return the ARN from the resource's name."""
    here, there = cdk.Stack.of(scope), cdk.Stack.of(made)
    return arn if here.node.path == there.node.path else by_name(scope, *named)
