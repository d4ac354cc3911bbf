"""A hold: until when this host is left alone, by patrol and by its own dead man's switch, whatever it does.

A person says `trainyard hold 2h` in a shell of the host, or `hold("2h")` in a notebook (trainyard/hold.py). The yard's
function signal writes the hold into the host's tag, where everybody reads it, this host too. A hold makes nothing
shorter: neither one that lasts longer nor the lease. It does not keep the hosts of a run that ends meanwhile: that is
the job's `after.hosts`.
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
    """Hold this host for so long from now on, `90m`, `2h`, `1h30m`; the instant until which it is held then.

    Returns once the host's tag says so. Raises HostTrouble: more than 24 hours at a time, no host of a run or launch,
    or nobody who writes the tag."""
    asked = datetime.now(UTC) + span(how_long)
    return _ask(asked)


def release() -> datetime:
    """End the hold; the instant at which it ended. The host's lease, and patrol, are as they were without it."""
    return _ask(None)


def span(how_long: str) -> timedelta:
    """Raises HostTrouble for what is no time, and for more than a hold may last."""
    found = FORM.fullmatch(how_long.strip())
    days, hours, minutes = (int(number or 0) for number in found.groups()) if found else (0, 0, 0)
    asked = timedelta(days=days, hours=hours, minutes=minutes)
    if not asked:
        raise HostTrouble(f"{how_long!r} says no time to hold a host for: say 90m, 2h or 1h30m", final=True)
    if asked > LONGEST:
        raise HostTrouble(
            f"{how_long} is too long: a host is held for at most 24 h at a time, so that one that is forgotten ends; "
            "hold it again before they are over",
            final=True,
        )
    return asked


def held_until(tags: Mapping[str, str]) -> datetime | None:
    """Until when the tag says that somebody holds this host; None without a tag, or with one that cannot be read:
    patrol tells of that."""
    try:
        at = datetime.fromisoformat(tags.get(Tag.HOLD, ""))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _ask(until: datetime | None) -> datetime:
    metadata = Metadata()
    identity = metadata.identity()
    events = credentials.of_the_host(identity.region).client("events", config=CALLS)
    outbox.put(events, entry_of(identity, until, now=datetime.now(UTC)))
    return _confirmed(metadata, identity, until)


def entry_of(identity: Identity, until: datetime | None, *, now: datetime) -> dict[str, Any]:
    """The signal `hold` as an event; without `until` it ends the hold."""
    tags, host = identity.tags, identity.instance
    lacking = [name for name in (Tag.RUN, Tag.BUS, Tag.ROLE) if name not in tags]
    if lacking:
        raise HostTrouble(
            f"{host} has no tag {lacking[0]}, so no run or launch of the yard made it; hold it from outside: aws ec2 "
            f"create-tags --resources {host} --tags Key={Tag.HOLD},Value=2026-11-20T18:00Z",
            final=True,
        )
    attempt = int(tags.get(Tag.ATTEMPT, "1"))
    sent = Sent(run=tags[Tag.RUN], attempt=attempt, instance=host, at=now, signal=Hold(until=until))
    return entry(sent, Sender.of(host, tags))


def _confirmed(metadata: Metadata, identity: Identity, until: datetime | None) -> datetime:
    """Whoever asks must know whether the host is held: the answer is the host's own tag."""
    asked = datetime.now(UTC)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        held = held_until({Tag.HOLD: metadata.tag(Tag.HOLD) or ""})
        if held and is_answer(held, until, asked):
            return held
        if time.monotonic() >= end:
            raise HostTrouble(
                f"nobody has written the tag {Tag.HOLD} of {identity.instance} within {PATIENCE_SECONDS:.0f} s, so the "
                "host may not be held; look at the log of the yard's function signal, or do it from outside: aws ec2 "
                f"create-tags --resources {identity.instance} --tags Key={Tag.HOLD},Value={timestamp(until or asked)}"
            )
        time.sleep(LOOK_SECONDS)


def is_answer(held: datetime, until: datetime | None, asked: datetime) -> bool:
    """Whether the tag says what was asked for: at least so long, or no longer than now (another clock may write it).
    Signals have milliseconds."""
    if until is None:
        return held <= asked + timedelta(seconds=PATIENCE_SECONDS)
    return held >= until.replace(microsecond=until.microsecond // 1000 * 1000)
