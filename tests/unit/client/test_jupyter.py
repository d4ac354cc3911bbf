"""Errors for a dev host whose JupyterLab does not serve."""

import pytest

from trainyard.client.dev.jupyter import Jupyter, not_there

NAME = "mine"
LOG = "[I] starts\nTraceback\n\nOSError: [Errno 98] Address already in use\n"


@pytest.mark.parametrize(
    ("way", "what", "means", "step"),
    [
        ("absent", "has no JupyterLab", "JUPYTER=none", "trainyard image bake"),
        ("idle", "does not run on", "a user has stopped it", "systemctl start trainyard-jupyter"),
        ("failed", "ends each time it is started", "Address already in use", "fix the reason in the log"),
        (
            "starts",
            "does not answer after 60 s",
            "Address already in use",
            "cat /var/log/trainyard/jupyter.log",
        ),
    ],
)
def test_it_says_what_is_wrong_and_what_to_type(way: str, what: str, means: str, step: str) -> None:
    error = not_there(NAME, way, LOG)
    assert NAME in error.what
    assert what in error.what
    assert means in error.means
    assert step in error.next_step


def test_its_address_here_has_the_token() -> None:
    assert Jupyter(8888, "t0k").address(4711) == "http://127.0.0.1:4711/lab?token=t0k"
