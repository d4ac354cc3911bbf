"""For every test."""

import signal
import threading


def pytest_configure() -> None:
    """SIGTERM is taken for Ctrl-C: fixtures end what they have started, a local cloud with its hosts above all."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """No bytes in the name of a test: what was packed at another second has others, and two processes would not agree
    on what there is to run."""
    return argname if isinstance(val, bytes) else None
