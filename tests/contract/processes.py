from __future__ import annotations

import os
from pathlib import Path


def processes_of(state: Path) -> list[int]:
    """Return every process with the state folder in its command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(state).encode() in command:
            found.append(int(entry.name))
    return found


def server_of(state: Path) -> int:
    named = {pid: (Path("/proc") / str(pid) / "cmdline").read_bytes() for pid in processes_of(state)}
    return next(pid for pid, command in named.items() if b"localcloud.server.main" in command)
