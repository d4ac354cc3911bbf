"""Open the page of `trainyard ui` in headless Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from scripts.local_yard import ROOT, client_environment
from tests.e2e.patience import PATIENCE

MISSING = "no Chromium here: apt-get install --no-install-recommends chromium chromium-driver"


def until(driver: WebDriver, what: str, true: Callable[[], Any], shown: Callable[[], str]) -> Any:
    """Return the first truthy result of `true`. An element that is replaced while it is read is read again."""
    wait = WebDriverWait(driver, PATIENCE, 0.3, [StaleElementReferenceException])
    try:
        return wait.until(lambda _: true())
    except TimeoutException:
        raise AssertionError(f"never saw: {what}; the page says:\n{shown()}") from None


class Browser:
    """A user in front of the page."""

    def __init__(self, driver: webdriver.Chrome, address: str) -> None:
        self.driver, self.address = driver, address
        self.root = address.partition("/#")[0]

    @staticmethod
    def enter(driver: webdriver.Chrome, address: str) -> Browser:
        """Open an address with its token, and wait until the page shows that it has accepted the token."""
        driver.get(address)
        page = Browser(driver, address)
        page.until("the page behind its token", lambda: page.all("main"))
        return page

    def open(self, path: str = "/") -> None:
        """Open a path, and mark the page so that `same_page` detects a reload."""
        self.driver.get(self.root + path)
        self.driver.execute_script("window.seen = true")

    @property
    def same_page(self) -> bool:
        """Return True if the page was not reloaded since `open`."""
        return bool(self.driver.execute_script("return window.seen === true"))

    def text(self, selector: str = "body") -> str:
        """Return the visible text of the first matching element, or an empty text."""
        for _ in range(3):
            try:
                return next((each.text for each in self.all(selector)), "")
            except StaleElementReferenceException:  # replaced while it was read
                continue
        return ""

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def press(self, words: str) -> None:
        """Click the button with these words, in the open dialog if there is one."""
        above = "//dialog[@open]" if self.all("dialog[open]") else ""
        self.driver.find_element(By.XPATH, f"{above}//button[contains(., '{words}')]").click()

    def type(self, keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(keys)

    def write(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        (field,) = self.all(selector)
        field.clear()
        field.send_keys(text)

    def until(self, what: str, true: Callable[[], Any]) -> Any:
        return until(self.driver, what, true, self.text)

    def until_text(self, words: str, selector: str = "body") -> None:
        self.until(f"{words!r} in {selector}", lambda: words in self.text(selector))

    @property
    def complaints(self) -> list[str]:
        """Return the browser's errors: failed scripts, and requests that the content security policy blocked."""
        lines: list[dict[str, Any]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [line["message"] for line in lines if line["level"] == "SEVERE"]

    @property
    def origins(self) -> set[str]:
        """Return the origins of all resources on the page."""
        names = "performance.getEntriesByType('resource').map(each => new URL(each.name).origin)"
        return set(self.driver.execute_script(f"return {names}"))


@contextmanager
def page(environment: dict[str, str], folder: Path) -> Iterator[Browser]:
    """Open the page by the address that the command prints. Skip the test if Chromium is missing."""
    with driven(folder) as driver, served(environment, folder) as address:
        yield Browser.enter(driver, address)


@contextmanager
def served(environment: dict[str, str], folder: Path) -> Iterator[str]:
    """Run `trainyard ui` and yield its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trainyard.cli", "ui", "--no-browser", "--port", "0", "-o", "json"],
        cwd=folder,
        env=client_environment(environment) | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        yield str(json.loads(process.stdout.readline())["address"])
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextmanager
def driven(folder: Path) -> Iterator[webdriver.Chrome]:
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={folder / 'chromium'}")
    options.add_argument("--window-size=1280,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    try:
        yield driver
    finally:
        driver.quit()
