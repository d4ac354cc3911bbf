"""The interface of a simulated host to its world: AWS calls with its role, metadata, and the power switch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from simulation.aws.endpoint.api import Answer


class Metadata(Protocol):
    """The instance metadata service as this instance sees it."""

    @property
    def instance(self) -> str: ...

    @property
    def address(self) -> str:
        """The private IPv4 address."""
        ...

    @property
    def image(self) -> str:
        """The id of the AMI."""
        ...

    @property
    def instance_type(self) -> str:
        """The instance type, e.g. `g6.xlarge`. Types of the families g and p have GPUs."""
        ...

    @property
    def region(self) -> str: ...

    def tags(self) -> Mapping[str, str]:
        """Return the current tags; none without InstanceMetadataTags."""
        ...

    def interruption_notice(self) -> datetime | None:
        """Return when AWS reclaims the host, once it has announced that."""
        ...


class Host(Protocol):
    """One instance, as long as EC2 lists it."""

    @property
    def metadata(self) -> Metadata: ...

    def aws(self, service: str, operation: str, /, **request: Any) -> Answer:
        """Call AWS with the host's role: `aws("s3", "get_object", Bucket=..., Key=...)`. Raises ServiceError."""
        ...

    def aws_as_run(self, access_key: str, service: str, operation: str, /, **request: Any) -> Answer:
        """Call AWS with credentials of the host's run. Raises ServiceError (ExpiredToken) once they have expired."""
        ...

    def register(self) -> None:
        """Record that the SSM agent has registered, or is back after a boot. PingStatus is Online from now on."""
        ...

    def power_off(self) -> None:
        """Shut the operating system down. The launch template decides what EC2 does."""
        ...

    def crash(self) -> None:
        """Let the machine fail without warning."""
        ...


@dataclass(frozen=True)
class CommandEnd:
    """The result of an SSM document on this host."""

    exit_code: int
    """0 is success."""
    output: str = ""
    errors: str = ""
    """The stderr."""


Done = Callable[[CommandEnd], None]
