"""Leaving: with a code that means something, at once, whatever TensorFlow's threads are doing."""

import os
import sys
from typing import NoReturn

FINISHED = 0
RESTART = 75
"""EX_TEMPFAIL: start me again; I have checkpointed, or a peer is gone."""


def leave(code: int, reason: str) -> NoReturn:
    """End the process now. A normal exit waits for peers that may be gone: up to 16 seconds were seen."""
    print(reason, flush=True)
    sys.stderr.flush()
    os._exit(code)
