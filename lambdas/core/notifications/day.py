"""The daily notification: what patrol did, and the money of the month."""

from collections.abc import Callable, Iterable, Iterator

from lambdas.core.notifications import Notification
from lambdas.core.notifications.patrol import MOST_LINES, count_actions
from trainyard.protocol.ledger.yard import VerdictRow
from trainyard.protocol.webhooks import NotificationKind
from trainyard.values import serialization
from trainyard.values.quantities import dollars


def summary(
    verdicts: Callable[[], Iterable[VerdictRow]], *, yard: str, date: str, month: str, spent: float
) -> Notification:
    """Summarize a day. `spent` is in dollars, for the month so far."""
    lines = _lines(verdicts, date, month, spent)
    return Notification(
        f"Trainyard {yard}: the day {date}", lines, kind=NotificationKind.DAY, once_key=f"day#{date}"
    )


def _lines(
    verdicts: Callable[[], Iterable[VerdictRow]], date: str, month: str, spent: float
) -> Iterator[str]:
    rows = list(verdicts())
    done = [each for each in rows if each.outcome == "done"]
    refused = {each.instance for each in rows if each.outcome == "refused"}
    yield f"{date}: {count_actions(done) or 'patrol ended nothing'}."
    if done:
        yield f"That saves {dollars(sum(each.saves for each in done))} an hour."
    else:
        yield "Every host was in use, or the yard had none."
    if refused:
        yield f"Refused by AWS, and tried again: {', '.join(sorted(refused))}."
    else:
        yield "AWS refused nothing."
    yield f"Cost of instances in {month} so far: {dollars(spent)}."
    for each in done[:MOST_LINES]:
        yield f"{serialization.timestamp(each.at)} {each.verdict} {each.instance}: {each.reason}"
