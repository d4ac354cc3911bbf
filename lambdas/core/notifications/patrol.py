"""The notification of one pass of patrol: warnings, and the hosts that it acted on."""

from collections import Counter
from collections.abc import Iterable, Sequence

from lambdas.core.notifications import Notification
from trainyard.command_line import command_line
from trainyard.core.model import names
from trainyard.protocol.ledger.yard import VerdictRow
from trainyard.protocol.verdicts import Action
from trainyard.protocol.webhooks import NotificationKind
from trainyard.values.quantities import dollars, format_count

MOST_LINES = 40
PAST = {Action.STOP: "stopped", Action.ARCHIVE: "archived", Action.TERMINATE: "terminated"}


def notify_pass(rows: Sequence[VerdictRow], warnings: Sequence[str], *, yard: str) -> Notification | None:
    """Return the notification about a pass, or None for a pass without actions and warnings."""
    notable = [each for each in rows if each.outcome or each.verdict.action is Action.WARN]
    if not notable and not warnings:
        return None
    done = [each for each in notable if each.outcome == "done"]
    what = count_actions(done) or (
        "a warning" if warnings else f"{format_count(len(notable), 'host')} to check"
    )
    savings = sum(each.saves for each in done)
    subject = f"Trainyard {yard}: {what}" + (f", {dollars(savings)} an hour less" if savings else "")
    lines = [*warnings, *(_line(each) for each in notable[:MOST_LINES])]
    if len(notable) > MOST_LINES:
        lines.append(f"and {len(notable) - MOST_LINES} more, all in the ledger")
    kind = NotificationKind.IDLE if notable else NotificationKind.ALARM
    return Notification(subject, lines, kind=kind)


def count_actions(done: Iterable[VerdictRow]) -> str:
    counts = Counter(each.verdict.action for each in done)
    return ", ".join(
        f"{format_count(count, 'host')} {PAST[action]}" for action, count in counts.items() if action
    )


def _line(each: VerdictRow) -> str:
    """Describe one host in a line."""
    action = each.verdict.action
    what = f"{each.type}, {each.market}, {dollars(each.price)} an hour"
    run = f" of {each.run}" if each.run else ""
    still = {
        "refused": f" REFUSED ({each.refusal}); patrol tries again in a minute",
        "deferred": " (to be confirmed by the next patrol)",
    }.get(each.outcome or "", "")
    back = _way_back(each, action) if each.outcome == "done" else ""
    return f"{action} {each.instance} ({what}){run}{still}: {each.reason}{back}"


def _way_back(each: VerdictRow, action: Action | None) -> str:
    """Return how a user gets the host back."""
    if each.dev and action in (Action.STOP, Action.ARCHIVE):
        return f". To continue: {command_line('dev', 'up', each.dev)}"
    if action is Action.STOP:
        return f". To continue: aws ec2 start-instances --instance-ids {each.instance}"
    if action is Action.ARCHIVE:
        archive = names.archive_execution(each.instance, each.at)
        return (
            f'. To continue, after the snapshot {archive}: the dev-host workflow with {{"run": "{archive}"}}'
        )
    return ""
