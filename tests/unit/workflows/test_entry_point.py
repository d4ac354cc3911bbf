"""Log lines of a handler name its invocation and run, and nothing of an earlier invocation."""

import contextlib
import importlib
import traceback
import typing
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from lambdas import environment
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AttemptInput
from lambdas.steps.observability import logger
from tests.support.recorded import CONTEXT, LambdaContext
from tests.unit.workflows.conftest import Log
from trainyard.command_line import command_line
from trainyard.core.model.errors import (
    AccessDenied,
    HostLost,
    Misconfigured,
    ServiceUnavailable,
)
from trainyard.values import serialization

ROOT = Path(__file__).resolve().parents[3]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "lambdas/workflows").rglob("*.py"))
    if "def handler(" in path.read_text()
]
NAMES_NO_RUN = {
    "patrol",
    "prepare",
    "retire",
    "submit",
    "signal",
    "predict",
    "copy",
    "golden",
    "notify",
    "try_webhook",
}
"""Functions whose event names no run, or several. They log the run once it is found."""


class NobodysError(Exception):
    """An error outside of the yard's error tree."""


def handler_of(module: str) -> Any:
    return importlib.import_module(module).handler


def sample(hint: Any, run: str) -> Any:
    """Return the shortest value of that type."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint)).value
    if hint is datetime:
        return serialization.timestamp(datetime(2026, 11, 20, tzinfo=UTC))
    if hasattr(hint, "__dataclass_fields__"):
        return {
            key.key: run if key.name == "run" else sample(key.hint, run)
            for key in serialization.keys(hint)
            if key.required
        }
    return {int: 7, float: 1.0, str: "x"}.get(hint, {})


def event_of(module: str, run: str) -> Any:
    hints = typing.get_type_hints(handler_of(module))
    return next((sample(hint, run) for name, hint in hints.items() if name != "return"), {})


def called(module: str, event: Any, number: int) -> None:
    """Call the handler. A function that needs settings fails, because the test sets none."""
    context = LambdaContext(aws_request_id=f"request-{number}")
    with contextlib.suppress(Misconfigured):
        handler_of(module)(event, context)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_READ", {})
    for name in ("YARD", "TABLE_NAME", "BUCKET_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("module", MODULES)
def test_each_line_says_its_invocation_and_its_run_and_nothing_of_the_one_before(
    module: str, log: Log
) -> None:
    for number, run in enumerate(("digits-1", "letters-2")):
        logger.append_keys(left_over="of another invocation")
        called(module, event_of(module, run), number)
        lines = [line for line in log.lines() if "_aws" not in line]
        assert lines, "a handler that fails or decides says so"
        for line in lines:
            assert line["function_request_id"] == f"request-{number}"
            assert "left_over" not in line
            if module.rpartition(".")[2] not in NAMES_NO_RUN:
                assert line["run"] == run
    called(module, {}, 2)
    assert all("run" not in line for line in log.lines())


def test_an_attempt_is_named_where_the_event_names_one(log: Log) -> None:
    called("lambdas.workflows.train.launch", {"run": "digits-1", "attempt": 2}, 0)
    called("lambdas.workflows.train.admit", event_of("lambdas.workflows.train.admit", "digits-1"), 1)
    attempts = {
        line["function_request_id"]: line.get("attempt") for line in log.lines() if "_aws" not in line
    }
    assert attempts == {"request-0": 2, "request-1": None}


def failing(error: Exception) -> Any:
    @entry_point
    def handler(given: AttemptInput) -> None:
        raise error

    return handler


@pytest.mark.parametrize(
    ("yard", "line"), [("trainyard", "trainyard stop r"), ("b", "trainyard --yard b stop r")]
)
def test_commands_in_reasons_name_the_yard(monkeypatch: pytest.MonkeyPatch, yard: str, line: str) -> None:
    def refuses(given: AttemptInput) -> dict[str, Any]:
        raise HostLost(command_line("stop", given.run))

    monkeypatch.setenv("YARD", yard)
    with pytest.raises(HostLost, match=f"^{line}$"):
        entry_point(refuses)({"run": "r", "attempt": 1}, CONTEXT)


@pytest.mark.parametrize(
    ("error", "is_counted"),
    [
        (NobodysError("a bug"), True),
        (AccessDenied("may not"), True),
        (Misconfigured("no table"), True),
        (HostLost("gone"), False),
        (ServiceUnavailable("throttled"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_the_yards_own_fault_is_counted_and_all_else_is_said(
    error: Exception, is_counted: bool, log: Log
) -> None:
    with pytest.raises(type(error)):
        failing(error)({"run": "digits-1", "attempt": 2}, CONTEXT)
    lines = log.lines()
    told = [line for line in lines if "_aws" in line]
    assert [line["FunctionFailures"] for line in told] == [[1.0]] * is_counted
    assert all(
        (line["run"], line["attempt"], line["error"]) == ("digits-1", 2, type(error).__name__)
        for line in told
    )
    (said,) = (line for line in lines if "_aws" not in line)
    assert (said["run"], said["level"]) == ("digits-1", "ERROR" if is_counted else "INFO")
    assert str(error) in str(said)


@pytest.mark.parametrize(
    ("error", "frames"),
    [
        (HostLost("gone"), {"handler", "decorate"}),
        (Misconfigured("no table"), {"handler", "decorate", "fails"}),
    ],
)
def test_what_a_workflow_waits_for_is_raised_without_a_traceback(error: Exception, frames: set[str]) -> None:
    """The runtime logs each frame of what a function raises, without the run's id."""

    def fails(given: AttemptInput) -> None:
        try:
            raise KeyError("what EC2 said")
        except KeyError as cause:
            raise error from cause

    with pytest.raises(type(error)) as raised:
        entry_point(fails)({"run": "digits-1", "attempt": 1}, CONTEXT)
    names = {frame.name for frame in traceback.extract_tb(raised.value.__traceback__)}
    assert names - {"test_what_a_workflow_waits_for_is_raised_without_a_traceback"} == frames
    assert (raised.value.__cause__ is None) is ("fails" not in frames)
