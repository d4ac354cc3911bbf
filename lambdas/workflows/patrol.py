"""Patrol: every minute, observe and judge all hosts, act, and record the reasons. It is a second path, in addition to
every event.

The decisions rest on what AWS reports about hosts and executions. A broken ledger keeps no host running: its error is
raised after all actions."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from lambdas import environment
from lambdas.aws import pricing
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.aws.dynamodb.rows import held_row, no_held_row
from lambdas.aws.ec2 import instances
from lambdas.core.capacity import prices
from lambdas.core.capacity.prices import Prices
from lambdas.core.notifications import budget as budget_texts
from lambdas.core.notifications import day as day_texts
from lambdas.core.notifications import patrol as patrol_texts
from lambdas.core.patrol import budget, guard, report
from lambdas.core.patrol.budget import Billed
from lambdas.core.patrol.guard import Passed
from lambdas.core.patrol.judgement import TWO_LOOKS
from lambdas.needs import Needs, may
from lambdas.steps import notification
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import clock, logger, measure
from lambdas.steps.patrol import missed_events
from lambdas.steps.patrol.act import ActionResults, act
from lambdas.steps.patrol.observe import Observation, PatrolSettings, observe, price_of
from trainyard.core.model import names
from trainyard.core.model.yard.billing import disk_hour
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol import keys
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.yard import Money, PriceList, VerdictRow
from trainyard.protocol.storage import Storage
from trainyard.protocol.tags import Tag
from trainyard.protocol.verdicts import Cause

SUMMARY_HOUR = 0
"""The hour of the daily summary (UTC)."""
MOST_OPEN = 20
"""The most open runs that a pass logs."""
NEEDS = Needs(
    PatrolSettings,
    (
        may(
            "call",
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
            "cloudwatch:GetMetricData",
            "ssm:DescribeSessions",
            "ssm:ListCommandInvocations",
            "pricing:GetProducts",
        ),
        may("list executions", *names.CONCLUDES),
        may("describe executions", *names.CONCLUDES),
        may("start executions", "snapshot"),
        may("invoke functions", "signal", "study-turn", *names.CONCLUDES.values()),
        may("act on hosts", "ec2:StopInstances", "ec2:TerminateInstances"),
        may("keep disks"),
        may("mark hosts", Tag.VERDICT, Tag.JUDGED_BY),
        may("read and list objects", keys.RUNS),
        may("use the ledger", "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"),
        may("send notifications"),
    ),
    minutes=3,
)


@entry_point
def handler() -> dict[str, Any]:
    yard, now = environment.read(PatrolSettings), clock()
    book = Logbook(yard.table_name)
    troubles: list[Exception] = []
    if _run_part(lambda: book.begin(now, apart=TWO_LOOKS), troubles) is False:
        return {"patrol": "another pass began less than half a minute ago"}
    known = _run_part(book.read_earlier, troubles)
    regions = Prices(yard.aws_region, known.prices if known else None)
    opened = _run_part(book.read_open_runs, troubles)
    seen = observe(yard, regions, book, now, opened=opened, money=known.money if known else None)
    allowed = guard.review(
        seen.verdicts,
        earlier=seen.earlier,
        hosts=len(seen.hosts),
        asked=seen.asked,
        missing=seen.missing,
        now=now,
    )
    acted = act(allowed.acts, seen.hosts, yard, now)
    troubles += [trouble for trouble in (seen.trouble, acted.trouble) if trouble]
    entries = _entries(seen, allowed, acted, now)
    _run_part(lambda: _write_claims(yard, seen), troubles)
    _run_part(lambda: instances.keep_disks(_find_restarted(seen)), troubles)
    _run_part(
        lambda: instances.tag(guard.tag_changes(seen.verdicts, seen.earlier, now), Tag.VERDICT), troubles
    )
    _run_part(lambda: instances.tag(guard.policy_changes(seen.hosts), Tag.JUDGED_BY), troubles)
    _run_part(lambda: book.write(entries, now), troubles)
    money = (
        _run_part(lambda: _count(book, yard, seen, regions, known.money, now), troubles) if known else None
    )
    of_models = _run_part(lambda: _review_canaries(yard, known.canaries, now), troubles) if known else None
    warnings = [*allowed.warnings, *seen.problems, *(of_models or ())]
    _run_part(lambda: _notify(book, yard, _select_for_notification(entries, seen), warnings, now), troubles)
    runs = _run_part(lambda: book.runs(seen.live), troubles)
    if runs is not None:
        _log_open(runs, now)
        _run_part(lambda: missed_events.send(seen, runs, book, opened, yard, now), troubles)
    _run_part(lambda: _sum_up_yesterday(book, yard, money, now), troubles)
    if known:
        _run_part(lambda: _read_prices(book, yard, known.prices, now), troubles)
    figures = report.figures(
        seen.hosts.values(),
        entries,
        peaks=seen.peaks,
        live=len(seen.live),
        month_dollars=budget.month_dollars(money, now),
        now=now,
    )
    logger.info("patrol", extra={"patrol": figures})
    if troubles:
        raise troubles[0]
    return figures


def _run_part(do: Callable[[], Any], troubles: list[Exception]) -> Any:
    """Run one part of the pass. An error does not prevent the other parts; the first one is raised at the end."""
    try:
        return do()
    except Exception as error:  # noqa: BLE001 - the handler raises it after all actions
        logger.exception("patrol continues without this part")
        troubles.append(error)
        return None


def _write_claims(yard: PatrolSettings, seen: Observation) -> None:
    """Write the claims of dev hosts that changed."""
    settled = seen.settled
    if settled.written or settled.dropped:
        Ledger(yard.table_name).write(*map(held_row, settled.written), *map(no_held_row, settled.dropped))


def _log_open(runs: Mapping[str, RunRow], now: datetime) -> None:
    """Log a line for each of the oldest open runs. The dashboard shows a table of the lines of the last pass."""
    for row in sorted(runs.values(), key=lambda row: row.created)[:MOST_OPEN]:
        hours = round((now - row.created).total_seconds() / 3600, 1)
        known = {"run": row.run, "attempt": row.attempt, "kind": row.kind, "state": row.state, "hours": hours}
        logger.info("open run", extra=known)


def _review_canaries(yard: PatrolSettings, models: tuple[str, ...], now: datetime) -> list[str]:
    """Judge the canaries of models. Most passes find none, and do not pay for the import."""
    if not models:
        return []
    from lambdas.steps.patrol import canaries

    return canaries.review(yard.table_name, yard.yard, models, now)


def _find_restarted(seen: Observation) -> list[str]:
    """Return the hosts that the last pass saw stopped. They were started again, so their first lease is over, and they
    must keep their disk."""
    return [
        name
        for name, host in seen.hosts.items()
        if host.state in ("pending", "running") and host.earlier and host.earlier.word.cause == Cause.STOPPED
    ]


def _entries(seen: Observation, allowed: Passed, acted: ActionResults, now: datetime) -> list[VerdictRow]:
    """Return the verdicts to record: the changed ones, and those with an action that was taken or deferred."""
    meant = {**allowed.acts, **allowed.deferred}
    changed = guard.find_changed(seen.verdicts, seen.earlier, acts=meant)
    return [
        VerdictRow(
            instance=name,
            at=now,
            verdict=found.word,
            reason=found.reason,
            type=host.type,
            market=host.market.value,
            price=host.price,
            until=found.until,
            saves=found.saves,
            run=host.run,
            outcome=_outcome(name, allowed, acted),
            refusal=acted.refused.get(name),
            dev=host.dev,
        )
        for name, host, found in ((name, seen.hosts[name], seen.verdicts[name]) for name in changed)
    ]


def _outcome(name: str, allowed: Passed, acted: ActionResults) -> str | None:
    if name in acted.done:
        return "done"
    if name in acted.refused:
        return "refused"
    return "deferred" if name in allowed.deferred else None


def _select_for_notification(entries: list[VerdictRow], seen: Observation) -> list[VerdictRow]:
    """Return the verdicts to notify about. An action that AWS refuses each minute is reported once."""
    return [
        each
        for each in entries
        if each.outcome == "done"
        or (each.instance not in seen.earlier or seen.earlier[each.instance].word != each.verdict)
    ]


def _notify(
    book: Logbook, yard: PatrolSettings, entries: list[VerdictRow], warnings: list[str], now: datetime
) -> None:
    """Send the notification of a pass. A persistent warning is repeated once an hour."""
    hour = f"{now:%Y-%m-%dT%H}"
    new = [warning for warning in warnings if book.once(f"{hour}#{_kind_of(warning)}", now)]
    for warning in warnings:
        logger.warning(warning)
    found = patrol_texts.notify_pass(entries, new, yard=yard.yard)
    if found:
        notification.send(found, yard.topic_arn, book, now)


def _kind_of(warning: str) -> str:
    """Return the warning without its numbers, to recognize repetitions."""
    return "".join(letter for letter in warning if not letter.isdigit())[:200]


def _hourly(price: float, disk_gib: int | None, regions: Prices) -> float:
    """Return the cost of a host and its disk in dollars an hour, as on the bill of its run."""
    return price + disk_hour(disk_gib or 0, regions.gib_month(Storage.DISK))


def _count(
    book: Logbook,
    yard: PatrolSettings,
    seen: Observation,
    regions: Prices,
    before: Money | None,
    now: datetime,
) -> Money:
    """Count the costs of the month, and send a notification at 50, 80 and 100 % of the budget."""
    billed = [
        Billed(
            host.launched, None, _hourly(host.price, host.disk_gib, regions), host.volume_charge, host.made
        )
        for host in seen.hosts.values()
        if host.state in ("pending", "running")
    ]
    gone = (host for host in seen.ended if host.changed)
    billed += [
        Billed(
            host.launched,
            host.changed,
            _hourly(price_of(host, regions), host.disk_gib, regions),
            host.volume_charge,
            host.attached or host.launched,
        )
        for host in gone
    ]
    money = budget.count_costs(before, billed, now)
    if not book.count(money, before):
        logger.info("another pass counted the costs of the month")
        return money
    measure(Metric.DOLLARS, round(money.dollars - budget.month_dollars(before, now), 6))
    limit = yard.monthly_dollars or None
    reached = budget.find_crossed(budget.month_dollars(before, now), money.dollars, limit)
    if reached and limit:
        found = budget_texts.notify_budget(
            reached, spent=money.dollars, limit=limit, month=money.month, yard=yard.yard
        )
        notification.send(found, yard.topic_arn, book, now)
    return money


def _read_prices(book: Logbook, yard: PatrolSettings, earlier: PriceList | None, now: datetime) -> None:
    """Read the price list at the first pass of a yard and then once a day. After a pass that died while reading, the
    next try is five minutes later. A missing price list does not fail the pass: every sum of dollars names the source
    of its prices."""
    if not prices.is_due(earlier, now) or not book.once(f"{now:%Y-%m-%dT%H}:{now.minute // 5}#prices", now):
        return
    read = pricing.read(yard.aws_region, earlier, now)
    if read.trouble:
        logger.warning(read.trouble)
    book.keep(read)


def _sum_up_yesterday(book: Logbook, yard: PatrolSettings, money: Money | None, now: datetime) -> None:
    """Send the summary of the last day, shortly after midnight UTC."""
    yesterday = now - timedelta(days=1)
    if now.hour != SUMMARY_HOUR:
        return
    found = day_texts.summary(
        lambda: book.day(yesterday),
        yard=yard.yard,
        date=f"{yesterday:%Y-%m-%d}",
        month=budget.month_of(now),
        spent=budget.month_dollars(money, now),
    )
    notification.send(found, yard.topic_arn, book, now)
