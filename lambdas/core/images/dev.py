"""Names of dev hosts: who owns one, who is refused one, and what a host may do in its owner's name."""

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from trainyard.core.model import dev
from trainyard.core.model.images.image import Image
from trainyard.protocol import keys, sources
from trainyard.protocol.ledger.yard import DevRow
from trainyard.values.lazy import dataclass

PATIENCE = timedelta(minutes=2)
"""How long a new execution may be missing in the ledger."""
MOST_OF_ID = 80
MOST_CHARACTERS = 4_096
"""The longest request."""
DEFAULT_TYPES = ("g4dn.xlarge", "g6.xlarge", "g5.xlarge")
"""Types with one small GPU."""
WRITES = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
"""Writing calls of S3 that the role behind dev hosts may make in every user's folders."""


@dataclass(frozen=True, kw_only=True)
class NameUse:
    """The current use of a name."""

    row: DevRow | None
    goes_on: bool | None
    """True while the launch of the row runs; None before the ledger has it."""
    hosts: tuple[str, ...]
    """Hosts of this name, as `i-... (stopped)`."""
    owners: frozenset[str] = frozenset()
    """Owners of images of this name, by the images' tags. Images outlive a yard and its ledger."""

    def others(self, by: str) -> frozenset[str]:
        """Return the owners of images of this name except this one."""
        return self.owners - {by}

    def is_in_use(self, by: str) -> bool:
        """Return True if a host, a launch, or another owner's image of this name is left."""
        return bool(self.hosts or self.others(by) or self.goes_on)


@dataclass(frozen=True)
class Take:
    """The name belongs to the caller from now on."""

    kind: ClassVar[str] = "take"


@dataclass(frozen=True)
class Refuse:
    kind: ClassVar[str] = "refuse"
    reason: str


def take(name: str, run: str, by: str, use: NameUse, now: datetime) -> Take | Refuse:
    """Decide whether the name belongs to this user from now on, for a host that this run launches. A repeated
    request gets the same answer."""
    row = use.row
    if not dev.can_own(by):
        return Refuse(
            f"{by} cannot own a dev host: EC2's tags cannot hold that name, and policies could confuse you with "
            "another user; letters, digits and + = . @ - _ are allowed"
        )
    if row and row.run == run:
        return Take() if row.owner == by else Refuse(_of(name, row.owner))
    if row and row.owner != by and (use.is_in_use(by) or _is_young(row, use, now)):
        return Refuse(_of(name, row.owner))
    if row is None and (others := use.others(by)):
        return Refuse(_of(name, min(others)))
    if use.hosts:
        return Refuse(f"the dev host {name} already exists: {', '.join(use.hosts)}")
    if row and (use.goes_on or _is_young(row, use, now)):
        return Refuse(f"the dev host {name} is already being launched, by {row.run}")
    return Take()


def _is_young(row: DevRow, use: NameUse, now: datetime) -> bool:
    """Return True if the launch may not have begun yet."""
    return use.goes_on is None and now - row.at < PATIENCE


def _of(name: str, owner: str) -> str:
    return f"the name {name} is taken: the dev host belongs to {owner}; choose another name"


def as_text(given: Mapping[str, Any]) -> str | None:
    """Return the request as text for the row; None if it is too long."""
    text = json.dumps(given, sort_keys=True)
    return text if len(text) <= MOST_CHARACTERS else None


def policy_of_owner(bucket: str, owner: str, partition: str = "aws") -> str:
    """Return the session policy that limits a dev host to its owner's name. The role behind it may write files and
    events for any user."""
    in_own_name = sources.only_from(f"{sources.PEOPLE}{owner}")
    statements = [
        {"Effect": "Allow", "NotAction": [*WRITES, "events:PutEvents"], "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": WRITES,
            "Resource": [
                f"arn:{partition}:s3:::{bucket}/{keys.owned(folder, owner)}*" for folder in keys.SENT
            ],
        },
        {"Effect": "Allow", "Action": "events:PutEvents", "Resource": "*", "Condition": in_own_name},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def is_named(name: str, run: str) -> bool:
    """Return True if this is a name of a dev host and the id of one of its runs."""
    return bool(
        re.fullmatch(dev.NAME, name)
        and re.fullmatch(rf"{re.escape(dev.family(name))}-[A-Za-z0-9_-]+", run)
        and len(run) <= MOST_OF_ID
    )


def own_image(name: str, owner: str, images: Collection[Image]) -> Image | None:
    """Return the newest image of this dev host, in any state."""
    mine = [image for image in images if dev.is_of(image.tags, name, owner)]
    return max(mine, key=lambda image: (image.created, image.id), default=None)
