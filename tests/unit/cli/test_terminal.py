"""Output in terminals and pipes."""

import io
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from rich.console import Console

from trainyard.cli.options import Options, Output
from trainyard.cli.output import terminal
from trainyard.client.runs.logs import LogLine

LINES = [
    LogLine(datetime(2026, 11, 25, 8, 30, second, tzinfo=UTC), "chief-0", "i-1", 1, text)
    for second, text in enumerate(["[bold]step 1[/]", "\x1b[31mloss\x1b[0m 0.5", "a\x07b " + "x" * 200])
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            Options(),
            [
                "chief-0 08:30:00 [bold]step 1[/]",
                "chief-0 08:30:01 loss 0.5",
                "chief-0 08:30:02 a\\x07b " + "x" * 200,
            ],
        ),
        (
            Options(quiet=True),
            ["chief-0 [bold]step 1[/]", "chief-0 loss 0.5", "chief-0 a\\x07b " + "x" * 200],
        ),
    ],
)
def test_lines_of_logs_in_a_pipe_are_whole_and_harmless(
    capsys: pytest.CaptureFixture[str], options: Options, expected: list[str]
) -> None:
    terminal.log_lines(LINES, options)
    assert capsys.readouterr().out.splitlines() == expected


def test_in_json_each_line_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.log_lines(LINES, Options(output=Output.JSON))
    first, *others = capsys.readouterr().out.splitlines()
    assert '"text": "[bold]step 1[/]"' in first
    assert '"instance": "i-1"' in first
    assert len(others) == 2


def test_many_small_files_and_each_large_one_are_counted_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = io.StringIO()
    monkeypatch.setattr(terminal, "beside", Console(file=told, force_terminal=True, width=100))
    with terminal.transfers(quiet=False) as on_progress:
        for number in range(30):
            on_progress(f"runs/a/model/{number}", 0, 10)
            on_progress(f"runs/a/model/{number}", 10, 10)
        on_progress("runs/a/model/large", terminal.LARGE, 2 * terminal.LARGE)
    said = told.getvalue()
    assert "30 smaller files" in said
    assert "large" in said


def test_an_answer_stands_before_what_is_said_beside_it_and_neither_is_broken_in_a_file() -> None:
    program = (
        "from trainyard.cli.output import terminal; print('answer'); terminal.note('beside ' * 60); "
        "terminal.console.print('more ' * 60); terminal.hint('last')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["answer", "beside", "more", "last"]
