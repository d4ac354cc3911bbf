"""A script that replaces nvidia-smi."""

import shlex
from pathlib import Path

EIGHT = "0, 523\n0, 523\n97, 70123\n0, 523\n0, 523\n0, 523\n0, 523\n12, 3001\n"


def nvidia_smi(folder: Path, prints: str, code: int = 0) -> Path:
    """Write nvidia-smi, and return the file that records its calls."""
    path = folder / "nvidia-smi"
    asked = shlex.quote(str(folder / "asked"))
    path.write_text(f"#!/bin/sh\necho \"$*\" >> {asked}\nprintf '%s' {shlex.quote(prints)}\nexit {code}\n")
    path.chmod(0o755)
    return folder / "asked"
