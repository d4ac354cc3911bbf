"""docs/cli.md describes the commands."""

import re
from pathlib import Path

from tests.unit.cli.reference import PAGE, page
from trainyard.exit_codes import ExitCode

COMMANDS = Path(__file__).parents[3] / "trainyard/cli/commands"
ANSWERS = re.compile(r"is_json|answer(_line)?\(")


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "make format"


def test_the_page_has_the_json_of_each_command() -> None:
    """The table is written by hand."""
    table = PAGE.read_text().partition("## Answers in JSON")[2].partition("## Reference")[0]
    rows: set[str] = set()
    for cell in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE):
        first, *more = re.findall(r"`([^`]+)`", cell)
        group = first.rpartition(" ")[0]
        rows |= {first, *(f"{group} {each}".strip() for each in more)}
    files = [file for file in COMMANDS.rglob("*.py") if ANSWERS.search(file.read_text())]
    names = {" ".join(file.relative_to(COMMANDS).with_suffix("").parts).strip("_") for file in files}
    missing = {name.replace("_", "-") for name in names} - rows
    assert not missing, f"add to the table `Answers in JSON` of docs/cli.md: {missing}"


def test_the_page_has_every_exit_code() -> None:
    table = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert [int(each) for each in table] == [code.value for code in ExitCode]
