"""A kernel of whichever Python runs this: its packages first, and after them those of JupyterLab's environment, where
ipykernel is."""

import site
import sys
from pathlib import Path

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"

sys.path[:] = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
site.addsitedir(str(Path(__file__).resolve().parents[4] / "lib" / VERSION / "site-packages"))

from ipykernel.kernelapp import launch_new_instance  # noqa: E402 - only now can it be found

launch_new_instance()
