"""Token buckets with AWS's rates in virtual time."""

from datetime import timedelta

import pytest

from simulation.aws.endpoint.api import Caller
from simulation.aws.endpoint.rates import Throttle, rate_of
from simulation.aws.functions import TOO_MANY, FunctionConfig, Functions, LambdaFailure
from simulation.world.world import World

ME = Caller("me", "a role")


def refused(throttle: Throttle, operation: str, times: int, **request: object) -> int:
    """Return how many of these simultaneous requests are refused."""
    return sum(throttle(ME, operation, request) is not None for _ in range(times))


def test_a_full_bucket_gives_its_burst_and_then_its_rate() -> None:
    world = World(1)
    throttle = Throttle(world)
    assert refused(throttle, "ec2.create_fleet", 60) == 10
    world.run(world.now + timedelta(seconds=2))
    assert refused(throttle, "ec2.create_fleet", 60) == 50
    world.run(world.now + timedelta(hours=1))
    assert refused(throttle, "ec2.create_fleet", 60) == 10
    assert throttle.refused == {"ec2.create_fleet": 70}


def test_every_action_has_a_bucket_of_its_own() -> None:
    throttle = Throttle(World(1))
    assert refused(throttle, "ec2.describe_images", 100) == 0
    assert refused(throttle, "ec2.describe_instances", 100) == 0


def test_hosts_are_counted_too_where_aws_counts_them() -> None:
    throttle = Throttle(World(1))
    many = [f"i-{number}" for number in range(400)]
    assert refused(throttle, "ec2.terminate_instances", 4, InstanceIds=many) == 2


def test_an_operation_without_a_rate_is_never_refused() -> None:
    assert refused(Throttle(World(1)), "dynamodb.query", 10_000) == 0


@pytest.mark.parametrize(
    ("operation", "code", "status"),
    [
        ("ec2.create_tags", "RequestLimitExceeded", 503),
        ("stepfunctions.list_executions", "ThrottlingException", 400),
        ("service-quotas.get_service_quota", "TooManyRequestsException", 429),
    ],
)
def test_each_service_refuses_in_its_own_words(operation: str, code: str, status: int) -> None:
    throttle = Throttle(World(1))
    rate = rate_of(operation)
    assert rate
    answers = [throttle(ME, operation, {}) for _ in range(int(rate.burst) + 1)]
    last = answers[-1]
    assert last
    assert (last.code, last.status) == (code, status)


def test_a_function_beyond_the_concurrency_is_not_started_and_its_event_is_tried_until_there_is_room() -> (
    None
):
    world = World(1)
    functions = Functions(world, {"f": FunctionConfig("f", "nowhere", {}, 60, "a role", retries=0)})
    functions.concurrency = 0
    answers: list[object] = []
    functions.call("arn:aws:lambda:us-east-1:1:function:f", {}, answers.append)
    functions.event("arn:aws:lambda:us-east-1:1:function:f", {})
    world.run(world.now + timedelta(seconds=30))
    assert [each.error for each in answers if isinstance(each, LambdaFailure)] == [TOO_MANY]
    assert functions.throttled == 1 + 5  # at once, then after 1, 3, 7 and 15 s
    assert functions.waiting == 1
    assert not functions.dead_letters
