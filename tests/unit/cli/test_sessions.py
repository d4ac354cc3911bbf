"""Ports on the command line."""

import pytest
import typer

from trainyard.cli.commands.forward import ports_of


@pytest.mark.parametrize(
    ("text", "ports"),
    [("6006", (6006, 6006)), ("6006:16006", (6006, 16006)), ("6006:0", (6006, 0)), ("65535", (65535, 65535))],
)
def test_ports(text: str, ports: tuple[int, int]) -> None:
    assert ports_of(text) == ports


@pytest.mark.parametrize(
    "text", ["", "0", "0:6006", "65536", "6006:65536", "6006:", ":6006", "http", "6006:6007:6008", "-1"]
)
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a port"):
        ports_of(text)
