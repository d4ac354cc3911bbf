"""Detect a disk that comes from another host: an image may have been made of a running host that was not generalized.

Files with the identity of that host are removed; all other files stay. cloud-init creates new SSH host keys and the
Systems Manager agent registers again by themselves, because the instance id differs.
"""

import json
import logging
import shutil
import uuid

from training.host.metadata import Identity
from training.host.orders import write_whole
from training.host.paths import Paths

logger = logging.getLogger(__name__)


def take_over(paths: Paths, identity: Identity) -> None:
    """Make this instance the owner of the disk. The agent calls this first at every start."""
    before = _read_note(paths)
    if before.get("instance") == identity.instance:
        return
    if before:
        logger.info("this disk comes from %s: dropping its orders, state and machine id", before["instance"])
        shutil.rmtree(paths.orders, ignore_errors=True)
        paths.state.unlink(missing_ok=True)
        if before.get("machine") == machine_id(paths) != "":
            paths.machine_id.write_text(f"{uuid.uuid4().hex}\n")
    _drop_mark_of_another(paths, identity)
    noted = {"instance": identity.instance, "machine": machine_id(paths)}
    write_whole(paths.owner, json.dumps(noted))


def owner(paths: Paths) -> str:
    """Return the instance that owns this disk; empty before an agent has taken it over."""
    return _read_note(paths).get("instance", "")


def machine_id(paths: Paths) -> str:
    try:
        return paths.machine_id.read_text().strip()
    except FileNotFoundError:
        return ""


def _read_note(paths: Paths) -> dict[str, str]:
    try:
        noted: dict[str, str] = json.loads(paths.owner.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return noted


def _drop_mark_of_another(paths: Paths, identity: Identity) -> None:
    try:
        if paths.generalized.read_text() != identity.instance:
            paths.generalized.unlink()
    except FileNotFoundError:
        pass
