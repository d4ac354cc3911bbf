"""A hold: until then neither patrol nor the host's own lease ends this host, even if it is idle.

A user types `trainyard hold 2h` in a shell of the host, or calls `hold("2h")` in a notebook (trainyard/hold.py). The
yard's function signal writes the hold into a tag of the host, which the host reads, too. A hold never shortens a longer
hold or the lease. It does not keep the hosts of a run that ends meanwhile; the job's `after.hosts` does that.
"""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.config import Config

from training.host import credentials
from training.host.errors import HostTrouble
from training.host.metadata import Identity, Metadata
from training.host.reporting import outbox
from training.host.reporting.outbox import Sender, entry
from trainyard.protocol.signals import Hold, Sent
from trainyard.protocol.tags import Tag
from trainyard.values.serialization import timestamp

LONGEST = timedelta(hours=24)
FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?")
PATIENCE_SECONDS, LOOK_SECONDS = 60.0, 1.0
CALLS = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 4})


def hold(how_long: str) -> datetime:
    """Hold this host for a time span such as `90m`, `2h`, or `1h30m`. Return the end of the hold.

    Return once the host's tag has the hold. Raises HostTrouble for more than 24 h, for a host that the yard did not
    launch, and if the tag is not written in time."""
    return _request_hold(datetime.now(UTC) + span(how_long))


def release() -> datetime:
    """End the hold and return when it ended. Lease and patrol apply again."""
    return _request_hold(None)


def span(how_long: str) -> timedelta:
    """Return the time span. Raises HostTrouble for any other text, and for more than a hold may last."""
    found = FORM.fullmatch(how_long.strip())
    days, hours, minutes = (int(number or 0) for number in found.groups()) if found else (0, 0, 0)
    asked = timedelta(days=days, hours=hours, minutes=minutes)
    if not asked:
        raise HostTrouble(f"{how_long!r} is not a time span: type 90m, 2h, or 1h30m", final=True)
    if asked > LONGEST:
        raise HostTrouble(
            f"{how_long} is too long: a hold lasts at most 24 h, so that a forgotten host ends; hold the host again "
            "before the hold ends",
            final=True,
        )
    return asked


def held_until(tags: Mapping[str, str]) -> datetime | None:
    """Return the end of the hold in the host's tags; None if the tag is missing or cannot be read. Patrol reports a tag
    that cannot be read."""
    try:
        at = datetime.fromisoformat(tags.get(Tag.HOLD, ""))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _request_hold(until: datetime | None) -> datetime:
    metadata = Metadata()
    identity = metadata.identity()
    events = credentials.host_session(identity.region).client("events", config=CALLS)
    outbox.put(events, entry_of(identity, until, now=datetime.now(UTC)))
    return _await_confirmation(metadata, identity, until)


def entry_of(identity: Identity, until: datetime | None, *, now: datetime) -> dict[str, Any]:
    """Return the signal `hold` as an event. Without `until` it ends the hold."""
    tags, host = identity.tags, identity.instance
    lacking = [name for name in (Tag.RUN, Tag.BUS, Tag.ROLE) if name not in tags]
    if lacking:
        raise HostTrouble(
            f"{host} has no tag {lacking[0]}, so the yard did not launch it; set the hold yourself: aws ec2 "
            f"create-tags --resources {host} --tags Key={Tag.HOLD},Value=2026-11-20T18:00Z",
            final=True,
        )
    attempt = int(tags.get(Tag.ATTEMPT, "1"))
    sent = Sent(run=tags[Tag.RUN], attempt=attempt, instance=host, at=now, signal=Hold(until=until))
    return entry(sent, Sender.of(host, tags))


def _await_confirmation(metadata: Metadata, identity: Identity, until: datetime | None) -> datetime:
    """Wait until the host's own tag confirms the request, and return the end of the hold."""
    asked = datetime.now(UTC)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        held = held_until({Tag.HOLD: metadata.tag(Tag.HOLD) or ""})
        if held and is_answer(held, until, asked):
            return held
        if time.monotonic() >= end:
            raise HostTrouble(
                f"the tag {Tag.HOLD} of {identity.instance} was not written within {PATIENCE_SECONDS:.0f} s, so the "
                "host may not be held; check the log of the yard's function signal, or set the tag yourself: aws ec2 "
                f"create-tags --resources {identity.instance} --tags Key={Tag.HOLD},Value={timestamp(until or asked)}"
            )
        time.sleep(LOOK_SECONDS)


def is_answer(held: datetime, until: datetime | None, asked: datetime) -> bool:
    """Return True if the tag matches the request: at least until `until`, or not beyond now if the hold is to end. The
    clock of another machine may have written it. Signals have milliseconds."""
    if until is None:
        return held <= asked + timedelta(seconds=PATIENCE_SECONDS)
    return held >= until.replace(microsecond=until.microsecond // 1000 * 1000)
