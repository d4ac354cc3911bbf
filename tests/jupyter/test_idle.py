"""The warning in JupyterLab's page, in Chromium, and the server's answers to the host's agent about use."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import websockets
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.e2e import browser
from tests.e2e.browser import driven
from tests.e2e.patience import PATIENCE
from tests.jupyter.conftest import Lab
from training.host import processes
from training.host.dev.idle import terminals
from training.host.dev.idle.decision import RECENT, Seen, Use, use_of
from training.host.dev.idle.kernels import Server

BANNER = "#trainyard-idle"


class Page:
    """JupyterLab's page in a browser."""

    def __init__(self, driver: WebDriver, lab: Lab) -> None:
        self.driver = driver
        driver.get(f"{lab.address}/lab?token={lab.token}&reset")
        self.until("JupyterLab is there", lambda: driver.find_elements(By.CSS_SELECTOR, "#jp-MainLogo"))
        self.until(
            "nothing lies over it", lambda: not driver.find_elements(By.CSS_SELECTOR, ".jp-lab-splash")
        )

    @property
    def warning(self) -> str:
        return " ".join(each.text for each in self.driver.find_elements(By.CSS_SELECTOR, BANNER))

    def until(self, what: str, true: Callable[[], Any]) -> None:
        browser.until(self.driver, what, true, lambda: self.warning)


@pytest.fixture(scope="module")
def page(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with driven(tmp_path_factory.mktemp("browser")) as driver:
        yield Page(driver, lab)


@pytest.fixture(autouse=True)
def quiet(lab: Lab) -> None:
    """Start without a warning and without a hold."""
    say(lab, None)
    lab.held.unlink(missing_ok=True)


def say(lab: Lab, minutes: float | None, *, at: datetime | None = None) -> None:
    """Write the file of the agent, with an end in this many minutes."""
    at = at or datetime.now(UTC)
    ends = None if minutes is None else (at + timedelta(minutes=minutes)).isoformat()
    lab.outlook.write_text(json.dumps({"at": at.isoformat(), "ends": ends, "held": None}))


def test_the_page_says_when_the_host_is_stopped_and_one_key_keeps_it(page: Page, lab: Lab) -> None:
    assert page.warning == ""
    say(lab, 4)
    page.until("the warning", lambda: "will be stopped in about 4 min. Its disk stays." in page.warning)
    page.driver.find_element(By.CSS_SELECTOR, f"{BANNER} button").click()
    page.until("no warning", lambda: page.warning == "")
    assert lab.held.read_text() == "hold 2h\n"
    time.sleep(12)
    assert page.warning == "", "the agent has not looked since"
    say(lab, 2)
    page.until("the next", lambda: "in about 2 min" in page.warning)


def test_the_key_of_the_keyboard_does_the_same(page: Page, lab: Lab) -> None:
    say(lab, 3)
    page.until("the warning", lambda: "in about 3 min" in page.warning)
    body = page.driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.CONTROL, Keys.ALT, "k")
    page.until("no warning", lambda: page.warning == "")
    assert lab.held.read_text() == "hold 2h\n"


def test_it_goes_when_somebody_is_there_again(page: Page, lab: Lab) -> None:
    say(lab, 0.1)
    page.until("the warning", lambda: "stopped within the next minutes" in page.warning)
    say(lab, None)
    page.until("no warning", lambda: page.warning == "")


def test_a_hold_that_nobody_writes_is_told_with_what_to_type(page: Page, lab: Lab) -> None:
    works = lab.command.read_text()
    lab.command.write_text("#!/bin/sh\necho nobody has written the tag >&2\nexit 1\n")
    say(lab, 4)
    page.until("the warning", lambda: "in about 4 min" in page.warning)
    page.driver.find_element(By.CSS_SELECTOR, f"{BANNER} button").click()
    said = "The host is not kept: nobody has written the tag. In a terminal, type: trainyard hold 2h"
    page.until("why", lambda: said in page.warning)
    lab.command.write_text(works)


def test_an_agent_that_is_gone_warns_nobody(lab: Lab) -> None:
    say(lab, 30, at=datetime.now(UTC) - timedelta(minutes=5))
    assert lab.ask("GET", "/trainyard/idle").json() == {"left": None}
    lab.outlook.unlink()
    assert lab.ask("GET", "/trainyard/idle").json() == {"left": None}


def test_nobody_asks_or_holds_without_the_token(lab: Lab) -> None:
    assert lab.ask("GET", "/trainyard/idle", signed=False).status == HTTPStatus.FORBIDDEN
    assert lab.ask("POST", "/trainyard/hold", signed=False).status == HTTPStatus.FORBIDDEN
    assert not lab.held.exists()


def test_notebooks_are_saved_by_themselves(lab: Lab) -> None:
    told = lab.ask("GET", "/lab/api/settings/@jupyterlab/docmanager-extension:plugin").json()
    defaults = told["schema"]["properties"]
    assert (defaults["autosave"]["default"], defaults["autosaveInterval"]["default"]) == (True, 30)


# --------------------------------------------------------------------------------------- observations of the agent
def used(lab: Lab, *, later: timedelta = timedelta(0)) -> Use:
    kernels, its_terminals = Server("127.0.0.1", lab.port, lab.token_file).look()
    found = use_of(Seen(kernels, its_terminals), datetime.now(UTC) + later)
    assert isinstance(found, Use)
    return found


def until_used(lab: Lab, value: int, *, later: timedelta = timedelta(0)) -> Use:
    ends = time.monotonic() + PATIENCE
    while (found := used(lab, later=later)).value != value:
        assert time.monotonic() < ends, found
        time.sleep(0.3)
    return found


def run_cell(lab: Lab, kernel: str, code: str) -> None:
    """Run a cell as a page does, then close the connection."""
    header = {"msg_id": "1", "session": "s", "username": "", "msg_type": "execute_request", "version": "5.3"}
    content = {"code": code, "silent": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}

    async def say() -> None:
        address = f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels?token={lab.token}"
        async with websockets.connect(address, open_timeout=PATIENCE) as channel:
            await channel.send(json.dumps(message))
            while json.loads(await channel.recv()).get("content", {}).get("execution_state") != "busy":
                pass

    asyncio.run(say())


def test_a_cell_that_sleeps_is_use_with_no_page_open_and_a_kernel_that_idles_is_not(lab: Lab) -> None:
    kernel = lab.ask("POST", "/api/kernels", name="python3").json()["id"]
    run_cell(lab, kernel, "import time; time.sleep(300)")
    later = RECENT + timedelta(minutes=1)
    assert "runs a cell" in until_used(lab, 1, later=later).kernels
    lab.ask("POST", f"/api/kernels/{kernel}/interrupt")
    until_used(lab, 0, later=later)
    assert "was used just now" in used(lab).kernels
    lab.ask("DELETE", f"/api/kernels/{kernel}")
    assert used(lab).value == 0


def test_a_command_in_a_terminal_of_jupyters_is_use_and_its_prompt_is_not(lab: Lab) -> None:
    name = lab.ask("POST", "/api/terminals").json()["name"]

    async def type_(line: str, *, until: str) -> None:
        """Type a line at the prompt, and wait for its output."""
        address = f"ws://127.0.0.1:{lab.port}/terminals/websocket/{name}?token={lab.token}"
        said = ""

        async def shown(*ends: str) -> None:
            nonlocal said
            while not said.rstrip().endswith(ends):
                kind, *text = json.loads(await terminal.recv())
                said += text[0] if kind == "stdout" else ""

        try:
            async with (
                asyncio.timeout(PATIENCE),
                websockets.connect(address, open_timeout=PATIENCE) as terminal,
            ):
                await shown("$", "#")
                await terminal.send(json.dumps(["stdin", line]))
                await shown(until)
        except TimeoutError:
            pytest.fail(f"the terminal showed {said!r}")

    def runs() -> set[str]:
        return {each.runs for each in terminals.look(processes.find(), Path("/dev/pts"))}

    asyncio.run(type_("exec bash -c 'echo it \"runs\"; exec -a mine sleep 301'\r", until="it runs"))
    until_used(lab, 2)
    ends = time.monotonic() + PATIENCE
    while "sleep" not in runs():
        assert time.monotonic() < ends, runs()
        time.sleep(0.3)
    lab.ask("DELETE", f"/api/terminals/{name}")
