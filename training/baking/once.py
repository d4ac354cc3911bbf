"""A document that Systems Manager delivers twice does its work once, and says the same both times."""

import json
from collections.abc import Callable
from pathlib import Path

from training.host.errors import ProgramFault
from training.host.orders import write_whole


def once(path: Path, run: str, does: Callable[[], None]) -> None:
    """Do it, unless `path` says how it ended for this run. Raises what it raises; of an earlier call ProgramFault."""
    try:
        earlier = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        earlier = {}
    if earlier.get("run") != run:
        try:
            does()
        except ProgramFault as fault:
            write_whole(path, json.dumps({"run": run, "fault": fault.reason}))
            raise
        write_whole(path, json.dumps({"run": run, "fault": None}))
    elif earlier["fault"]:
        raise ProgramFault(earlier["fault"])
