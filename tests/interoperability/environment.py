"""Virtual environments for packages that are not part of the project."""

import subprocess
import sys
from pathlib import Path


def installed(folder: Path, *packages: str) -> Path:
    """Create an environment with these packages in a folder, unless it exists, and return its `bin`."""
    place = folder / "venv"
    programs = place / "bin"
    if not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(programs / "pip"), "install", "-q", *packages], check=True)
        (place / "complete").touch()
    return programs
