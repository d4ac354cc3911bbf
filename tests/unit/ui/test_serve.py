"""Ports of the page's server."""

import socket

import pytest

from trainyard.client.errors import NotHere
from trainyard.ui.serve import LOOPBACK, listen


def test_it_listens_on_this_computer_alone() -> None:
    with listen(0) as listening:
        assert listening.getsockname()[0] == LOOPBACK


def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(NotHere, match=f"port {port}"):
            listen(port)
