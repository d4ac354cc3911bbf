"""KMS: what lets EC2 use a customer's key for the volumes of hosts."""

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
"""What a service-linked role of EC2 does with the key of an encrypted volume
(docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html)."""


def grant_volumes(key: str, role: str) -> None:
    """Let a service-linked role use the key. A second grant of the same name and content is the first."""
    name = role.rpartition("/")[2]
    client("kms").create_grant(KeyId=key, GranteePrincipal=role, Operations=list(OF_VOLUMES), Name=name)


def command(key: str, role: str) -> str:
    """The same, by hand."""
    return (
        f"aws kms create-grant --key-id {key} --grantee-principal {role} --operations {' '.join(OF_VOLUMES)}"
    )
