"""Accepted findings, each with its reason: of the AWS Solutions rules at each synth, and of checkov in templates."""

import aws_cdk as cdk
from aws_cdk import Acknowledgment, Validations
from constructs import Construct


def acknowledge(construct: Construct, rule: str, reason: str) -> None:
    """Accept `rule` of the AWS Solutions (for example `S1`) for `construct` and everything below it, with a reason."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))


def skip(construct: Construct, reasons: dict[str, str]) -> None:
    """Accept these checks of checkov for the resource of `construct`, each with its reason (`CKV_AWS_18`)."""
    resource = construct.node.default_child
    assert isinstance(resource, cdk.CfnResource)
    accepted = [{"id": check, "comment": reason} for check, reason in reasons.items()]
    resource.add_metadata("checkov", {"skip": accepted})
