"""Dev hosts: who has which name, who is refused one, and what one may do in its owner's name."""

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from trainyard.core.model import dev, submitter
from trainyard.core.model.images.image import Image
from trainyard.protocol import keys, sources
from trainyard.protocol.ledger.yard import DevRow
from trainyard.values.lazy import dataclass

PATIENCE = timedelta(minutes=2)
"""Until an execution that was asked for is in the ledger."""
MOST_OF_ID = 80
MOST_CHARACTERS = 4_096
"""Of what somebody asks for."""
DEFAULT_TYPES = ("g4dn.xlarge", "g6.xlarge", "g5.xlarge")
"""One small GPU."""


@dataclass(frozen=True, kw_only=True)
class NameUse:
    """What there is of a name: its row, whether the launch of that row goes on (None: the ledger does not know it yet,
    or never will), the hosts, as `i-... (stopped)`, and whose images there are, by their tags: these outlive a yard and
    its ledger."""

    row: DevRow | None
    goes_on: bool | None
    hosts: tuple[str, ...]
    owners: frozenset[str] = frozenset()

    def others(self, by: str) -> frozenset[str]:
        """Return the owners of its images besides this one."""
        return self.owners - {by}

    def is_left(self, by: str) -> bool:
        """Return True if anything is left of it that costs money and is not this owner's image."""
        return bool(self.hosts or self.others(by) or self.goes_on)


@dataclass(frozen=True)
class Take:
    """The name is given to whoever asks."""

    kind: ClassVar[str] = "take"


@dataclass(frozen=True)
class Refuse:
    kind: ClassVar[str] = "refuse"
    reason: str


def take(name: str, run: str, by: str, use: NameUse, now: datetime) -> Take | Refuse:
    """Whether the name is that person's from now on, for a host that this run launches. Asked again, the same."""
    row = use.row
    if not dev.can_own(by):
        return Refuse(
            f"{by} can own no dev host: EC2's tags cannot hold that name, and policies would take somebody else for "
            "you; letters, digits and + = . @ - _ are allowed"
        )
    if row and row.run == run:
        return Take() if row.owner == by else Refuse(_of(name, row.owner))
    if row and row.owner != by and (use.is_left(by) or _is_young(row, use, now)):
        return Refuse(_of(name, row.owner))
    if row is None and (others := use.others(by)):
        return Refuse(_of(name, min(others)))
    if use.hosts:
        return Refuse(f"the dev host {name} is there already: {', '.join(use.hosts)}")
    if row and (use.goes_on or _is_young(row, use, now)):
        return Refuse(f"the dev host {name} is being launched already, by {row.run}")
    return Take()


def _is_young(row: DevRow, use: NameUse, now: datetime) -> bool:
    """Its launch may not have begun yet."""
    return use.goes_on is None and now - row.at < PATIENCE


def _of(name: str, owner: str) -> str:
    return f"the name {name} is taken: that dev host is {owner}'s; take another name"


def asked(given: Mapping[str, Any]) -> str | None:
    """What a row keeps of it; None where that is more than anybody asks for."""
    text = json.dumps(given, sort_keys=True)
    return text if len(text) <= MOST_CHARACTERS else None


def policy_of_owner(bucket: str, owner: str, partition: str = "aws") -> str:
    """What narrows the credentials of a dev host to its owner's name: the role behind them says what any dev host may,
    and may put job files and events in anybody's."""
    places = (f"{submitter.FOLDER}{owner}/", keys.PROGRAMS, keys.DATA)
    in_own_name = sources.only_from(f"{sources.PEOPLE}{owner}")
    statements = [
        {"Effect": "Allow", "NotAction": ["s3:PutObject", "events:PutEvents"], "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": "s3:PutObject",
            "Resource": [f"arn:{partition}:s3:::{bucket}/{place}*" for place in places],
        },
        {"Effect": "Allow", "Action": "events:PutEvents", "Resource": "*", "Condition": in_own_name},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def is_named(name: str, run: str) -> bool:
    """Whether these are a name of a dev host and the id of a run about it."""
    return bool(
        re.fullmatch(dev.NAME, name)
        and re.fullmatch(rf"{re.escape(dev.family(name))}-[A-Za-z0-9_-]+", run)
        and len(run) <= MOST_OF_ID
    )


def own_image(name: str, owner: str, images: Collection[Image]) -> Image | None:
    """The newest image of this dev host, in whatever state."""
    mine = [image for image in images if dev.is_of(image.tags, name, owner)]
    return max(mine, key=lambda image: (image.created, image.id), default=None)
