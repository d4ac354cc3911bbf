"""The requirements of a yard, and the row that shows the check of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from trainyard.core.model.yard.data_buckets import DataBucket

AWS_IMAGES = "/aws/service/"
"""The prefix of AWS's public image parameters. In these images, pip, uv and apt-get use the public indexes."""


class Verdict(StrEnum):
    """The result of a check."""

    READY = "ready"
    REQUESTED = "requested"
    """A request to AWS is not answered yet."""
    SHORT = "short"
    """A yard can be deployed, but refuses work that needs this."""
    MISSING = "missing"
    """A yard cannot be deployed."""
    UNKNOWN = "unknown"
    """The credentials do not allow the check."""


@dataclass(frozen=True)
class Need:
    """The vCPUs of one quota of the service `ec2` that a yard needs, and their purpose."""

    quota: str
    name: str
    vcpus: int
    purpose: str


@dataclass(frozen=True)
class Network:
    """The network of the hosts: subnets of the customer's VPC, or a VPC that the yard creates."""

    vpc: str = ""
    """The customer's VPC; empty if the yard creates one."""
    subnets: Sequence[str] = ()
    private: bool = False
    """True if the yard's VPC has no route to the internet."""
    s3_endpoint: bool = False
    """True if the customer's subnets reach S3 through a gateway endpoint."""
    base_image_parameter: str = AWS_IMAGES
    """The image that bakes start from."""


@dataclass(frozen=True)
class Needs:
    """The requirements of a yard for its account."""

    types: Sequence[str]
    """The instance types that bakes and jobs use by default."""
    quotas: Sequence[Need]
    monthly_dollars: float = 0.0
    notify: str = ""
    """The address for notifications."""
    network: Network = field(default_factory=Network)
    key: str = ""
    """The ARN of the customer's KMS key."""
    data_buckets: Sequence[DataBucket] = ()
    """Other buckets that runs read."""
    yard: str = "Trainyard"
    most_predictions_at_once: int = 0
    """The reserved concurrency of the function for predictions."""


@dataclass(frozen=True)
class Row:
    """The result of one check, with the command to run if a requirement is not met."""

    subject: str
    found: str
    needed: str
    verdict: Verdict
    next_step: str = ""
    quota: str = ""
    """The code of the quota, for a quota."""
    desired: int = 0
    """The value to request, for a quota that is too small."""
