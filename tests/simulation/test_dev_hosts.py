"""A user's dev host, simulated: its owner, and the image of it that patrol may create for the owner."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from simulation.faults import PERSON
from simulation.scenario import Scenario
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard
from trainyard.protocol import sources

RUN = "dev-mine-20261120T120000-abc123"


def forgotten(
    template: YardTemplate, market: str, over: Callable[[Yard], bool], at_end: Callable[[Yard], object]
) -> None:
    """Simulate an unused dev host of a user."""

    def begin(yard: Yard) -> None:
        asked = {"latest": "gpu", "instance_types": ["g6.xlarge"], "market": market}
        entry = {
            "EventBusName": yard.template.bus.name,
            "Source": sources.user_source(PERSON),
            "DetailType": "dev",
            "Detail": json.dumps({"run": RUN, "name": "mine", "want": "up", "request": asked}),
        }
        yard.people.call("events", "put_events", Entries=[entry])

    simulate(template, Scenario("dev host", "", begin, timedelta(hours=3), over=over), at_end=at_end)


def of_dev(tags: dict[str, str]) -> tuple[str | None, str | None]:
    return tags.get("trainyard:dev"), tags.get("trainyard:submitter")


def test_one_on_demand_is_its_owners_and_is_stopped_with_a_word_how_it_comes_back(yard: YardTemplate) -> None:
    texts: list[str] = []
    owned: list[Any] = []

    def look(world: Yard) -> None:
        texts.extend(each.text for each in world.notifications.published)
        owned.extend(of_dev(each.tags) for each in world.ec2.ever.values())

    forgotten(
        yard, "on_demand", lambda world: any(e.state == "stopped" for e in world.ec2.ever.values()), look
    )
    assert owned == [("mine", PERSON)]
    (notification,) = (each for each in texts if each.startswith("stop i-"))
    assert "To continue: trainyard dev up mine" in notification


def test_one_on_spot_becomes_an_image_that_is_its_owners(yard: YardTemplate) -> None:
    images: list[Any] = []

    def look(world: Yard) -> None:
        images.extend(of_dev(e.tags) for e in world.ec2.images.values() if e.tags.get("trainyard:host"))

    ended: Callable[[Yard], bool] = lambda world: any(  # noqa: E731 - as above
        e.state == "terminated" for e in world.ec2.ever.values()
    )
    forgotten(yard, "spot", ended, look)
    assert images == [("mine", PERSON)]
