"""What a simulated host is given by the world around it: its role's door to AWS, its metadata, its power switch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from simulation.aws.door.api import Answer


class Metadata(Protocol):
    """The instance metadata service, as this instance sees it."""

    @property
    def instance(self) -> str: ...

    @property
    def address(self) -> str:
        """Private IPv4."""
        ...

    @property
    def image(self) -> str:
        """The AMI's id."""
        ...

    @property
    def instance_type(self) -> str:
        """`g6.xlarge`: those of the families g and p have GPUs."""
        ...

    @property
    def region(self) -> str: ...

    def tags(self) -> Mapping[str, str]:
        """As they are now; without InstanceMetadataTags none."""
        ...

    def spot_notice(self) -> datetime | None:
        """When AWS takes the host back, once it has said so."""
        ...


class Host(Protocol):
    """One instance, as long as EC2 knows it."""

    @property
    def metadata(self) -> Metadata: ...

    def aws(self, service: str, operation: str, /, **request: Any) -> Answer:
        """Calls AWS as the host's role: `aws("s3", "get_object", Bucket=..., Key=...)`. Raises ServiceError."""
        ...

    def aws_as_run(self, access_key: str, service: str, operation: str, /, **request: Any) -> Answer:
        """The same with credentials of its run: ExpiredToken once they have ended."""
        ...

    def register(self) -> None:
        """The Systems Manager agent has registered, or is back after a boot: PingStatus Online from now on."""
        ...

    def power_off(self) -> None:
        """The operating system has shut down by itself: what EC2 does then, the launch template says."""
        ...

    def crash(self) -> None:
        """The machine is gone from one moment to the next, without anybody's order."""
        ...


@dataclass(frozen=True)
class CommandEnd:
    """What a document came to on this host. `errors` is its stderr; 0 is success."""

    exit_code: int
    output: str = ""
    errors: str = ""


Done = Callable[[CommandEnd], None]
