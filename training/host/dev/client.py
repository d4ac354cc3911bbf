"""The command `trainyard` on a dev host: the client, by the hosts' Python, with JupyterLab's packages beside.

Run as a file: nothing of the agent is on its path.
"""

import os
import site
import sys
from pathlib import Path

JUPYTER = Path("/opt/trainyard/jupyter")
PACKAGES = JUPYTER / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
WITHOUT = """\
Error: this host's image has no JupyterLab, and what the client needs comes with it
What it means: `trainyard hold 2h`, `trainyard release` are all that is said here; for the rest use your own computer
Next: an image with JupyterLab: no JUPYTER=none in its base image; for a local cloud type make jupyter before its bake
"""


def main() -> int:
    if not PACKAGES.exists():
        sys.stderr.write(WITHOUT)
        return os.EX_UNAVAILABLE
    site.addsitedir(str(PACKAGES))
    from trainyard.cli.__main__ import main as client

    client()
    return 0


if __name__ == "__main__":
    sys.exit(main())
