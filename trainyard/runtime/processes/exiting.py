"""Exit at once with a meaningful code, whatever TensorFlow's threads are doing."""

import os
import sys
import traceback
from collections.abc import Callable
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
"""TensorFlow's errors for a process that is gone."""


def leave(code: int, reason: str) -> NoReturn:
    """End the process now. A normal exit waits up to 16 s for peers that may be gone."""
    print(reason, flush=True)
    sys.stderr.flush()
    os._exit(code)


def leave_when_a_peer_is_gone(has_lost_one: Callable[[], bool] = lambda: False) -> None:
    """End this process at once after an uncaught error, with RESTART if a lost peer caused the error.

    `has_lost_one` returns True if a peer does not answer. It decides about TensorFlow's other errors: DTensor reports a
    lost client as InternalError.
    """

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, PEER_ERRORS) or (isinstance(error, tf.errors.OpError) and has_lost_one()):
            leave(
                RESTART,
                f"a peer is gone ({kind.__name__}: {_first_line(error)}); stopping for a restart",
            )
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        leave(FAILED, f"this program ended with {kind.__name__}: {_first_line(error)}")

    sys.excepthook = ended


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")[:300]
