"""STS: credentials of a role, for a while."""

from typing import Any

from lambdas.aws.calls import unless
from lambdas.aws.clients import client

TOO_LARGE = ("PackedPolicyTooLarge", "PackedPolicyTooLargeException")
"""STS packs a policy into its token, which has less room than the policy may have characters."""


def assume(role: str, session: str, policy: str, *, seconds: int) -> dict[str, Any] | None:
    """What a credential process prints (docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html).
    None where the policy finds no room in the token."""
    answer = unless(
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
