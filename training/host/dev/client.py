"""The command `trainyard` on a dev host: the client, in the hosts' Python, with JupyterLab's packages.

It runs as a file, so that the agent's folder is not on its path.
"""

import os
import site
import sys
from pathlib import Path

JUPYTER = Path("/opt/trainyard/jupyter")
PACKAGES = JUPYTER / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
WITHOUT = """\
Error: this host's image has no JupyterLab, whose packages the client needs
What it means: only `trainyard hold 2h` and `trainyard unhold` work here; use your own computer for other commands
Next: bake an image with JupyterLab (without JUPYTER=none in its base image; for a local cloud, run make jupyter first)
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
