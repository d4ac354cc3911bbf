"""The ARNs of EC2's resources."""

from collections.abc import Mapping

from simulation.aws.endpoint.api import ACCOUNT, PARTITION, REGION

UNOWNED = ("image", "snapshot")
"""Resources whose ARNs have no account."""
KINDS = {
    "i": "instance",
    "ami": "image",
    "snap": "snapshot",
    "subnet": "subnet",
    "sg": "security-group",
    "vol": "volume",
}


def build(kind: str, resource: str = "*") -> str:
    account = "" if kind in UNOWNED else ACCOUNT
    return f"arn:{PARTITION}:ec2:{REGION}:{account}:{kind}/{resource}"


def kind_of(resource: str) -> str:
    prefix = resource.partition("-")[0]
    return KINDS.get(prefix, prefix)


def resource_tags(tags: Mapping[str, str], service: str = "ec2") -> dict[str, str]:
    """Return the condition keys for a resource's tags."""
    return {
        f"{of}:resourcetag/{key}".lower(): value for key, value in tags.items() for of in ("aws", service)
    }
