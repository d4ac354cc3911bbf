"""For every test."""

import signal
import threading


def pytest_configure() -> None:
    """SIGTERM is taken for Ctrl-C: fixtures end what they have started, a local cloud with its hosts above all."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
