"""The page in Chromium with 10,000 runs, and with a run of 200 scalars and 50 hosts of 8 GPUs: seconds and long tasks.

The canned yard of the page's tests answers from memory, so that the seconds are those beyond AWS.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from starlette.datastructures import QueryParams

from tests.e2e.browser import Browser, driven
from tests.unit.ui.canned_large import HOSTS, LARGE_PAGE, RUNS, SCALARS, large
from tests.unit.ui.site import canned
from trainyard.ui.cache import Cache
from trainyard.ui.pages.runs import Runs
from trainyard.ui.templating import Templates
from trainyard.ui.view import View

COLUMNS = ("state", "args.lr", "metric.val/accuracy", "type", "cost")
LIST = "/?sort=-cost&" + "&".join(f"column={name}" for name in COLUMNS)
LOOK_SECONDS = 0.2
NEARLY_ALL = RUNS * 9 // 10
__all__ = ("HOSTS", "RUNS", "SCALARS")
SCROLL_MILLISECONDS = 6_000
SCRIPTS = Path(__file__).with_name("page.js")
WATCH = """
window.long = [];
const keep = (each) => window.long.push([each.startTime, Math.round(each.duration)]);
new PerformanceObserver((list) => list.getEntries().forEach(keep)).observe({type: "longtask", buffered: true});
"""
TASKS = "return window.long.map(([, took]) => took)"


@dataclass(frozen=True)
class Page:
    """Measures of Chromium. A long task is one of more than 50 ms, during which the page answers nothing."""

    list_cpu_seconds: float
    """The seconds of one process, without Chromium: all rows read, sorted by a column and rendered."""
    all_runs_seconds: float
    """From the request of the list until it counts all runs."""
    sort_seconds: float
    rows: int
    """Rows of the list in the browser."""
    first_charts_seconds: float
    loading_tasks: list[int]
    """Long tasks until the charts of hosts are there, in milliseconds."""
    charts: int
    canvases: int
    """Charts that were drawn after the page has been scrolled to its end."""
    scroll_tasks: list[int]
    longest_frame_milliseconds: int


def measure() -> Page:
    with (
        tempfile.TemporaryDirectory() as folder,
        driven(Path(folder)) as driver,
        canned("canned_large", str(RUNS)) as address,
    ):
        driver.set_script_timeout(120)
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        page = Browser(driver, address)
        driver.get(address.replace("/#", "/schedules#"))  # takes the token, and reads no run
        page.until("the page behind its token", lambda: page.all("main"))
        driver.get(page.root + LIST)
        every = _call(driver, f"all({NEARLY_ALL}, done)")
        sort = _call(driver, "sort('args.lr', done)")
        rows = len(page.all("tr[data-row]"))
        driver.get(page.root + LARGE_PAGE)
        charts = _call(driver, "charts(done)")
        page.until("the charts of hosts", lambda: page.all("#usage figure"))
        loading = driver.execute_script(TASKS)
        found = _call(driver, f"scroll({SCROLL_MILLISECONDS}, done)")
        assert page.complaints == [], page.complaints
        return Page(
            list_cpu_seconds=round(list_all(), 2),
            all_runs_seconds=round(every / 1000, 2),
            sort_seconds=round(sort / 1000, 2),
            rows=rows,
            first_charts_seconds=round(charts / 1000, 2),
            loading_tasks=loading,
            charts=len(page.all("figure")),
            canvases=len(page.all("canvas")),
            scroll_tasks=found["tasks"],
            longest_frame_milliseconds=round(found["longest"]),
        )


def list_all() -> float:
    """Return the CPU seconds of a list of all runs."""
    cloud, view, templates = large(RUNS, 2, 2), View.of(QueryParams(LIST[2:])), Templates("yard", "place")
    cpu = time.process_time()

    async def look() -> None:
        cache, looks_again = Cache(cloud.yard), True
        while looks_again:
            seen = await Runs(view).look(cache)
            looks_again = seen["reads_on"]
            await asyncio.sleep(LOOK_SECONDS if looks_again else 0)
        templates.parts(Runs(view), {"troubles": [], **seen})
        cache.close()

    asyncio.run(look())
    return time.process_time() - cpu


def _call(driver: Chrome, call: str) -> Any:
    return driver.execute_async_script(f"{SCRIPTS.read_text()}; const done = arguments[0]; page.{call}")
