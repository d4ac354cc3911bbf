"""Grants in KMS with which EC2 encrypts the volumes of hosts."""

from lambdas.aws.clients import client

OF_VOLUMES = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "Encrypt",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)
"""The operations of a service-linked role of EC2 with the key of an encrypted volume
(docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html)."""


def grant_volumes(key: str, role: str) -> None:
    """Grant a service-linked role the use of the key. Repeating the call changes nothing."""
    name = role.rpartition("/")[2]
    client("kms").create_grant(KeyId=key, GranteePrincipal=role, Operations=list(OF_VOLUMES), Name=name)


def grant_command(key: str, role: str) -> str:
    """Return the CLI command that creates this grant."""
    return (
        f"aws kms create-grant --key-id {key} --grantee-principal {role} --operations {' '.join(OF_VOLUMES)}"
    )
