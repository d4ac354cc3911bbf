"""How a service of the simulated AWS is asked: by whom, for what, and how it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Request = dict[str, Any]
"""The parameters of one call, as boto3 takes them."""
Answer = dict[str, Any]
"""The answer to one call, as boto3 shows it."""
Structure = dict[str, Any]
"""A part of a request or an answer (an instance, a disk, an error), by AWS's names."""
ACCOUNT, REGION, PARTITION = "123456789012", "us-east-1", "aws"


class ServiceError(Exception):
    """An error that AWS returns. `more` stands beside `Error` in the response (CancellationReasons)."""

    def __init__(
        self, code: str, message: str, *, status: int = 400, more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status, self.more = code, message, status, dict(more or {})


@dataclass(frozen=True)
class Caller:
    """Who asks: a role's ARN, and the name that the trace shows (`train-launch`, `i-0001`)."""

    name: str
    role: str
    """ARN of the role; `root` for the person whose account it is."""
    instance: str | None = None
    session: str | None = None
    """The policy, as JSON, that its credentials are narrowed to."""
    vpc: str | None = None
    """The VPC through whose endpoint for S3 it asks."""


@dataclass(frozen=True)
class Check:
    """One thing that a role must be allowed for a request to be answered."""

    action: str
    resource: str
    context: Mapping[str, str | list[str]] = field(default_factory=dict)
    """Condition keys (lower case) and their values."""
