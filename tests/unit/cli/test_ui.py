"""The command that serves the page."""

import pytest

from trainyard.cli.commands.ui import has_window


@pytest.mark.parametrize(
    ("environment", "platform", "opens"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "/usr/local/bin/code-open"}, "linux", True),
        ({"DISPLAY": ""}, "linux", False),
        ({}, "darwin", True),
    ],
)
def test_a_browser_is_opened_where_it_has_a_window(
    environment: dict[str, str], platform: str, opens: bool
) -> None:
    assert has_window(environment, platform) == opens
