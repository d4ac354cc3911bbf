"""Permissions for the yard's secrets and webhooks, which are parameters under paths of their own."""

import aws_cdk as cdk

from stacks.constructs.permissions import allow, kms, parameter
from stacks.constructs.permissions.holder import Holder
from trainyard.protocol.webhooks import FOLDER

SECRETS = "Every secret of the yard, under a path of their own."
WEBHOOKS = "Every webhook of the yard and of its users, under a path of their own."


def read_secrets(role: Holder, yard: str, key: str) -> None:
    """Allow reading the yard's secrets, which are encrypted with its key or with AWS's."""
    allow(role, ["ssm:GetParameters"], [_secrets(yard)], because=SECRETS)
    kms.use_for_parameters(role, key)


def read_webhooks(role: Holder, yard: str, key: str) -> None:
    """Allow reading the yard's webhooks, which are encrypted with its key or with AWS's. IAM checks the list of a
    folder on the folder itself."""
    actions = ["ssm:GetParameters", "ssm:GetParametersByPath"]
    allow(role, actions, [parameter(f"{yard}/{FOLDER}"), _webhooks(yard)], because=WEBHOOKS)
    kms.use_for_parameters(role, key)


def keep_secrets(role: Holder, yard: str) -> None:
    """Allow writing and deleting secrets and webhooks, but not reading them."""
    allow(
        role, ["ssm:PutParameter", "ssm:DeleteParameter"], [_secrets(yard), _webhooks(yard)], because=SECRETS
    )


def _webhooks(yard: str) -> str:
    return parameter(f"{yard}/{FOLDER}/*")


def _secrets(yard: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:parameter/{yard}/secrets/*"
