"""Secrets of a program, and the parts of them that others may read."""

import os
import subprocess
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from training.host.errors import AccessDenied, HostTrouble, Missing
from training.host.program import secrets
from training.host.program.secrets import Hider


@pytest.mark.parametrize(
    ("values", "text", "read"),
    [
        ({"A": "tiger-lily-99"}, "key=tiger-lily-99&x tiger-lily-99", "key=***&x ***"),
        ({"A": "tiger-lily-99", "B": "tiger-lily"}, "tiger-lily-99 tiger-lily", "*** ***"),
        ({"A": "first line\n  second line \n"}, "the second line", "the ***"),
        ({"A": "short"}, "cut short", "cut short"),
        ({}, "nothing to hide", "nothing to hide"),
    ],
)
def test_what_is_hidden_in_a_log(values: dict[str, str], text: str, read: str) -> None:
    assert Hider(values)(text) == read


class Store:
    """Parameter Store with one answer."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def get_parameters(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def refused(code: str, said: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": said}}, "GetParameters")


def test_secrets_are_read_by_name_all_at_once() -> None:
    found = {"Name": "/yard/secrets/wandb", "Value": "w"}, {"Name": "/yard/secrets/hub", "Value": "h"}
    store = Store({"Parameters": list(found), "InvalidParameters": []})
    wanted = {"WANDB_API_KEY": "wandb", "HF_TOKEN": "hub", "HUGGING_FACE_HUB_TOKEN": "hub"}
    values = secrets.fetch(wanted, yard="yard", client=lambda: store)
    assert values == {"WANDB_API_KEY": "w", "HF_TOKEN": "h", "HUGGING_FACE_HUB_TOKEN": "h"}
    names = ["/yard/secrets/hub", "/yard/secrets/wandb"]
    assert store.asked == [{"Names": names, "WithDecryption": True}]


def test_a_job_without_secrets_asks_nobody() -> None:
    assert secrets.fetch({}, yard="yard", client=lambda: pytest.fail("asked")) == {}


@pytest.mark.parametrize(
    ("answer", "kind", "said", "final"),
    [
        (
            {"Parameters": [], "InvalidParameters": ["/yard/secrets/a"]},
            Missing,
            "there is no parameter /yard/secrets/a",
            True,
        ),
        (
            refused("AccessDeniedException", "not authorized to perform: ssm:GetParameters"),
            AccessDenied,
            "the role of runs lacks ssm:GetParameters on /yard/secrets/a",
            True,
        ),
        (
            refused("AccessDeniedException", "not authorized to perform: kms:Decrypt on resource: arn:k"),
            HostTrouble,
            "encrypted with a key that the role of runs may not use",
            True,
        ),
        (refused("ThrottlingException", "Rate exceeded"), HostTrouble, "failed: Rate exceeded", False),
        (EndpointConnectionError(endpoint_url="https://ssm"), HostTrouble, "cannot be read", False),
    ],
)
def test_secrets_that_cannot_be_read_say_why(
    answer: dict[str, Any] | Exception, kind: type[HostTrouble], said: str, *, final: bool
) -> None:
    with pytest.raises(kind, match=said) as raised:
        secrets.fetch({"A": "a"}, yard="yard", client=lambda: Store(answer))
    assert raised.value.final is final


def test_a_restarted_agent_finds_them_with_the_program() -> None:
    told = {**os.environ, "WANDB_API_KEY": "a=b\nc", "OTHER": "x"}
    with subprocess.Popen(["sleep", "60"], env=told) as program:
        # the kernel shows a program's variables a moment after the start
        while not (held := secrets.secrets_of(program.pid, {"WANDB_API_KEY": "wandb"})):
            assert program.poll() is None
        program.kill()
    assert held == {"WANDB_API_KEY": "a=b\nc"}
    assert secrets.secrets_of(program.pid, {"WANDB_API_KEY": "wandb"}) == {}
