"""The pages in Chromium: what a user sees is whole on screens of every width, and not older than it seems."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.browser import Browser, driven
from tests.unit.ui.canned import FAILED, INTERRUPTED, TRAINING

WIDTHS = (360, 390, 768, 1280)
PATHS = (
    "/",
    "/hosts",
    "/money",
    "/images",
    "/nowhere",
    *(f"/runs/{run}" for run in (TRAINING, FAILED, INTERRUPTED)),
)
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
return faults;
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with driven(tmp_path_factory.mktemp("layout")) as driver:
        words = [sys.executable, "-m", "tests.unit.ui.canned", "12", "40"]
        served = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
        assert served.stdout
        try:
            address = served.stdout.readline().strip()
            driver.get(address)
            yield Browser(driver, address)
        finally:
            served.terminate()
            served.communicate(timeout=60)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_cut_or_one_letter_wide(path: str, page: Browser) -> None:
    page.open(path)
    page.until("what AWS answers", lambda: "Asking AWS" not in page.text("main"))
    faults = {}
    for width in WIDTHS:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        faults[width] = page.driver.execute_script(FAULTS)
    assert faults == {width: [] for width in WIDTHS}


def test_a_page_is_loaded_again_after_the_computer_has_slept(page: Browser) -> None:
    page.open("/")
    page.driver.execute_script("const now = Date.now; Date.now = () => now() + 600_000")
    page.until("the page loaded again", lambda: not page.same_page)
