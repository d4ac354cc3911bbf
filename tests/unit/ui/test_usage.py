"""The charts of a run with many scalars and many hosts: few lines are sent, and only charts in view are drawn."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.browser import Browser, driven
from tests.unit.ui.canned_large import LARGE, large
from tests.unit.ui.site import canned, owner
from trainyard.client.runs.usage import Measure, Usage
from trainyard.ui.usage import MOST_LINES, charts_of, hosts_of, own_charts

CELSIUS = Measure("GPU temperature", "°C", namespace="", metric="", seconds=60)


def usage(hosts: int, gpus: int = 1) -> Usage:
    lines: dict[str, tuple[float | None, ...]] = {
        f"worker {host}, GPU {gpu}": (None, float(host), 10.0 * host + gpu)
        for host in range(hosts)
        for gpu in range(gpus)
    }
    return Usage(CELSIUS, (0, 60, 120), lines)


def test_few_lines_are_shown_as_they_are() -> None:
    (chart,) = charts_of([usage(MOST_LINES)])
    assert [each["label"] for each in chart["series"]] == [
        f"worker {host}, GPU 0" for host in range(MOST_LINES)
    ]
    assert hosts_of([usage(MOST_LINES)]) == []
    assert own_charts([usage(MOST_LINES)], "worker 1") == []


def test_many_lines_become_the_highest_the_median_and_the_lowest() -> None:
    (chart,) = charts_of([usage(7, gpus=2)])
    assert {each["label"]: each["y"] for each in chart["series"]} == {
        "highest": [None, 6.0, 61.0],
        "median": [None, 3.0, 30.5],
        "lowest": [None, 0.0, 0.0],
    }
    assert chart["note"] == (
        "14 GPUs. On average, worker 6, GPU 1 has the highest values, and worker 0, GPU 0 the lowest."
    )


def test_the_lines_of_one_host_of_many_can_be_read() -> None:
    many = usage(7, gpus=2)
    assert hosts_of([many]) == [f"worker {host}" for host in range(7)]
    (chart,) = own_charts([many], "worker 1")
    assert chart["series"] == [
        {"label": "worker 1, GPU 0", "y": (None, 1.0, 10.0)},
        {"label": "worker 1, GPU 1", "y": (None, 1.0, 11.0)},
    ]
    assert own_charts([many], "worker 8")[0]["series"] == []


def test_a_run_of_20_hosts_sends_three_lines_for_each_chart() -> None:
    client = owner(large(0, 5, 20))
    events = client.get(f"/runs/{LARGE}/events").text
    (sent,) = [each for each in events.split("\n\n") if each.startswith("event: usage")]
    found = json.loads(sent.partition("data: ")[2])
    assert {len(chart["series"]) for chart in found["charts"]} == {3}
    assert len(found["hosts"]) == 20
    own = client.get(f"/runs/{LARGE}/usage?host=worker 3").json()["charts"]
    assert {len(chart["series"]) for chart in own} >= {1, 8}
    assert client.get("/runs/nothing-1/usage?host=x").status_code == 404


# --- in Chromium
@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with (
        driven(tmp_path_factory.mktemp("usage")) as driver,
        canned("canned_large", "0", "60", "20") as address,
    ):
        yield Browser.enter(driver, address)


def shows(page: Browser, words: str) -> bool:
    """Scroll to the charts of hosts, because what is above them may still grow."""
    page.driver.execute_script("document.querySelector('#usage').scrollIntoView()")
    return words in page.text("#usage .u-legend")


def test_only_charts_in_view_are_drawn_and_the_lines_of_a_host_are_added(page: Browser) -> None:
    page.open(f"/runs/{LARGE}")
    page.until("the charts of hosts", lambda: page.all("#usage figure"))
    page.until("the first charts", lambda: page.all("#metrics canvas"))
    assert len(page.all("canvas")) < len(page.all("#metrics figure")) == 61
    page.until("a chart of hosts", lambda: shows(page, "median"))
    page.driver.execute_script(
        "const s = document.querySelector('#usage-host'); s.value = 'worker 3';"
        "s.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    page.until("the lines of the host", lambda: shows(page, "worker 3"))
    assert page.complaints == []
