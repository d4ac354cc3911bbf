"""The interface of a simulated service: requests, answers, callers, permission checks and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Request = dict[str, Any]
"""The parameters of one call in boto3's format."""
Answer = dict[str, Any]
"""The answer to one call in boto3's format."""
Structure = dict[str, Any]
"""A part of a request or an answer (an instance, a disk, an error), with AWS's names."""
ACCOUNT, REGION, PARTITION = "123456789012", "us-east-1", "aws"


class ServiceError(Exception):
    """An error of AWS. `more` is added to the response beside `Error`, e.g. CancellationReasons."""

    def __init__(
        self, code: str, message: str, *, status: int = 400, more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status, self.more = code, message, status, dict(more or {})


@dataclass(frozen=True)
class Caller:
    name: str
    """The name in the trace (`train-launch`, `i-0001`)."""
    role: str
    """ARN of the role; `root` for the owner of the account."""
    instance: str | None = None
    session: str | None = None
    """The session policy of its credentials, as JSON."""
    vpc: str | None = None
    """The VPC of the S3 endpoint that the request passes."""


@dataclass(frozen=True)
class Check:
    """A permission that a request needs."""

    action: str
    resource: str
    context: Mapping[str, str | list[str]] = field(default_factory=dict)
    """Condition keys in lower case, with their values."""
