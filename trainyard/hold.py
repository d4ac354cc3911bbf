"""Hold the host that this runs on, a notebook's for one, as `trainyard hold 2h` does in its shell.

from trainyard.hold import hold
hold("2h")
"""

import subprocess
from datetime import datetime

COMMAND = "/usr/local/bin/trainyard"


def hold(how_long: str) -> datetime:
    """Nobody ends this host for so long from now on, `90m`, `2h`, `1h30m`; the instant until which it is held then.

    Returns once the host's tag says so. Raises RuntimeError: more than 24 hours at a time, no host of a run or launch,
    or nobody who writes the tag."""
    return _instant("hold", how_long)


def release() -> datetime:
    """End the hold; the instant at which it ended. The host's lease, and patrol, are as they were without it."""
    return _instant("release")


def _instant(*arguments: str) -> datetime:
    """The last word of what the command says."""
    try:
        done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise RuntimeError(f"there is no {COMMAND} here: this is no host of a yard") from error
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return datetime.fromisoformat(done.stdout.split()[-1])
