"""A forgotten host, with patrol's default settings: when it ends, and the text of the notification."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from simulation.aws.ec2 import Instance
from simulation.scenario import Scenario
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

WINDOW, SLACK = timedelta(minutes=30), timedelta(minutes=10)
"""Patrol's default idle window, and the delay of its passes and of metrics."""


def launched(yard: Yard) -> Instance:
    (host,) = yard.ec2.find_tagged("trainyard:run", "notebook")
    return host


def forgotten(
    template: YardTemplate, over: Callable[[Yard], bool], at_end: Callable[[Yard], object], **asked: Any
) -> timedelta:
    """Return how long an unused host lives that was launched for the default 12 hours."""

    def begin(yard: Yard) -> None:
        yard.people.start("dev-host", "notebook", {"latest": "gpu", "instance_types": ["g6.xlarge"], **asked})

    longest = timedelta(hours=3)
    result = simulate(template, Scenario("forgotten", "", begin, longest, over=over), at_end=at_end)
    return timedelta(seconds=result.virtual_seconds)


def test_one_on_demand_is_stopped_after_its_window_and_the_notice_says_what_it_costs(
    yard: YardTemplate,
) -> None:
    texts: list[str] = []
    lived = forgotten(
        yard,
        lambda world: any(each.state == "stopped" for each in world.ec2.ever.values()),
        lambda world: texts.extend(each.text for each in world.notifications.published),
        market="on_demand",
    )
    assert WINDOW < lived < WINDOW + SLACK
    (notification,) = (each for each in texts if each.startswith("stop i-"))
    assert "no GPU of it was above" in notification
    assert "an hour. Stopped: $" in notification
    assert " a month for its disk of " in notification
    assert (
        "Terminated: nothing, and its disk is deleted. To continue: aws ec2 start-instances" in notification
    )


def test_a_spot_host_becomes_an_image_then(yard: YardTemplate) -> None:
    images: list[str] = []
    lived = forgotten(
        yard,
        lambda world: any(each.state == "terminated" for each in world.ec2.ever.values()),
        lambda world: images.extend(each.tags["trainyard:host"] for each in made(world)),
        market="spot",
    )
    assert WINDOW < lived < WINDOW + 2 * SLACK
    assert len(images) == 1


def made(world: Yard) -> list[Any]:
    return [each for each in world.ec2.images.values() if each.tags.get("trainyard:host")]


@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_one_that_is_to_be_held_is_let_go_when_the_hold_is_over(yard: YardTemplate, market: str) -> None:
    lived = forgotten(
        yard,
        lambda world: any(not each.live for each in world.ec2.ever.values()),
        lambda world: None,
        market=market,
        hold_hours=1,
    )
    assert timedelta(hours=1) < lived < timedelta(hours=1) + 2 * SLACK


def dev_host(
    template: YardTemplate,
    *,
    busy: timedelta,
    use: float,
    then: Callable[[Yard], object] = lambda world: None,
) -> tuple[timedelta, list[str]]:
    """Return how long a dev host lives that was used for `busy` after its launch, and the notifications about it."""
    texts: list[str] = []

    def begin(yard: Yard) -> None:
        began = yard.world.now
        yard.in_use = lambda at: use if at < began + busy else 0.0
        yard.people.start(
            "dev-host", "notebook", {"latest": "gpu", "instance_types": ["g6.xlarge"], "market": "on_demand"}
        )
        yard.after(600, lambda: name_it(yard), "it gets its name")

    def name_it(yard: Yard) -> None:
        host = launched(yard)
        yard.people.call(
            "ec2", "create_tags", Resources=[host.id], Tags=[{"Key": "trainyard:dev", "Value": "mine"}]
        )
        then(yard)

    result = simulate(
        template,
        Scenario("dev host", "", begin, timedelta(hours=4), over=is_stopped),
        at_end=lambda world: texts.extend(each.text for each in world.notifications.published),
    )
    return timedelta(seconds=result.virtual_seconds), texts


def is_stopped(world: Yard) -> bool:
    return any(each.state == "stopped" for each in world.ec2.ever.values())


@pytest.mark.parametrize("use", [1.0, 2.0, 3.0], ids=["kernels", "terminals", "both"])
def test_a_dev_host_is_stopped_one_idle_window_after_its_last_use(yard: YardTemplate, use: float) -> None:
    busy = timedelta(hours=2)
    lived, texts = dev_host(yard, busy=busy, use=use)
    assert busy + WINDOW - SLACK < lived < busy + WINDOW + SLACK
    (notification,) = (each for each in texts if each.startswith("stop i-"))
    assert "and no kernel or terminal of it was in use in the last 30 min" in notification


@pytest.mark.parametrize(
    ("document", "kept"), [("SSM-SessionManagerRunShell", True), ("AWS-StartPortForwardingSession", False)]
)
def test_a_session_keeps_a_dev_host_and_a_port_forward_does_not(
    yard: YardTemplate, document: str, kept: bool
) -> None:
    lived, _ = dev_host(
        yard,
        busy=timedelta(0),
        use=0.0,
        then=lambda world: world.ssm.open_session(launched(world).id, document=document),
    )
    assert (lived > timedelta(hours=3)) is kept
