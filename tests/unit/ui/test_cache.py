"""The number of requests to AWS does not depend on the number of viewers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.ui import canned
from tests.unit.ui.canned import TRAINING
from trainyard.client import Yard
from trainyard.client.errors import NoCredentials
from trainyard.ui.cache import Cache
from trainyard.ui.pages.hosts import Hosts
from trainyard.ui.pages.page import Page, read_values
from trainyard.ui.pages.run import RunPage
from trainyard.ui.pages.runs import NEWEST, Runs


def looks(cloud: canned.Cloud, page: Callable[[], Page], tabs: int) -> dict[str, int]:
    """Return the requests to AWS when several tabs load the page at the same time, twice."""

    async def together() -> None:
        cache = Cache(cloud.yard)
        for _ in range(2):
            seen = await asyncio.gather(*(read_values(page(), cache) for _ in range(tabs)))
            assert not any(each["troubles"] for each in seen)
        cache.close()

    asyncio.run(together())
    return dict(cloud.calls)


@pytest.mark.parametrize("page", [Runs, Hosts, lambda: RunPage(TRAINING)])
def test_ten_tabs_cost_no_more_than_one(page: Callable[[], Page]) -> None:
    assert looks(canned.cloud(), page, 10) == looks(canned.cloud(), page, 1)


def test_a_list_of_500_runs_is_two_queries_at_most() -> None:
    assert looks(canned.cloud(runs=400), Runs, 1)["query"] <= 2


def test_only_the_newest_500_runs_of_a_longer_list_are_read_at_each_update() -> None:
    async def look() -> None:
        cache = Cache(cloud.yard)
        counts = []
        for _ in range(3):
            seen = await read_values(Runs(), cache)
            while seen["reads_on"]:
                await asyncio.sleep(0.01)
                seen = await read_values(Runs(), cache)
            counts.append(cloud.calls["query"])
            assert seen["arranged"].total > NEWEST
            cache.stale("runs")
        cache.close()
        assert counts[1] - counts[0] == counts[2] - counts[1] < counts[0]

    cloud = canned.cloud(runs=600)
    asyncio.run(look())


def test_an_error_is_asked_once_by_ten_tabs() -> None:
    cloud = canned.cloud()
    cloud.denies = NoCredentials("AWS did not accept the credentials", "expired", "aws sso login")

    async def together() -> list[Any]:
        cache = Cache(cloud.yard)
        return await asyncio.gather(*(read_values(Runs(), cache) for _ in range(10)))

    assert {each["troubles"][0].what for each in asyncio.run(together())} == {
        "AWS did not accept the credentials"
    }
    assert cloud.calls["query"] == 1


def test_credentials_that_are_not_accepted_are_looked_for_anew() -> None:
    cloud = canned.cloud()
    found = []

    def find() -> Yard:
        found.append(cloud.yard())
        return found[-1]

    def question(yard: Yard) -> str:
        if yard is found[0]:
            raise NoCredentials("AWS did not accept the credentials", "expired", "aws sso login")
        return "an answer"

    async def twice() -> str:
        cache = Cache(find)
        with pytest.raises(NoCredentials):
            await cache.do(question)
        return await cache.do(question)

    assert asyncio.run(twice()) == "an answer"


def test_who_goes_away_leaves_the_others_their_answer() -> None:
    async def one_leaves() -> str:
        cache = Cache(canned.cloud().yard)
        leaves = asyncio.ensure_future(cache.fetch("key", lambda yard: yard.name))
        stays = asyncio.ensure_future(cache.fetch("key", lambda yard: yard.name))
        await asyncio.sleep(0)
        leaves.cancel()
        return await stays

    assert asyncio.run(one_leaves()) == "Trainyard"
