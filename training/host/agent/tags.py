"""A host's tags: its run and its lease."""

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from training.host import orders
from training.host.agent.deadlines import lease
from training.host.agent.deadlines.lease import Lease
from training.host.metadata import Identity
from training.host.paths import Paths
from training.host.reporting.outbox import Sender
from trainyard.protocol.tags import Tag
from trainyard.protocol.times import RESTARTED_LEASE

UNTAGGED_LEASE = timedelta(hours=6)


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunTags:
    """The run that a host's tags name, and where its signals go."""

    run: str
    bucket: str
    sender: Sender
    attempt: int
    lease: Lease


def run_tags(identity: Identity, *, now: datetime) -> RunTags | None:
    """Return the tags of a training run's host; None for a builder, a dev host, and a host launched by hand."""
    tags = identity.tags
    needed = {Tag.YARD, Tag.RUN, Tag.ATTEMPT, Tag.BUCKET, Tag.BUS, Tag.ROLE}
    if Tag.KIND in tags or needed - tags.keys():
        return None
    return RunTags(
        run=tags[Tag.RUN],
        bucket=tags[Tag.BUCKET],
        sender=Sender.of(identity.instance, tags),
        attempt=int(tags[Tag.ATTEMPT]),
        lease=lease_of(identity, now=now),
    )


def lease_of(identity: Identity, *, now: datetime) -> Lease:
    tag = identity.tags.get(Tag.LEASE)
    if tag:
        return lease.lease_at_launch(tag)
    return Lease(now + UNTAGGED_LEASE, f"the host has no tag {Tag.LEASE}")


def renew_lease(paths: Paths, identity: Identity, *, now: datetime) -> Identity:
    """Give a host that was started after the end of its lease a new one, once per boot. Patrol stops the host when it
    is idle. For another lease, a user sets the tag Tag.LEASE before the start."""
    tag = identity.tags.get(Tag.LEASE)
    if tag is None or not lease.lease_at_launch(tag).is_over(now):
        return identity
    if not paths.started_again.exists():
        orders.write_whole(paths.started_again, (now + RESTARTED_LEASE).isoformat())
        logger.info("started after its lease had ended (%s): stays for at most %s", tag, RESTARTED_LEASE)
    return replace(identity, tags={**identity.tags, Tag.LEASE: paths.started_again.read_text()})
