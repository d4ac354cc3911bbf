"""Environments of their own for what is no part of the project."""

import subprocess
import sys
from pathlib import Path


def installed(folder: Path, *packages: str) -> Path:
    """The `bin` of an environment in that folder with these packages; what is there is left."""
    place = folder / "venv"
    programs = place / "bin"
    if not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(programs / "pip"), "install", "-q", *packages], check=True)
        (place / "complete").touch()
    return programs
