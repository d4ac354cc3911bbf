"""Stories that have a cloud of their own, and no use for the session's yard."""

import pytest


@pytest.fixture(autouse=True)
def nothing_lives_on() -> None:
    """Its hosts go with its cloud."""
