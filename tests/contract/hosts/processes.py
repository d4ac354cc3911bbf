"""A host's processes, seen from outside."""

from pathlib import Path

from tests.contract.conftest import Cloud


def processes_of(cloud: Cloud, instance_id: str) -> list[int]:
    """Return this machine's processes that have the host's disk as their root."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            mounts = (folder / "mountinfo").read_text() if folder.name.isdigit() else ""
        except OSError:
            continue
        if f"{instance_id}/upper" in mounts.partition("\n")[0]:
            found.append(int(folder.name))
    return found
