"""The page of `trainyard ui` in Chromium on a deployed yard."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.e2e import browser
from tests.e2e.browser import Browser
from tests.e2e.runs import Runs
from tests.support import quick


@pytest.fixture(scope="module")
def window(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser.page(runs.cloud.environment(), tmp_path_factory.mktemp("ui")) as opened:
        yield opened


@pytest.fixture
def page(window: Browser) -> Iterator[Browser]:
    """Yield the page, and check that it loaded only its own resources and reported no error."""
    yield window
    assert window.same_page
    assert window.origins <= {window.root}
    assert window.complaints == []


def test_a_run_is_followed_from_its_submission_to_its_end(runs: Runs, page: Browser) -> None:
    page.open("/")
    run = runs.start(runs.job("followed", program={"args": quick.UNTIL_RELEASED}, labels={"team": "vision"}))
    page.until_text(run.id, "#rows")
    page.type("/")
    page.type("team=vision")
    page.until(
        "only this run", lambda: len([row for row in page.all("tr[data-row]") if row.is_displayed()]) == 1
    )

    page.open(f"/runs/{run.id}")
    page.until_text("Training", "#head .chip")
    page.until("a curve that grows", lambda: _points(page) > 2)
    page.until_text("starting at step 0 of 200", "#log")
    for words in ("chief 0", "worker 1", "g6.xlarge", "spot", "running"):
        page.until_text(words, "#hosts")
    assert "launched" in page.text("#pools")
    runs.let_finish(run)
    page.until_text("Finished", "#head .chip")
    page.until_text("finished at step 200", "#log")
    page.until_text("model/", "#results")
    assert "Total cost" in page.text("#figures")
    assert "finished" in page.text("#attempts")
    assert page.until("all points", lambda: _points(page)) > 2


def test_a_run_that_waits_says_why_and_can_be_stopped(runs: Runs, page: Browser) -> None:
    runs.cloud.fault("refuse", "g5.xlarge", "*", "*")
    job = runs.job("waits", hardware={"instance_types": ["g5.xlarge"]}, limits={"wait_minutes": 10})
    run = runs.start(job)
    page.open(f"/runs/{run.id}")
    page.until_text("Waiting for capacity", "#head .chip")
    page.until_text("3 pools refused (3 no room); it asks again at", "#head")
    page.until_text("no room", "#pools")
    for zone in ("us-east-1a", "us-east-1b", "us-east-1c"):
        assert f"g5.xlarge in {zone}, spot" in page.text("#pools")

    page.press("Stop")
    page.until_text("The run has no hosts. It ends at once", "#dialog")
    page.press("Keep running")
    assert not run.execution.is_over
    page.press("Stop")
    page.until_text("The run has no hosts. It ends at once", "#dialog")
    page.press("Stop")
    page.until("it is over", lambda: run.execution.is_over)
    page.open(f"/runs/{run.id}")
    page.until_text("was stopped", "#head")
    page.until_text("Run again", "#head")


def test_a_run_that_fails_says_its_last_words(runs: Runs, page: Browser) -> None:
    run = runs.start(runs.job("broken", program={"args": {"fail-at": 7}}))
    page.open(f"/runs/{run.id}")
    page.until_text("Failed", "#head .chip")
    page.until_text("told to fail at step 7", "#head")
    page.until_text("RuntimeError: told to fail at step 7", "#log")
    assert "failed" in page.text("#attempts")

    page.press("Run again")
    page.until_text("Start a new run of the same program", "#dialog")
    page.write("#dialog textarea", "args.fail-at")
    page.press("Run again")
    page.until_text("is not a change of the job", "#dialog")
    page.write("#dialog textarea", "args.fail-at=9\nargs.steps=20")
    page.press("Run again")
    page.until("the new run's page", lambda: run.id not in page.driver.current_url)
    page.open(page.driver.current_url.removeprefix(page.root))
    page.until_text("told to fail at step 9", "#head")


def test_a_run_that_is_interrupted_goes_on_before_ones_eyes(runs: Runs, page: Browser) -> None:
    run = runs.in_mid_training(runs.job("taken-back", program={"args": quick.LONG_AT_FIRST}))
    page.open(f"/runs/{run.id}")
    page.until_text("Training", "#head .chip")
    runs.cloud.fault("interrupt", runs.host_of(run, "worker"))
    page.until_text("interrupted", "#attempts")
    page.until("a second attempt", lambda: len(page.all("#attempts li")) == 2)
    page.until("its mark on the line", lambda: page.all("#timeline .mark-trouble"))
    page.until_text("Finished", "#head .chip")
    page.until_text("2 in total" if len(run.status().hosts) == 2 else "3 in total", "#figures")


def test_the_other_pages_show_the_yard(runs: Runs, page: Browser) -> None:
    page.open("/hosts")
    page.until_text("No hosts, and no cost.", "#rows")
    page.type("gm")
    page.until_text("By user", "#month")
    page.open("/images")
    page.until_text(runs.yard.image(), "#tree")
    page.until_text("Finished", "#bakes")


def test_nothing_is_reachable_without_the_token(window: Browser) -> None:
    for path in ("/", "/events", "/hosts", "/runs/x/results/model", "/?token=no"):
        assert status_of(window.root + path) == 403


def test_the_command_ends_as_ctrl_c_does(runs: Runs, tmp_path: Path) -> None:
    with browser.served(runs.cloud.environment(), tmp_path) as address:
        assert status_of(address) == 403
    with pytest.raises(OSError, match="refused"):
        status_of(address)


def status_of(address: str) -> int:
    """Return the status that a program without the token gets."""
    try:
        with urlopen(address) as answer:
            return int(answer.status)
    except HTTPError as refused:
        refused.close()
        return refused.code


def _points(page: Browser) -> int:
    return int(page.driver.execute_script("return document.getElementById('metrics').dataset.points ?? 0"))
