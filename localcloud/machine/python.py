"""The Python that runs the functions of the local cloud, whatever runtime they name."""

import platform
import sys


def functions_platform() -> str:
    """Return the platform of compiled packages that functions can import, as in `cp311-x86_64`."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}-{platform.machine()}"
