"""Service-linked roles in IAM."""

from lambdas.aws.calls import call_or_none
from lambdas.aws.clients import client

NAME_IN_USE = ("InvalidInput",)
"""`Service role name ... has been taken in this account`."""


def make_service_linked_role(service: str) -> bool:
    """Create the service-linked role of a service such as `spot.amazonaws.com`; return False if the account has it."""
    made = call_or_none(NAME_IN_USE, client("iam").create_service_linked_role, AWSServiceName=service)
    return made is not None
