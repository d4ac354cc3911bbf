"""IAM: the roles that AWS's own services act through."""

from lambdas.aws.calls import unless
from lambdas.aws.clients import client

TAKEN = ("InvalidInput",)
"""`Service role name ... has been taken in this account`."""


def make_service_linked_role(service: str) -> bool:
    """The role of `spot.amazonaws.com` or the like; False where the account has it."""
    made = unless(TAKEN, client("iam").create_service_linked_role, AWSServiceName=service)
    return made is not None
