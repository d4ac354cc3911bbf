"""What a yard requires of an account, and the row that shows one requirement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from trainyard.core.model.yard.data_buckets import DataBucket

AWS_IMAGES = "/aws/service/"
"""Parameters of images that AWS publishes: their pip, uv and apt-get ask the public indexes."""


class Verdict(StrEnum):
    """What a look has come to."""

    READY = "ready"
    ASKED = "asked"
    """AWS has been asked and has not answered yet."""
    SHORT = "short"
    """A yard can be deployed, and will refuse what needs this."""
    MISSING = "missing"
    """No yard can be deployed."""
    UNKNOWN = "unknown"
    """The credentials may not look."""


@dataclass(frozen=True)
class Need:
    """vCPUs of one quota of the service `ec2` that a yard needs, and for what."""

    quota: str
    name: str
    vcpus: int
    purpose: str


@dataclass(frozen=True)
class Network:
    """Where hosts are to live: in subnets of the customer's (`vpc` is theirs), else in a VPC of the yard's own, without
    a way out where it is `private`. `base_image_parameter` names what a bake starts from, `s3_endpoint` says
    that those subnets reach S3 by a gateway endpoint."""

    vpc: str = ""
    subnets: Sequence[str] = ()
    private: bool = False
    s3_endpoint: bool = False
    base_image_parameter: str = AWS_IMAGES


@dataclass(frozen=True)
class Needs:
    """What a yard asks of an account. `types` are those its builder and its jobs start from, `key` is the ARN of the
    customer's KMS key that it is deployed with, `notify` where its notices are mailed to, `data_buckets` are other
    buckets that runs read."""

    types: Sequence[str]
    quotas: Sequence[Need]
    monthly_dollars: float = 0.0
    notify: str = ""
    network: Network = field(default_factory=Network)
    key: str = ""
    data_buckets: Sequence[DataBucket] = ()


@dataclass(frozen=True)
class Row:
    """One thing looked at: what was found, what a yard needs, and what to type where these differ."""

    subject: str
    found: str
    needed: str
    verdict: Verdict
    next_step: str = ""
    quota: str = ""
    """The quota's code, where it is one."""
    desired: int = 0
    """The value to ask for, where it is too small."""
