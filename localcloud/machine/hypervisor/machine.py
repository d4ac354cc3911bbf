"""Data about a machine: its fixed properties, and the details that its metadata service shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

ENDPOINT_ADDRESS = "169.254.169.253"
"""Address of the endpoint for hosts. Lambdas and the user's clients use 127.0.0.1."""
METADATA_ADDRESS = "169.254.169.254"


@dataclass(frozen=True)
class Machine:
    """Fixed properties of an EC2 instance."""

    instance_id: str
    image_id: str
    instance_type: str
    zone: str
    region: str
    private_ip: str
    mac: str
    gpus: int
    vcpus: int
    memory_mib: int
    role: str | None
    """Name, not ARN, of the role in the instance profile."""
    user_data: bytes | None
    launched_at: datetime

    @property
    def hostname(self) -> str:
        return "ip-" + self.private_ip.replace(".", "-")


@dataclass(frozen=True)
class InstanceDetails:
    """Properties that change while a host runs. Each request to its metadata service reads them again."""

    tags: Mapping[str, str] = field(default_factory=dict)
    shows_tags: bool = False
    """True with InstanceMetadataTags=enabled: the metadata service shows tags. Systems Manager always reads them."""
    spot_action: tuple[str, datetime] | None = None
    """`terminate` or `stop`, and the time; None without an announced interruption."""
    credentials: Mapping[str, str] | None = None
    """Answer of the metadata service: Code, Type, LastUpdated, AccessKeyId, SecretAccessKey, Token, Expiration."""
    is_spot: bool = False
    account: str = "123456789012"
    instance_profile_arn: str | None = None
    instance_profile_id: str | None = None
