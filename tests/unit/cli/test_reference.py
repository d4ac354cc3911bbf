"""docs/cli.md describes the commands."""

import re

from tests.unit.cli.reference import PAGE, page
from trainyard.exit_codes import ExitCode


def test_the_page_is_current() -> None:
    """`make format` updates the page."""
    assert PAGE.read_text() == page(PAGE.read_text())


def test_the_page_has_every_exit_code() -> None:
    table = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert [int(each) for each in table] == [code.value for code in ExitCode]
