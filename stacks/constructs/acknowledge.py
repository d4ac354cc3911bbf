"""Findings of the AWS Solutions rules that we have looked at and accept, each with its reason."""

from aws_cdk import Acknowledgment, Validations
from constructs import Construct


def acknowledge(construct: Construct, rule: str, reason: str) -> None:
    """Accept `rule` (for example `S1`) for `construct` and what is under it, for `reason`."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))
