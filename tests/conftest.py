"""Hooks for all tests."""

import functools
import gc
import os
import signal
import threading

import botocore.session
import pytest


def pytest_configure() -> None:
    """Prepare the process.

    SIGTERM acts like Ctrl-C, so that fixtures end their local clouds and hosts. The models of AWS's services are parsed
    once instead of once a session; EC2's takes 0.2 s. Programs that a test starts see the packages of this environment
    and none that the user's shell names.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]
    os.environ["PYTHONNOUSERSITE"] = "1"


def pytest_collection_finish() -> None:
    """Exclude imported modules from garbage collection and run it rarely: it takes a fifth of the unit tests' time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the fixtures of an interrupted session before pytest releases its folder.

    Otherwise another session that ends at this moment may delete the folder. The folder has the files that find and
    end a local cloud.
    """
    session._setupstate.teardown_exact(None)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Keep bytes out of test names: an archive packed a second later differs, and two processes would collect
    different tests."""
    return argname if isinstance(val, bytes) else None
