"""Dev hosts: hosts of the workflow launch that have a name and an owner, by their tags (docs/decisions/0050)."""

from collections.abc import Mapping
from enum import StrEnum

from trainyard.core.model import submitter

TAG = "trainyard:dev"
"""Its value is the host's name. Functions alone write it, on instances and on their images."""
OWNER_TAG = "trainyard:submitter"
"""Its value is what IAM knows the owner by, by which policies let that person in."""
NAME = r"[a-z][a-z0-9-]{0,35}"
A_NAME = "a name of 1 to 36 lower-case letters, digits and hyphens that begins with a letter"
WORD = "dev"
"""Of the event by which somebody asks for one."""
CREDENTIALS = "dev-credentials"
"""Of the signal by which a dev host asks for those of its owner."""
UP, IMAGE = "up", "image"
"""What is wanted by it: a host of that name, or that it becomes an image."""


def can_own(who: str) -> bool:
    """Whether a tag can hold exactly what IAM knows somebody by: else it would be another's name, too."""
    return submitter.tag(who) == who != submitter.UNKNOWN


def family(name: str) -> str:
    """Of the images that are made of a dev host; the ids of runs that are about it begin with it, and a hyphen."""
    return f"dev-{name}"


class Keep(StrEnum):
    """What stays of a dev host that is taken down."""

    DISK = "disk"
    IMAGE = "image"
    NOTHING = "nothing"


def is_of(tags: Mapping[str, str], name: str, owner: str) -> bool:
    """Whether the tags are of that person's dev host of that name."""
    return tags.get(TAG) == name and tags.get(OWNER_TAG) == owner


def owner(tags: Mapping[str, str]) -> str | None:
    """Whose dev host the tags are of; None where they are of none."""
    return tags.get(OWNER_TAG) if TAG in tags else None


def somebodys(tags: Mapping[str, str], mine: str | None = None) -> str | None:
    """Whose dev host the tags are of, in words; None where it is nobody's, or `mine`."""
    if TAG not in tags or (mine and tags.get(OWNER_TAG) == mine):
        return None
    return f"{tags.get(OWNER_TAG, 'somebody')}'s dev host {tags[TAG]}"
