"""For every test."""

import functools
import gc
import os
import signal
import threading

import botocore.session
import pytest


def pytest_configure() -> None:
    """SIGTERM is taken for Ctrl-C: fixtures end what they have started, a local cloud with its hosts above all. What
    AWS's services take is read once: each session would parse it anew, EC2's for a fifth of a second. Programs that a
    test starts have the packages of this environment, and none that the user's shell names."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]
    os.environ["PYTHONNOUSERSITE"] = "1"


def pytest_collection_finish() -> None:
    """What was imported to collect the tests is there to the end: the collector of garbage, a fifth of the time of the
    unit tests, looks at it no more, and seldom at the rest."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Of a session that is interrupted the fixtures end now. pytest would give its folder free before that: to others
    that end just then, and that would remove it with all by which a local cloud is found and ended."""
    session._setupstate.teardown_exact(None)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """No bytes in the name of a test: what was packed at another second has others, and two processes would not agree
    on what there is to run."""
    return argname if isinstance(val, bytes) else None
