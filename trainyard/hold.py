"""Hold the host that runs this code, for example from a notebook, as `trainyard hold 2h` does in the host's shell.

from trainyard.hold import hold

hold("2h")
"""

import subprocess
from datetime import datetime

COMMAND = "/usr/local/bin/trainyard"


def hold(how_long: str) -> datetime:
    """Hold this host for a duration such as `90m`, `2h` or `1h30m`, and return the end of the hold.

    Return once the host has its tag. Raise RuntimeError for more than 24 h, on a host without a run, or if the tag
    cannot be written.
    """
    return _instant("hold", how_long)


def unhold() -> datetime:
    """End the hold and return the time of its end. The lease of the host and patrol apply again."""
    return _instant("unhold")


def _instant(*arguments: str) -> datetime:
    """Run the command and return the time that ends its output."""
    try:
        done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise RuntimeError(f"{COMMAND} is missing: this machine is not a host of a yard") from error
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return datetime.fromisoformat(done.stdout.split()[-1])
