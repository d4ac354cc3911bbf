"""Whether a yard that is there is well: its image, its alarms, its money, and the clock of who asks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from trainyard.client.errors import Denied
from trainyard.client.inventory import images
from trainyard.client.inventory.overview import money_row
from trainyard.client.upkeep.preflight import Row, Verdict
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client.yard import Yard

OLD_DAYS = 60
"""An image of this age lacks two months of updates of its system."""
CLOCK_SECONDS = 60
"""AWS refuses what was signed five minutes ago or later; logs and ages are wrong sooner."""


def look(yard: Yard) -> list[Row]:
    """A row for each thing; what the credentials may not read is a row that says so."""
    looks: tuple[tuple[str, Callable[[Yard], Row]], ...] = (
        ("yard", _yard),
        ("image", _image),
        ("alarms", _alarms),
        ("money", _money),
        ("clock", _clock),
    )
    rows = []
    for subject, ask in looks:
        try:
            rows.append(ask(yard))
        except Denied as denied:
            rows.append(Row(subject, denied.what, "to be known", Verdict.UNKNOWN, denied.next_step))
    return rows


def _yard(yard: Yard) -> Row:
    return Row("yard", f"{yard.name} {yard.version} in {yard.session.region}", "deployed", Verdict.READY)


def _image(yard: Yard) -> Row:
    current = next((image for image in images.of(yard) if image.standing == "current"), None)
    if current is None:
        return Row("image", "none", "a baked image", Verdict.SHORT, command_line("image", "bake"))
    days = current.age / 86400
    found = (
        f"{current.id} of {current.family}, {days:.0f} days old, TensorFlow {current.tensorflow or 'unknown'}"
    )
    if days <= OLD_DAYS:
        return Row("image", found, f"no older than {OLD_DAYS} days", Verdict.READY)
    return Row("image", found, f"no older than {OLD_DAYS} days", Verdict.SHORT, command_line("image", "bake"))


def _alarms(yard: Yard) -> Row:
    client = yard.session.client("cloudwatch")
    pages = client.get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"{yard.name.lower()}-")
    alarms = [alarm for page in pages for alarm in page["MetricAlarms"]]
    loud = [alarm for alarm in alarms if alarm["StateValue"] == "ALARM"]
    if not loud:
        return Row("alarms", f"{len(alarms)}, all quiet", "quiet", Verdict.READY)
    names = ", ".join(alarm["AlarmName"] for alarm in loud)
    why = f"{loud[0]['AlarmName']}: {loud[0].get('AlarmDescription') or loud[0].get('StateReason', '')}"
    return Row("alarms", names, "quiet", Verdict.SHORT, why)


def _money(yard: Yard) -> Row:
    money = money_row(yard)
    found = (
        f"${float(money['dollars']):.2f} in {money['month']}" if money else "patrol has counted nothing yet"
    )
    return Row("money", found, "what hosts cost this month", Verdict.READY)


def _clock(yard: Yard) -> Row:
    answer: dict[str, Any] = yard.session.client("sts").get_caller_identity()
    theirs = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    off = abs((datetime.now(UTC) - theirs).total_seconds())
    verdict = Verdict.READY if off <= CLOCK_SECONDS else Verdict.SHORT
    step = "" if verdict is Verdict.READY else "set this computer's clock by NTP"
    return Row("clock", f"{off:.0f} s from AWS's", f"within {CLOCK_SECONDS} s", verdict, step)
