"""Metrics and notifications of the simulated account through their APIs."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from lambdas.core.webhooks import Message
from simulation.aws.cloudwatch import CloudWatch
from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.aws.notifications import Notifications
from simulation.world.world import World
from trainyard.protocol.webhooks import NotificationKind

ME = Caller("me", "root")
TOPIC = "arn:aws:sns:us-east-1:123456789012:notices"
GPU = "nvidia_smi_utilization_gpu"


def metric(number: int, host: str, stat: str = "Maximum") -> dict[str, Any]:
    dimensions = [{"Name": "InstanceId", "Value": host}]
    about = {"Namespace": "Trainyard", "MetricName": GPU, "Dimensions": dimensions}
    return {"Id": f"m{number}", "MetricStat": {"Metric": about, "Period": 60, "Stat": stat}}


def ask(cloudwatch: CloudWatch, *queries: dict[str, Any], minutes: int = 60) -> list[tuple[str, list[float]]]:
    """Return id and values of each result over all pages, newest first."""
    now = cloudwatch.world.now
    request: dict[str, Any] = {
        "MetricDataQueries": list(queries),
        "StartTime": now - timedelta(minutes=minutes),
        "EndTime": now,
    }
    found = []
    while True:
        answer = cloudwatch.get_metric_data(ME, dict(request))
        found += [(each["Id"], each["Values"]) for each in answer["MetricDataResults"]]
        if "NextToken" not in answer:
            return found
        request["NextToken"] = answer["NextToken"]


def later(world: World, seconds: float) -> None:
    world.run(world.now + timedelta(seconds=seconds))


def test_a_hosts_minute_can_be_read_once_it_is_two_minutes_old() -> None:
    world = World(1)
    cloudwatch = CloudWatch(world)
    cloudwatch.follow("Trainyard", GPU, "i-1", lambda at: float(at.minute) if at.minute < 4 else None)
    assert ask(cloudwatch, metric(0, "i-1"), minutes=1)[0][1] == []
    later(world, 239)
    assert ask(cloudwatch, metric(0, "i-1"), metric(1, "i-2"), minutes=3) == [("m0", [1.0]), ("m1", [])]
    later(world, 600)
    assert ask(cloudwatch, metric(0, "i-1"), minutes=13) == [("m0", [3.0, 2.0, 1.0])]


def test_points_that_were_put_are_read_within_a_minute() -> None:
    world = World(1)
    cloudwatch = CloudWatch(world)
    datum = {
        "MetricName": GPU,
        "Dimensions": [{"Name": "InstanceId", "Value": "i-1"}],
        "Timestamp": world.now,
        "Unit": "Percent",
        "Values": [10.0, 40.0],
        "Counts": [3.0, 1.0],
    }
    cloudwatch.put_metric_data(ME, {"Namespace": "Trainyard", "MetricData": [datum]})
    assert ask(cloudwatch, metric(0, "i-1")) == [("m0", [])]
    later(world, 61)
    assert ask(cloudwatch, metric(0, "i-1")) == [("m0", [40.0])]
    assert ask(cloudwatch, metric(0, "i-1", "Average")) == [("m0", [17.5])]
    assert ask(cloudwatch, metric(0, "i-1", "SampleCount")) == [("m0", [4.0])]


def test_metrics_come_in_pages() -> None:
    world = World(1)
    cloudwatch = CloudWatch(world)
    for host in ("i-1", "i-2"):
        cloudwatch.follow("Trainyard", GPU, host, lambda at: float(at.minute))
    later(world, 300)
    cloudwatch.page_size = 2
    assert ask(cloudwatch, metric(0, "i-1"), metric(1, "i-2"), minutes=5) == [
        ("m0", [3.0, 2.0]),
        ("m0", [1.0, 0.0]),
        ("m1", [3.0, 2.0]),
        ("m1", [1.0, 0.0]),
    ]


def test_cloudwatch_takes_500_queries() -> None:
    with pytest.raises(ServiceError, match="ValidationError"):
        ask(CloudWatch(World(1)), *(metric(n, "i-1") for n in range(501)))


def test_a_notice_is_kept_as_it_was_published() -> None:
    notices = Notifications(World(1))
    notices.create_topic(TOPIC)
    notices.publish(ME, {"TopicArn": TOPIC, "Subject": "a run ended", "Message": "well"})
    assert [(notice.sender, notice.subject, notice.text) for notice in notices.published] == [
        ("me", "a run ended", "well")
    ]


def test_a_notice_reaches_the_functions_of_its_topic() -> None:
    calls: list[tuple[str, Mapping[str, Any]]] = []
    notices = Notifications(World(1), lambda function, payload: calls.append((function, payload)))
    notices.create_topic(TOPIC, subscribers=("arn:of-notify",))
    kind = {"kind": {"DataType": "String", "StringValue": "end"}}
    answer = notices.publish(
        ME, {"TopicArn": TOPIC, "Subject": "s", "Message": "m", "MessageAttributes": kind}
    )
    ((function, payload),) = calls
    assert function == "arn:of-notify"
    message = Message.of(payload["Records"][0]["Sns"])
    assert (message.id, message.kind, message.subject, message.text) == (
        answer["MessageId"], NotificationKind.END, "s", "m"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"Subject": "x" * 101}, "InvalidParameter"),
        ({"Subject": "two\nlines"}, "InvalidParameter"),
        ({"Message": "x" * 262_145}, "InvalidParameter"),
        ({"TopicArn": TOPIC + "x"}, "NotFound"),
        ({"MessageGroupId": "a"}, "NotSimulated"),
    ],
)
def test_a_notice_that_sns_does_not_take(wrong: dict[str, str], code: str) -> None:
    notices = Notifications(World(1))
    notices.create_topic(TOPIC)
    with pytest.raises(ServiceError) as caught:
        notices.publish(ME, {"TopicArn": TOPIC, "Subject": "s", "Message": "m", **wrong})
    assert caught.value.code == code
    assert not notices.published
