"""A disk comes from another host: an image may have been made of one that was not generalized, and ran on.

What says who that host was is dropped; whatever else is on the disk stays. cloud-init makes new SSH host keys and the
Systems Manager agent registers anew by themselves, both because the instance is another.
"""

import json
import logging
import shutil
import uuid

from training.host.metadata import Identity
from training.host.orders import write_whole
from training.host.places import Places

logger = logging.getLogger(__name__)


def take_over(places: Places, identity: Identity) -> None:
    """Make the disk this instance's. Called at every start of the agent, before anything else."""
    before = _noted(places)
    if before.get("instance") == identity.instance:
        return
    if before:
        logger.info("this disk comes from %s: dropping its orders, state and machine id", before["instance"])
        shutil.rmtree(places.orders, ignore_errors=True)
        places.state.unlink(missing_ok=True)
        if before.get("machine") == machine_id(places) != "":
            places.machine_id.write_text(f"{uuid.uuid4().hex}\n")
    _drop_mark_of_another(places, identity)
    noted = {"instance": identity.instance, "machine": machine_id(places)}
    write_whole(places.owner, json.dumps(noted))


def owner(places: Places) -> str:
    """The instance that this disk belongs to; empty while no agent has taken it over."""
    return _noted(places).get("instance", "")


def machine_id(places: Places) -> str:
    try:
        return places.machine_id.read_text().strip()
    except FileNotFoundError:
        return ""


def _noted(places: Places) -> dict[str, str]:
    try:
        noted: dict[str, str] = json.loads(places.owner.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return noted


def _drop_mark_of_another(places: Places, identity: Identity) -> None:
    try:
        if places.generalized.read_text() != identity.instance:
            places.generalized.unlink()
    except FileNotFoundError:
        pass
