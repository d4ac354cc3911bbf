"""The hosts of a yard, as EC2 and patrol describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from boto3.dynamodb.conditions import Key

from trainyard.client import people
from trainyard.client.errors import Denied, HostNotFound
from trainyard.command_line import command_line
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.yard import VerdictRows
from trainyard.protocol.requests import EndWarmHosts
from trainyard.protocol.tags import Tag
from trainyard.protocol.verdicts import Word
from trainyard.values import serialization

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

GONE = ("terminated", "shutting-down")
MOST_DAYS = 8
"""The days of patrol's verdicts that are searched for reasons. A stopped host becomes an image after a week."""


@dataclass(frozen=True)
class Judged:
    """Patrol's reason for a verdict, which is valid until `until` or, without it, as long as the verdict."""

    reason: str
    until: datetime | None


@dataclass(frozen=True)
class YardHost:
    """One instance of the yard."""

    instance: str
    run: str
    kind: str
    type: str
    zone: str
    market: str
    state: str
    address: str
    launched: datetime
    price: float | None
    verdict: Word
    """Patrol's verdict (docs/patrol.md)."""
    since: datetime | None
    """When the verdict began."""
    reason: str
    """Patrol's reason, if the ledger still has it."""
    held: datetime | None
    """The end of the hold."""
    lease: datetime | None
    """The end of the lease."""
    warm: datetime | None = None
    """Until when the host waits in the warm pool, kept by `run`."""

    @classmethod
    def of(cls, described: Mapping[str, Any], judged: Mapping[str, Judged], now: datetime) -> Self:
        """Read a host from DescribeInstances. A host that is gone has no verdict."""
        tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", [])}
        state = described["State"]["Name"]
        word, _, since = ("" if state in GONE else tags.get(Tag.VERDICT, "")).partition(" ")
        held, warm = _instant(tags.get(Tag.HOLD, "")), warm_until(tags)
        reason = reason_at(now, judged.get(described["InstanceId"]), held, warm) if word else ""
        return cls(
            instance=described["InstanceId"],
            run=tags.get(Tag.RUN, ""),
            kind=tags.get(Tag.KIND, "train"),
            type=described["InstanceType"],
            zone=described["Placement"]["AvailabilityZone"],
            market="spot" if described.get("InstanceLifecycle") == "spot" else "on_demand",
            state=state,
            address=described.get("PrivateIpAddress", ""),
            launched=described["LaunchTime"],
            price=number(tags.get(Tag.PRICE)),
            verdict=Word(word),
            since=_instant(since),
            reason=reason,
            held=held,
            lease=_instant(tags.get(Tag.LEASE, "")),
            warm=warm,
        )


def hosts(yard: Deployment, *, gone: bool = False) -> list[YardHost]:
    """Return the existing hosts, including stopped ones, the newest first. With `gone`, include ended hosts that EC2
    still lists."""
    described = [each for each in yard.instances() if gone or each["State"]["Name"] not in GONE]
    judged, now = _read_reasons(yard, described), datetime.now(UTC)
    found = [YardHost.of(each, judged, now) for each in described]
    return sorted(found, key=lambda host: host.launched, reverse=True)


def hold(yard: Deployment, instance: str, lasts: timedelta) -> datetime:
    """Keep patrol and the agent from ending the host for this time, and return the end of the hold.

    A hold beyond the yard's limit for users also raises the cap of the host, which needs an operator. Raise
    HostNotFound or Denied.
    """
    until = datetime.now(UTC) + lasts
    found = [each for each in yard.instances() if each["InstanceId"] == instance]
    if not found or found[0]["State"]["Name"] in GONE:
        raise HostNotFound(
            f"the yard {yard.name} has no host {instance}", "it may be gone", command_line("hosts")
        )
    stamp = serialization.timestamp(until)
    tags = [{"Key": Tag.HOLD, "Value": stamp}]
    if yard.most_hold_hours and until > found[0]["LaunchTime"] + timedelta(hours=yard.most_hold_hours):
        tags.append({"Key": Tag.CAP, "Value": stamp})
    _mark(yard, instance, tags)
    return until


def _mark(yard: Deployment, instance: str, tags: list[dict[str, str]]) -> None:
    """Write the tags of a hold."""
    try:
        yard.session.client("ec2").create_tags(Resources=[instance], Tags=tags)
    except Denied as denied:
        if len(tags) == 1:
            raise
        raise Denied(
            f"the hold ends more than {yard.most_hold_hours:g} hours after the start of {instance}, which is the "
            "longest hold of the yard for users (most_hold_hours)",
            "the hold of the host has not changed",
            f"hold it for less, or let an operator type the same: {command_line('hold', instance, 'TIME')}",
        ) from denied


def end_warm_hosts(yard: Deployment, run: str) -> None:
    """End the warm hosts that the run keeps. Patrol ends them within about two minutes. Raise NotTaken if the yard's
    event bus refuses the request."""
    people.send_request(yard, EndWarmHosts(run=run))


def reason_at(now: datetime, judged: Judged | None, held: datetime | None, warm: datetime | None) -> str:
    """Return the reason of a verdict that is valid now. Patrol writes a verdict when its word changes, so the tags of a
    host may be newer than the reason in the ledger."""
    for until, why in ((held, "it is held"), (warm, "it waits in the warm pool")):
        if until and until > now:
            same = judged is not None and judged.until == until
            return (
                judged.reason if judged and same else f"{why} until {until.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
            )
    return "" if judged is None or (judged.until and judged.until <= now) else judged.reason


def _read_reasons(yard: Deployment, described: Iterable[Mapping[str, Any]]) -> dict[str, Judged]:
    """Return patrol's last reason for each instance, from the days on which the verdicts began."""
    tags = [tag for each in described for tag in each.get("Tags", []) if tag["Key"] == Tag.VERDICT]
    days = sorted({tag["Value"].partition(" ")[2][:10] for tag in tags} - {""})[-MOST_DAYS:]
    table = yard.session.resource("dynamodb").Table(yard.table)
    judged: dict[str, Judged] = {}
    for day in days:
        for row in table.query(KeyConditionExpression=Key("pk").eq(f"patrol#{day}"))["Items"]:
            found = reading.read(VerdictRows, row).verdicts
            judged |= {each.instance: Judged(each.reason, each.until) for each in found}
    return judged


def _instant(text: str) -> datetime | None:
    """Parse the time in a tag, which any user may have written."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def number(text: str | None) -> float | None:
    """Parse the number in a tag, or return None."""
    try:
        return float(text) if text else None
    except ValueError:
        return None
