"""AWS's published request rates in virtual time.

Most come from the local cloud's settings. These are from memory: Lambda's concurrency
(docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html) and DynamoDB's units per second on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from localcloud.base import rates
from localcloud.base.rates import Bucket, Rate
from localcloud.base.settings import Settings
from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.world.world import World

SETTINGS = Settings.load()
SERVICES = {"stepfunctions": "states", "service-quotas": "servicequotas"}
"""IAM's names of services whose boto3 names differ."""
ACTIONS = {"s3:listobjectsv2": "s3:ListBucket"}
CONCURRENCY = 1000
"""The limit of concurrent invocations of all functions."""
TRANSITIONS = Rate(5000, 5000)
"""The rate of all executions. Further transitions are delayed."""
WRITE_UNITS, READ_UNITS = 4000, 12_000
"""Units per second of a new DynamoDB table on demand; a single partition key has 1,000 and 3,000."""
CODES = {
    "ec2": ("RequestLimitExceeded", 503),
    "s3": ("SlowDown", 503),
    "service-quotas": ("TooManyRequestsException", 429),
}


@cache
def rate_of(operation: str, *, of: str = "request") -> Rate | None:
    """Return the rate of an operation ("ec2.create_fleet"), or of the resources in its requests."""
    service, _, name = operation.partition(".")
    action = f"{SERVICES.get(service, service)}:{name.replace('_', '')}"
    table = SETTINGS.rates if of == "request" else SETTINGS.resource_rates
    return rates.rate_of(table, ACTIONS.get(action, action))


@dataclass
class Throttle:
    """A throttle for Gateway.throttle. It refuses requests beyond a rate and counts them by operation."""

    world: World
    refused: Counter[str] = field(default_factory=Counter)
    _buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)

    def __call__(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> ServiceError | None:
        if self._has("request", operation, 1) and self._has(
            "resource", operation, len(request.get("InstanceIds", ()))
        ):
            return None
        self.refused[operation] += 1
        code, status = CODES.get(operation.partition(".")[0], ("ThrottlingException", 400))
        return ServiceError(code, "Rate exceeded", status=status)

    def _has(self, kind: str, operation: str, tokens: int) -> bool:
        rate = rate_of(operation, of=kind)
        if rate is None:
            return True
        now = self.world.now.timestamp()
        bucket = self._buckets.setdefault((kind, operation), Bucket(rate, now))
        return bucket.take(tokens, now)
