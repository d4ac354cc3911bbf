"""Dev hosts: hosts with a name and an owner in their tags (docs/decisions/0050)."""

from collections.abc import Mapping
from enum import StrEnum

from trainyard.core.model import submitter
from trainyard.protocol.tags import Tag

NAME = r"[a-z][a-z0-9-]{0,35}"
A_NAME = "a name of 1 to 36 lower-case letters, digits and hyphens that begins with a letter"
WORD = "dev"
"""The `detail-type` of the event that requests a dev host."""
UP, IMAGE = "up", "image"
"""The wanted results: the dev host itself, or an image of the dev host."""


def can_own(who: str) -> bool:
    """Return True if a tag can hold the user's IAM name exactly. Otherwise two users could have the same tag."""
    return submitter.tag(who) == who != submitter.UNKNOWN


def family(name: str) -> str:
    """Return the family of a dev host's images. The ids of its runs begin with this family and a hyphen."""
    return f"dev-{name}"


class Keep(StrEnum):
    """The part of a dev host that stays when it is taken down."""

    DISK = "disk"
    IMAGE = "image"
    NOTHING = "nothing"


def is_of(tags: Mapping[str, str], name: str, owner: str) -> bool:
    """Return True if the tags belong to the user's dev host of this name."""
    return tags.get(Tag.DEV) == name and tags.get(Tag.SUBMITTER) == owner


def owner(tags: Mapping[str, str]) -> str | None:
    """Return the owner of the dev host with these tags, or None for another host."""
    return tags.get(Tag.SUBMITTER) if Tag.DEV in tags else None


def dev_host_of(tags: Mapping[str, str], mine: str | None = None) -> str | None:
    """Describe the dev host with these tags, or return None for another host and for a dev host of `mine`."""
    if Tag.DEV not in tags or (mine and tags.get(Tag.SUBMITTER) == mine):
        return None
    return f"{tags.get(Tag.SUBMITTER, 'another user')}'s dev host {tags[Tag.DEV]}"
