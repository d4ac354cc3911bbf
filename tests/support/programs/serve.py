"""The counting program in a cluster of roles: the chief counts, the others serve until SIGTERM."""

import os
import runpy
import signal
import sys

RESTART_ME = 75


def serve() -> int:
    """Wait for SIGTERM and return the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print(f"serving as {os.environ['TRAINYARD_ROLE']} {os.environ['TRAINYARD_INDEX']}", flush=True)
    signal.sigwait({signal.SIGTERM})
    return RESTART_ME


if __name__ == "__main__":
    if os.environ["TRAINYARD_ROLE"] == "chief":
        runpy.run_module("steps", run_name="__main__")
    sys.exit(serve())
