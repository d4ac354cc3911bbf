"""AWS's published request rates as token buckets: who asks for more in a second is told to come again.

Defaults of an account in us-east-1, read on 2026-11-22:

- EC2: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html. Each action has a bucket of its own; a few have
  one more, of resources. Whether instances of CreateFleet count in that of RunInstances is not said: here they do not.
- Step Functions: docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
- EventBridge: docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html
- CloudWatch: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
- Service Quotas: docs.aws.amazon.com/servicequotas/latest/userguide/reference_limits.html
- Lambda's concurrency: docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html (from memory)
- Systems Manager's Run Command and inventory: AWS publishes none; those here are our guess, on the low side.
- S3, SNS, and DynamoDB on demand (units a second, below) are from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.aws.api import Caller, ServiceError
from simulation.world.world import World


@dataclass(frozen=True)
class Rate:
    """A bucket of so many tokens, filled with so many a second."""

    burst: float
    refill: float


LOOKS, CHANGES = Rate(100, 20), Rate(50, 5)
"""EC2's actions that only look, and those that change something, where they have no rate of their own."""
RATES: Mapping[str, Rate] = {
    "ec2.create_fleet": CHANGES,
    "ec2.create_image": CHANGES,
    "ec2.create_tags": Rate(100, 10),
    "ec2.deregister_image": Rate(100, 5),
    "ec2.describe_images": LOOKS,
    "ec2.describe_instance_type_offerings": LOOKS,
    "ec2.describe_instances": LOOKS,
    "ec2.describe_snapshots": LOOKS,
    "ec2.describe_spot_price_history": LOOKS,
    "ec2.describe_subnets": LOOKS,
    "ec2.modify_instance_attribute": CHANGES,
    "ec2.start_instances": Rate(5, 2),
    "ec2.stop_instances": CHANGES,
    "ec2.terminate_instances": Rate(100, 5),
    "ssm.describe_instance_information": Rate(10, 10),
    "ssm.describe_sessions": Rate(10, 10),
    "ssm.get_parameter": Rate(40, 40),
    "ssm.list_command_invocations": Rate(10, 10),
    "ssm.send_command": Rate(10, 10),
    "stepfunctions.describe_execution": Rate(300, 15),
    "stepfunctions.list_executions": Rate(200, 5),
    "stepfunctions.send_task_failure": Rate(3000, 500),
    "stepfunctions.send_task_heartbeat": Rate(3000, 500),
    "stepfunctions.send_task_success": Rate(3000, 500),
    "stepfunctions.start_execution": Rate(1300, 300),
    "stepfunctions.stop_execution": Rate(1000, 200),
    "events.put_events": Rate(10_000, 10_000),
    "cloudwatch.get_metric_data": Rate(50, 50),
    "service-quotas.get_service_quota": Rate(10, 5),
    "service-quotas.get_aws_default_service_quota": Rate(10, 5),
    "sns.publish": Rate(30_000, 30_000),
    "s3.put_object": Rate(3500, 3500),
    "s3.get_object": Rate(5500, 5500),
    "s3.list_objects_v2": Rate(5500, 5500),
}
RESOURCES: Mapping[str, Rate] = {
    "ec2.start_instances": Rate(1000, 2),
    "ec2.stop_instances": Rate(1000, 20),
    "ec2.terminate_instances": Rate(1000, 20),
}
"""Of the instances that a request names, beside the request's own."""
CONCURRENCY = 1000
"""Of all functions together."""
TRANSITIONS = Rate(5000, 5000)
"""Of all executions together: more are late."""
WRITE_UNITS, READ_UNITS = 4000, 12_000
"""A second, of a new DynamoDB table on demand; a single partition key has 1,000 and 3,000."""
CODES = {
    "ec2": ("RequestLimitExceeded", 503),
    "s3": ("SlowDown", 503),
    "service-quotas": ("TooManyRequestsException", 429),
}


class Bucket:
    def __init__(self, rate: Rate, now: float) -> None:
        self._rate, self._tokens, self._at = rate, rate.burst, now

    def take(self, tokens: float, now: float) -> bool:
        """Whether there were so many (a request for more than a whole bucket takes a full one)."""
        self._tokens = min(self._rate.burst, self._tokens + (now - self._at) * self._rate.refill)
        self._at = now
        wanted = min(tokens, self._rate.burst)
        if self._tokens < wanted:
            return False
        self._tokens -= wanted
        return True


@dataclass
class Throttle:
    """For Gateway.throttle: refuses what goes beyond a rate, and counts that by operation."""

    world: World
    refused: Counter[str] = field(default_factory=Counter)
    _buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)

    def __call__(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> ServiceError | None:
        if self._has("request", RATES.get(operation), operation, 1) and self._has(
            "resource", RESOURCES.get(operation), operation, len(request.get("InstanceIds", ()))
        ):
            return None
        self.refused[operation] += 1
        code, status = CODES.get(operation.partition(".")[0], ("ThrottlingException", 400))
        return ServiceError(code, "Rate exceeded", status=status)

    def _has(self, kind: str, rate: Rate | None, operation: str, tokens: int) -> bool:
        if rate is None:
            return True
        now = self.world.now.timestamp()
        bucket = self._buckets.setdefault((kind, operation), Bucket(rate, now))
        return bucket.take(tokens, now)
