"""Leaving: with a code that means something, at once, whatever TensorFlow's threads are doing."""

import os
import sys
import traceback
from types import TracebackType
from typing import NoReturn

import tensorflow as tf

from trainyard.protocol.processes import RESTART

FINISHED = 0
FAILED = 1

PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
"""How TensorFlow says that another process is gone."""


def leave(code: int, reason: str) -> NoReturn:
    """End the process now. A normal exit waits for peers that may be gone: up to 16 seconds were seen."""
    print(reason, flush=True)
    sys.stderr.flush()
    os._exit(code)


def leave_when_a_peer_is_gone() -> None:
    """From now on an error that nobody caught ends this process at once, one that a lost peer caused with RESTART."""

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, PEER_ERRORS):
            leave(
                RESTART,
                f"a peer is gone ({kind.__name__}: {_first_line(error)}); leaving to be started again",
            )
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        leave(FAILED, f"this program ended with {kind.__name__}: {_first_line(error)}")

    sys.excepthook = ended


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")[:300]
