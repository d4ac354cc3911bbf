"""Temporary credentials of a role from STS."""

from typing import Any

from lambdas.aws.calls import call_or_none
from lambdas.aws.clients import client

TOO_LARGE = ("PackedPolicyTooLarge", "PackedPolicyTooLargeException")
"""STS packs the policy into its session token, whose limit is below the allowed number of characters of a policy."""


def assume(role: str, session: str, policy: str, *, seconds: int) -> dict[str, Any] | None:
    """Return credentials in the format of a credential process
    (docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html). Return None if the policy is too large
    for the token."""
    answer = call_or_none(
        TOO_LARGE,
        client("sts").assume_role,
        RoleArn=role,
        RoleSessionName=session,
        Policy=policy,
        DurationSeconds=seconds,
    )
    if answer is None:
        return None
    given = answer["Credentials"]
    return {
        "Version": 1,
        "AccessKeyId": given["AccessKeyId"],
        "SecretAccessKey": given["SecretAccessKey"],
        "SessionToken": given["SessionToken"],
        "Expiration": given["Expiration"].isoformat(),
    }
