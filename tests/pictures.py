"""`make pictures`: the pictures of the page and the transcript of a submit in the docs, made with this version.

The pictures show the canned yard of the page's tests in Chromium. The transcript is a run on the local cloud of STATE
(default: .localcloud), which is started, deployed and baked if necessary.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from selenium.webdriver import Chrome

from scripts.local_yard import ROOT, Cloud, client_environment, port_for
from tests.e2e.browser import Browser, driven
from tests.unit.ui.canned import INTERRUPTED, TRAINING, WAITING
from tests.unit.ui.canned_study import STUDY
from tests.unit.ui.site import canned

GROUPED = "/?group=label.team&sort=-metric.val/accuracy&" + "&".join(
    f"column={name}"
    for name in ("state", "args.lr", "metric.val/accuracy", "type", "user", "cost", "duration")
)
PICTURES = ROOT / "docs/pictures"
SHOWN = (
    # picture, path, width, height, color scheme
    ("ui-run.png", f"/runs/{INTERRUPTED}", 1280, 1080, "light"),
    ("ui-metrics.png", f"/runs/{TRAINING}#h-metrics", 1280, 1200, "light"),
    ("ui-compare.png", f"/compare?runs={TRAINING},{INTERRUPTED}#h-compared", 1280, 1050, "dark"),
    ("ui-runs.png", "/", 1280, 800, "light"),
    ("ui-groups.png", GROUPED, 1280, 900, "dark"),
    ("ui-schedules.png", "/schedules", 1280, 420, "light"),
    ("ui-small.png", f"/runs/{WAITING}", 390, 844, "light"),
    ("ui-study.png", f"/studies/{STUDY}", 1280, 1200, "light"),
    ("ui-images.png", "/images", 1280, 620, "dark"),
)
CHARTS = {
    "ui-run.png": "#metrics",
    "ui-metrics.png": "#metrics",
    "ui-compare.png": "#compared",
    "ui-study.png": "#best #compared",
}
"""The parts of a picture's page that must have charts."""
PAGES = (ROOT / "README.md", ROOT / "docs/index.md")
BEGIN, END = "<!-- transcript: begin -->", "<!-- transcript: end -->"
WIDTH = 118
STEP = re.compile(r"\S+ \| step (\d+)/(\d+) ")
TIME = re.compile(r"^\d\d:\d\d:\d\d ")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, driven(Path(name)) as driver, canned() as address:
        page = Browser.enter(driver, address)
        for picture in SHOWN:
            take(driver, page, *picture)
    text = "\n".join((BEGIN, "```", *shortened(submitted()), "```", END))
    for file in PAGES:
        before, _, rest = file.read_text().partition(BEGIN)
        file.write_text(before + text + rest.partition(END)[2])


def take(driver: Chrome, page: Browser, name: str, path: str, width: int, height: int, scheme: str) -> None:
    """Save a picture of a page with 256 colors."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page.open(path)
    page.until("what AWS answers", lambda: "Loading" not in page.text("main"))
    charts = CHARTS.get(name)
    if charts:
        page.until("its charts", lambda: all(page.all(f"{each} figure") for each in charts.split()))
    driver.execute_script("location.hash && document.querySelector(location.hash).scrollIntoView()")
    if charts:
        page.until("drawn charts", lambda: all(page.all(f"{each} canvas") for each in charts.split()))
    file = PICTURES / name
    driver.save_screenshot(str(file))
    with Image.open(file) as picture:
        picture.convert("RGB").quantize(256).save(file, optimize=True)


def submitted() -> list[str]:
    """Submit a new job on the local cloud, and return the lines that the commands print."""
    state = Path(os.environ.get("STATE") or ROOT / ".localcloud")
    cloud = Cloud(state, 4566)
    if not cloud.is_up():
        cloud = Cloud(state, port_for(4566))
        cloud.up()
    cloud.deploy()
    environment = client_environment(cloud.environment()) | {"PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:

        def printed(words: str) -> list[str]:
            command = [sys.executable, "-m", "trainyard.cli", *words.split()]
            done = subprocess.run(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            return [f"$ trainyard {words}", *done.stdout.splitlines()]

        printed("image bake")
        return [*printed("init"), *printed("submit job.yaml")]


def shortened(lines: list[str]) -> Iterator[str]:
    """Yield the lines without times, the program's output except its first and last step, the curve, and everything
    after the cost."""
    steps = [line for line in lines if STEP.match(line)]
    for line in lines:
        plain = TIME.sub("", line)
        if plain.startswith("|") and line not in (steps[0], steps[-1]):
            continue
        if plain.strip() and not line.startswith((" ", "-")):
            yield plain if len(plain) <= WIDTH else f"{plain[: WIDTH - 3]}..."
        if plain.startswith("Cost"):
            return


if __name__ == "__main__":
    main()
