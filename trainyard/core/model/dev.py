"""Dev hosts: hosts of the workflow launch that have a name and an owner, by their tags (docs/decisions/0050)."""

from collections.abc import Mapping
from enum import StrEnum

from trainyard.core.model import submitter
from trainyard.protocol.tags import Tag

NAME = r"[a-z][a-z0-9-]{0,35}"
A_NAME = "a name of 1 to 36 lower-case letters, digits and hyphens that begins with a letter"
WORD = "dev"
"""Of the event by which somebody asks for one."""
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
    return tags.get(Tag.DEV) == name and tags.get(Tag.SUBMITTER) == owner


def owner(tags: Mapping[str, str]) -> str | None:
    """Whose dev host the tags are of; None where they are of none."""
    return tags.get(Tag.SUBMITTER) if Tag.DEV in tags else None


def somebodys(tags: Mapping[str, str], mine: str | None = None) -> str | None:
    """Whose dev host the tags are of, in words; None where it is nobody's, or `mine`."""
    if Tag.DEV not in tags or (mine and tags.get(Tag.SUBMITTER) == mine):
        return None
    return f"{tags.get(Tag.SUBMITTER, 'somebody')}'s dev host {tags[Tag.DEV]}"
