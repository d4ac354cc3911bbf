"""The health of a deployed yard: image, alarms, dead letters, budget, and the clock of this computer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from trainyard.client.admin import dead_letters
from trainyard.client.admin.dead_letters import DeadLetter
from trainyard.client.admin.preflight import BUDGET
from trainyard.client.admin.requirements import Row, Verdict
from trainyard.client.errors import Denied
from trainyard.client.inventory import images, overview
from trainyard.client.inventory.images import Image
from trainyard.client.inventory.overview import Budget
from trainyard.command_line import command_line
from trainyard.values.quantities import format_count

if TYPE_CHECKING:
    from trainyard.client.run import Run
    from trainyard.client.yard import Yard

DEAD_LETTERS = "dead letters"
MOST_NAMED = 3
"""The number of given-up events that a row shows with their reasons."""
OLD_DAYS = 60
"""The image lacks two months of system updates at this age."""
NEW_YARD = timedelta(minutes=15)
"""A new yard has no metrics for this time: patrol runs once a minute, and its alarm evaluates five minutes."""
CLOCK_SECONDS = 60
"""AWS refuses requests that were signed 5 min ago; logs and ages are wrong at smaller differences."""


def look(yard: Yard) -> list[Row]:
    """Return a row for each subject. A subject that the credentials may not read has a row that states this."""
    looks: tuple[tuple[str, Callable[[Yard], Row]], ...] = (
        ("yard", _yard),
        ("image", _image),
        ("alarms", _alarms),
        (DEAD_LETTERS, _dead_letters),
        (BUDGET, _budget),
        ("clock", _clock),
    )
    rows = []
    for subject, ask in looks:
        try:
            rows.append(ask(yard))
        except Denied as denied:
            rows.append(Row(subject, denied.what, "permission to read it", Verdict.UNKNOWN, denied.next_step))
    return rows


def _yard(yard: Yard) -> Row:
    return Row("yard", f"{yard.name} {yard.version} in {yard.session.region}", "deployed", Verdict.READY)


def _image(yard: Yard) -> Row:
    current = next((image for image in images.list_images(yard) if image.standing == "current"), None)
    if current is None:
        return judge_no_image(yard.baking)
    return judge_image(current, yard.software)


def judge_image(current: Image, software: str) -> Row:
    """Judge the image that hosts start from. `software` is the hash of the software that the yard's bakes install."""
    days, bake = current.age / 86400, command_line("image", "bake")
    found = (
        f"{current.id} of {current.family}, {days:.0f} days old, TensorFlow {current.tensorflow or 'unknown'}"
    )
    if current.software != software:
        means = f"{bake}: until it has ended, hosts run the software of an earlier deployment"
        return Row("image", found, "baked with the yard's software", Verdict.SHORT, means)
    verdict, step = (Verdict.READY, "") if days <= OLD_DAYS else (Verdict.SHORT, bake)
    return Row("image", found, f"no older than {OLD_DAYS} days", verdict, step)


def judge_no_image(baking: Run | None) -> Row:
    """Judge a yard without an image. A new yard bakes its first image automatically."""
    bake = command_line("image", "bake")
    if baking:
        return Row(
            "image",
            f"none yet, {baking.id} bakes the first",
            "a baked image",
            Verdict.READY,
            f"{bake} follows it",
        )
    return Row("image", "none", "a baked image", Verdict.SHORT, bake)


def _alarms(yard: Yard) -> Row:
    client = yard.session.client("cloudwatch")
    pages = client.get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"{yard.name.lower()}-")
    alarms = [alarm for page in pages for alarm in page["MetricAlarms"]]
    return judge_alarms(alarms, datetime.now(UTC))


def judge_alarms(alarms: list[dict[str, Any]], now: datetime) -> Row:
    """Judge the yard by its alarms, without alarms that ring because a new yard has no metrics yet."""
    loud = [alarm for alarm in alarms if alarm["StateValue"] == "ALARM"]
    awaited = [alarm for alarm in loud if _is_awaited(alarm, now)]
    if wrong := [alarm for alarm in loud if alarm not in awaited]:
        names = ", ".join(alarm["AlarmName"] for alarm in wrong)
        why = (
            f"{wrong[0]['AlarmName']}: {wrong[0].get('AlarmDescription') or wrong[0].get('StateReason', '')}"
        )
        return Row("alarms", names, "quiet", Verdict.SHORT, why)
    quiet = f"{len(alarms)}, all quiet" if not loud else f"{len(alarms)}, none about the yard itself"
    notes = [f"{alarm['AlarmName']} waits for the first measurement of a new yard" for alarm in awaited]
    return Row("alarms", quiet, "quiet", Verdict.READY, "; ".join(notes))


def _is_awaited(alarm: dict[str, Any], now: datetime) -> bool:
    """Return True for an alarm that missing data sets off in a new yard."""
    made: datetime = alarm["AlarmConfigurationUpdatedTimestamp"]
    return alarm.get("TreatMissingData") == "breaching" and now - made < NEW_YARD


def _dead_letters(yard: Yard) -> Row:
    return judge_dead_letters(list(dead_letters.read(yard)), dead_letters.queue_url(yard))


def judge_dead_letters(letters: list[DeadLetter], queue: str) -> Row:
    """Judge the events that were given up. The reason of each names the command that repeats it, if there is one."""
    if not letters:
        return Row(DEAD_LETTERS, "none", "none", Verdict.READY)
    steps = [f"{each.subject}: {each.reason}" for each in letters[:MOST_NAMED]]
    more = len(letters) - len(steps)
    steps += [f"and {format_count(more, 'more event')}"] if more else []
    remove = f"an administrator removes them, or SQS after 14 days: aws sqs purge-queue --queue-url {queue}"
    found = format_count(len(letters), "event") + " given up"
    return Row(DEAD_LETTERS, found, "none", Verdict.SHORT, "\n         ".join([*steps, remove]))


def _budget(yard: Yard) -> Row:
    """Return the budget of the deployed yard and the money it has spent this month. Settings of a clone do not
    matter."""
    return judge_budget(overview.budget_of(yard))


def judge_budget(budget: Budget) -> Row:
    found, needed = budget.described, "a budget that is not used up"
    raise_it = command_line("yard", "deploy", "-c")
    if budget.monthly is None:
        return Row(BUDGET, found, needed, Verdict.READY, f"to set one: {raise_it} monthly_dollars=500")
    if budget.remaining:
        return Row(BUDGET, found, needed, Verdict.READY)
    more = f"{raise_it} monthly_dollars={2 * budget.monthly:g}"
    return Row(
        BUDGET, found, needed, Verdict.SHORT, f"{more}; until then, or the next month, new runs are refused"
    )


def _clock(yard: Yard) -> Row:
    answer: dict[str, Any] = yard.session.client("sts").get_caller_identity()
    theirs = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    off = abs((datetime.now(UTC) - theirs).total_seconds())
    verdict = Verdict.READY if off <= CLOCK_SECONDS else Verdict.SHORT
    step = "" if verdict is Verdict.READY else "set this computer's clock by NTP"
    return Row("clock", f"{off:.0f} s from AWS's", f"within {CLOCK_SECONDS} s", verdict, step)
