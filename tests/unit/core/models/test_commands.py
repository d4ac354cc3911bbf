"""The command that repeats a request about a model. Dead letters name it."""

import shlex
from typing import Any

import click
import pytest
import typer

from lambdas.core.models import commands
from trainyard.cli.app import app
from trainyard.protocol.requests import Act, ModelRequest

LINES: tuple[tuple[Act, dict[str, Any], str], ...] = (
    (Act.CREATE, {}, "models create digits"),
    (Act.CREATE, {"approval": 1}, "models create digits --approval 1"),
    (
        Act.VERSION,
        {"version": "v1", "origin": "digits-0a1b2c3d"},
        "versions create v1 --model digits --origin digits-0a1b2c3d",
    ),
    (Act.MOVE, {"version": "v1", "alias": "default"}, "versions set-default v1 --model digits"),
    (
        Act.MOVE,
        {"version": "2", "alias": "champion"},
        "versions set-default 2 --model digits --alias champion",
    ),
    (Act.ROLLBACK, {"alias": "default"}, "models rollback digits"),
    (Act.RETIRE, {"version": "v1"}, "models retire digits v1"),
    (
        Act.CANARY,
        {"version": "v2", "percent": 5, "minutes": 60},
        "models canary digits --to v2 --percent 5 --minutes 60",
    ),
    (Act.END_CANARY, {"shadow": True}, "models canary digits --stop --shadow"),
    (Act.APPROVE, {"alias": "default"}, "models approve digits"),
    (Act.SERVE, {"version": "v1"}, "serve digits --version v1"),
)


@pytest.mark.parametrize(("act", "given", "line"), LINES)
def test_a_request_is_repeated_by_a_command_that_exists(act: Act, given: dict[str, Any], line: str) -> None:
    words = commands.repeat(ModelRequest(request="r", act=act, model="digits", **given))
    assert words == f"trainyard {line}"
    parse(shlex.split(line))


def test_every_act_has_a_command() -> None:
    assert {act for act, _, _ in LINES} == set(Act)


def parse(words: list[str]) -> None:
    """Parse the words as the command does, without running it. Raises UsageError for an unknown word."""
    command: Any = typer.main.get_command(app)
    with click.Context(command, info_name="trainyard") as context:
        while isinstance(command, click.Group):
            _, command, words = command.resolve_command(context, words)
        command.make_context(None, words, parent=context)
