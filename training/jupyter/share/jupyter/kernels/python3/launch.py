"""Start a kernel in the Python that runs this. Its own packages come first, then JupyterLab's, which include
ipykernel."""

import site
import sys
from pathlib import Path

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"

sys.path[:] = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
site.addsitedir(str(Path(__file__).resolve().parents[4] / "lib" / VERSION / "site-packages"))

from ipykernel.kernelapp import launch_new_instance  # noqa: E402 - it is only found after the lines above

launch_new_instance()
