"""What the hypervisor is told about one machine, and what a host's metadata service may tell about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

ENDPOINT_ADDRESS = "169.254.169.253"
"""At which hosts find the endpoint; Lambdas and the user's clients use 127.0.0.1."""
METADATA_ADDRESS = "169.254.169.254"


@dataclass(frozen=True)
class Machine:
    """One EC2 instance as a machine: everything that does not change while it exists."""

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
    """Name of the role in the instance profile, not its ARN."""
    user_data: bytes | None
    launched_at: datetime

    @property
    def hostname(self) -> str:
        return "ip-" + self.private_ip.replace(".", "-")


@dataclass(frozen=True)
class InstanceDetails:
    """What may change while a host runs; asked for at every request to its metadata service."""

    tags: Mapping[str, str] = field(default_factory=dict)
    shows_tags: bool = False
    """InstanceMetadataTags=enabled: the host may read them there. Systems Manager knows them all the same."""
    spot_action: tuple[str, datetime] | None = None
    """(`terminate` or `stop`, the instant it happens); None while no interruption is announced."""
    credentials: Mapping[str, str] | None = None
    """As the metadata service answers: Code, Type, LastUpdated, AccessKeyId, SecretAccessKey, Token, Expiration."""
    is_spot: bool = False
    account: str = "123456789012"
    instance_profile_arn: str | None = None
    instance_profile_id: str | None = None
