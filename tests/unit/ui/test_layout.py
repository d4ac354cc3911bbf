"""The pages in Chromium: complete at every width, and never stale without a note."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
import uvicorn
from selenium.webdriver import Chrome

from tests.e2e.browser import Browser, driven
from tests.unit.ui.canned import FAILED, INTERRUPTED, TRAINING, Cloud, cloud, stamp
from tests.unit.ui.canned_study import STUDY
from tests.unit.ui.site import TOKEN, canned
from trainyard.ui.app import app
from trainyard.ui.serve import listen
from trainyard.ui.templating import Templates

WIDTHS = (360, 390, 768, 1280)
PATHS = (
    "/",
    "/?group=study&column=state&column=cost&column=args.lr&column=metric.val%2Faccuracy&column=duration&column=image",
    "/?group=label.team&column=pool&column=type&column=market&column=user&column=schedule&column=label.team",
    "/hosts",
    "/money",
    "/images",
    "/studies",
    "/models",
    "/schedules",
    "/models/digits",
    "/nowhere",
    f"/compare?runs={TRAINING},{FAILED}",
    *(f"/runs/{run}" for run in (TRAINING, FAILED, INTERRUPTED)),
    f"/studies/{STUDY}",
)
NEXT_FRAME = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
"""Wait until charts have the new width: they are resized before the next frame."""
FAULTS = """
const faults = [], scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
if (document.documentElement.scrollWidth > innerWidth) faults.push("the page scrolls sideways");
for (const e of document.querySelectorAll("main *")) {
  const box = e.getBoundingClientRect(), text = (e.textContent || "").trim();
  if (box.width && box.right > innerWidth + 1 && !scrolls(e.parentElement)) faults.push(`beyond the edge: ${text}`);
  const range = document.createRange();
  range.selectNodeContents(e);
  const lines = range.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight);
  if (!e.children.length && !e.closest("svg, .u-legend") && text.length > 7 && lines > text.length / 3)
    faults.push(`${Math.round(lines)} lines for ${text}`);
}
const end = (e) => e.getBoundingClientRect().right, edges = (e) => e.getBoundingClientRect();
for (const e of document.querySelectorAll(".bar-label span"))
  if (edges(e).top < edges(e.parentElement).bottom - 1 && end(e) > end(e.parentElement) + 1)
    faults.push(`cut in the timeline: ${e.textContent}`);
for (const e of document.querySelectorAll(".figures dl"))
  if (end(e.lastElementChild) < end(e) - 2) faults.push(`an empty cell after ${e.lastElementChild.textContent}`);
for (const e of document.querySelectorAll("table.list tr")) {
  const cells = [...e.cells].filter((cell) => cell.offsetWidth);
  if (getComputedStyle(e).display === "table-row" && end(cells.at(-1)) < end(e.closest("table")) - 2)
    faults.push(`a row that ends too early: ${e.textContent.trim()}`);
}
return faults;
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with driven(tmp_path_factory.mktemp("layout")) as driver:
        yield driver


@pytest.fixture(scope="module")
def page(driver: Chrome) -> Iterator[Browser]:
    with canned() as address:
        yield Browser.enter(driver, address)


@contextmanager
def served_here(shown: Cloud, listening: socket.socket) -> Iterator[None]:
    """Serve the canned pages from this process. A later server at the same port accepts the same token."""
    closing, port = asyncio.Event(), int(listening.getsockname()[1])
    served = app(shown.yard, Templates("Trainyard", "123456789012"), TOKEN, port, closing, ())
    server = uvicorn.Server(uvicorn.Config(served, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    try:
        yield
    finally:
        closing.set()
        server.should_exit = True
        thread.join(60)


def opacity(page: Browser) -> float:
    return float(
        page.driver.execute_script("return getComputedStyle(document.querySelector('main')).opacity")
    )


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_cut_or_one_letter_wide(path: str, page: Browser) -> None:
    page.open(path)
    page.until("what AWS answers", lambda: "Loading" not in page.text("main"))
    faults = {}
    for width in WIDTHS:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        page.driver.execute_async_script(NEXT_FRAME)
        faults[width] = page.driver.execute_script(FAULTS)
    assert faults == {width: [] for width in WIDTHS}


def test_a_page_is_loaded_again_after_the_computer_has_slept(page: Browser) -> None:
    page.open("/")
    page.driver.execute_script("const now = Date.now; Date.now = () => now() + 600_000")
    page.until("the page loaded again", lambda: not page.same_page)


def test_after_a_lost_connection_each_state_is_the_servers_again(driver: Chrome) -> None:
    """After a lost connection, the page shows the changes since then."""
    shown = cloud(3, 40)
    training = shown.stories[TRAINING]
    listening = listen(0)
    port = int(listening.getsockname()[1])
    with served_here(shown, listening):
        page = Browser.enter(driver, f"http://127.0.0.1:{port}/#token={TOKEN}")
        page.open("/")
        page.until("the run that trains", lambda: page.text(f"#row-{TRAINING} .state").startswith("Training"))
    page.until("the dimmed page", lambda: opacity(page) < 1)
    assert page.text(f"#row-{TRAINING} .state").startswith("Training")
    training.row |= {"state": "Release", "outcome": "stopped", "ended": stamp(datetime.now(UTC))}
    with served_here(shown, listen(port)):
        page.until("how it ended", lambda: page.text(f"#row-{TRAINING} .state").startswith("Stopped"))
        page.until("the page as before", lambda: opacity(page) == 1)
        assert page.text("#line") == ""
        assert page.same_page


def test_a_page_whose_command_has_ended_is_dimmed_and_says_so(driver: Chrome) -> None:
    with canned() as address:
        page = Browser.enter(driver, address)
        page.open("/")
        page.until("what AWS answers", lambda: page.all("tr[data-row]"))
        assert opacity(page) == 1
    page.until("the dimmed page", lambda: opacity(page) < 1)
    assert page.text("#line") == "`trainyard ui` does not answer: start it again"
