"""Release: end the hosts of an attempt or run. It runs on every path, and may be repeated.

The workflow calls this function, and a rule calls it for executions that failed; the rule passes no attempt.

EC2 is queried by tag before the ledger is used. Therefore hosts that the ledger lacks are ended, and a broken ledger
keeps none running. Hosts that were launched a moment ago end even if EC2 does not show them yet. Hosts that the run
keeps for other runs are wiped and stay (core/run/warm_pool.py)."""

from collections.abc import Collection
from datetime import datetime
from typing import assert_never

from lambdas import environment
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, host_row, launched_row, pooled_rows, run_row
from lambdas.aws.ec2 import instances
from lambdas.aws.ec2.instances import Instance
from lambdas.core.capacity.retained_hosts import RetainedHosts
from lambdas.core.run import release, warm_pool
from lambdas.core.run.records import Records
from lambdas.core.run.release import Act, Disposal
from lambdas.core.run.warm_host import WarmHost
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import ReleaseInput, Scope
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.core.model.job import Hosts
from trainyard.core.model.yard import warm
from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.plan import Market, Plan
from trainyard.protocol.storage import GIB_MONTH, Storage
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Released:
    """The result of a release."""

    hosts: tuple[str, ...]
    """The results for the first twenty hosts, with reasons."""
    reason: str = ""


class ReleaseSettings(YardSettings):
    most_pool_hosts: int = 0
    """The most hosts in the warm pool; 0: none."""


POOL_TRIES = 5
"""The most tries to move hosts to the warm pool. Each concurrent change costs one."""
MOST_HOSTS = 20
"""The most hosts in the answer."""
NEEDS = Needs(
    ReleaseSettings,
    (
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem"),
        may("act on hosts", "ec2:StopInstances", "ec2:TerminateInstances"),
        may("keep disks"),
        may("mark hosts", Tag.POOL),
        may("call", "ec2:DescribeInstances"),
    ),
    minutes=2,
)


@entry_point
def handler(given: ReleaseInput) -> Released:
    run, run_is_over = given.run, given.scope is Scope.RUN
    yard, now = environment.read(ReleaseSettings), clock()
    ledger = Ledger(yard.table_name)
    records, trouble = _read_records(ledger, run)
    if records and not records.run.is_of(given.execution):
        return Released(hosts=(), reason=f"{run} belongs to another execution: {records.run.execution_arn}")
    there = instances.find_by_run(run)
    if records and given.scope is not Scope.LOST:
        records, trouble = _add_unknown(ledger, records, there, now)
    found = [(host.id, host.market) for host in there]
    hosts = records.hosts.values() if records else ()
    new, untagged = release.find_unseen(hosts, dict(found), now), release.find_missed(hosts, dict(found))
    found = list(dict.fromkeys((*found, *new, *untagged)))
    job = records.job if records else None
    pooled, not_kept = _choose_warm_hosts(ledger, records, there, given, yard.most_pool_hosts, now)
    disposals = release.dispose(
        found,
        after=job.after.hosts if job else Hosts.TERMINATE,
        keep=_choose_remaining(records, given, found) if records and not run_is_over else (),
        run_is_over=run_is_over,
        pooled=pooled,
        faulty=[host.instance for host in hosts if host.faulty],
    )
    unwritten = _announce(ledger, run, records, disposals, now) if records else None
    not_shown = [host for host, _ in new]
    ending = [each.instance for each in disposals if each.act is Act.TERMINATE]
    refused = instances.terminate(ending, new=not_shown)
    stopping = [each.instance for each in disposals if each.act is Act.STOP]
    instances.keep_disks(stopping)
    instances.check_refusals(refused | instances.stop(stopping, new=not_shown))
    if wrong := trouble or unwritten:
        raise wrong
    if records:
        _write(ledger, records, disposals, given, clock(), not_kept)
    if (
        run_is_over and records and records.has_open_request(now)
    ):  # the hosts of an open request must end, too
        raise ServiceUnavailable(f"EC2 may still launch hosts of {run}; the release is retried")
    done = tuple(f"{each.act} {each.instance}: {each.reason}" for each in disposals)
    return Released(hosts=done[:MOST_HOSTS])


def _read_records(ledger: Ledger, run: str) -> tuple[Records | None, Exception | None]:
    """Read the ledger; return its error, which is raised after the hosts are ended."""
    try:
        return ledger.read(run), None
    except Exception as error:  # noqa: BLE001 - whatever it is: the handler raises it once no host runs
        logger.error("the ledger cannot be read; its hosts are ended anyway: %s", error)
        return None, error


def _add_unknown(
    ledger: Ledger, records: Records, there: Collection[Instance], now: datetime
) -> tuple[Records, Exception | None]:
    """Add hosts that EC2 shows and the ledger lacks, because Launch died before it recorded them. They are billed to
    the run. An error here does not prevent their end."""
    unknown = [host for host in there if host.id not in records.hosts]
    if not unknown:
        return records, None
    run = records.run.run
    rows = [
        launched_row(run, _bill(host, records.plan), attempt=_attempt(host), gang=host.gang, releasing=now)
        for host in unknown
    ]
    try:
        ledger.write(*rows)
        return ledger.require(run), None
    except Exception as error:  # noqa: BLE001 - as above: raised once no host runs
        logger.error("hosts cannot be billed; they are ended anyway: %s", error)
        return records, error


def _bill(host: Instance, plan: Plan | None) -> BilledHost:
    """Return the bill of the host: with the plan's price, or the price in its tag."""
    priced = plan.price_of(host.type, host.zone, host.market, host.gang) if plan else None
    return BilledHost(
        instance=host.id,
        type=host.type,
        zone=host.zone,
        market=host.market,
        price=priced.price if priced else host.price or 0.0,
        on_demand_price=priced.on_demand_price if priced else None,
        disk_gib=host.disk_gib or 0,
        gib_month=plan.gib_month if plan else GIB_MONTH[Storage.DISK],
        volume_charge=host.volume_charge,
        launched=host.attached or host.launched,
    )


def _attempt(host: Instance) -> int:
    """Return the attempt that the host was launched for."""
    tag = host.tags.get(Tag.ATTEMPT, "")
    return int(tag) if tag.isdecimal() else 1


def _choose_warm_hosts(
    ledger: Ledger,
    records: Records | None,
    there: Collection[Instance],
    given: ReleaseInput,
    most: int,
    now: datetime,
) -> tuple[frozenset[str], str | None]:
    """Return the hosts of the run that stay in the warm pool, and why others do not. Such a reason is only a warning of
    the run, and the host ends."""
    waiting = frozenset(
        host.id for host in there if (until := warm.warm_until(host.tags)) is not None and until > now
    )
    if (
        records is None
        or given.scope is not Scope.RUN
        or given.execution
        or not warm_pool.keeps_hosts(records)
    ):
        return waiting, None
    running = [host.id for host in there if host.state == "running" and not warm_pool.is_held(host.tags, now)]
    try:
        return waiting | _put_into_pool(ledger, records, running, waiting, most, now), None
    except Exception as error:  # noqa: BLE001 - whatever it is: a host that cannot wait ends, as all do
        logger.exception("no host is kept for the next run")
        return waiting, f"hosts could not be kept for the next run (pool) and were ended: {error}"


def _put_into_pool(
    ledger: Ledger, records: Records, running: list[str], waiting: frozenset[str], most: int, now: datetime
) -> frozenset[str]:
    """Move hosts to the warm pool. The row comes first, because it assigns the cost; then the tag, which informs the
    host."""
    for _ in range(POOL_TRIES):
        number, there = ledger.warm_hosts()
        chosen = warm_pool.choose_hosts(records, running, there, most=most, now=now)
        new = [host for host in chosen if host not in there]
        try:
            if new:
                names = ", ".join(host.instance for host in new)
                why = f"{names}: wiped, then kept for {new[0].minutes:g} minutes (pool) unless a run claims them"
                entry = note("kept for the next run", why, at=now, attempt=records.run.attempt)
                ledger.write(*pooled_rows(new, number), event_row(records.run.run, entry))
        except AlreadyWrittenError:
            logger.info("another release changed the warm pool in the meantime")
            continue
        untagged = [host for host in chosen if host.instance not in waiting and host.until > now]
        instances.tag(_by_tag(untagged), Tag.POOL)
        return frozenset(host.instance for host in untagged)
    return frozenset()


def _by_tag(hosts: Collection[WarmHost]) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for host in hosts:
        tags.setdefault(host.tag, []).append(host.instance)
    return tags


def _announce(
    ledger: Ledger, run: str, records: Records, disposals: Collection[Disposal], now: datetime
) -> Exception | None:
    """Record that these hosts end on our request before EC2 reports it, so that they do not count as lost."""
    going = [
        each.instance
        for each in disposals
        if each.act not in (Act.KEEP, Act.POOL) and each.instance in records.hosts
    ]
    try:
        ledger.write(*(host_row(run, host, {"releasing": now}) for host in going))
    except Exception as error:  # noqa: BLE001 - as above: raised once no host runs
        logger.error("the ledger cannot be written; hosts are ended anyway: %s", error)
        return error
    return None


def _choose_remaining(
    records: Records, given: ReleaseInput, found: Collection[tuple[str, Market]]
) -> frozenset[str]:
    """Return the hosts that stay: for the next attempt, the remaining hosts if it keeps any; during an attempt, all
    hosts that are not lost."""
    if given.scope is Scope.LOST:
        return (frozenset(host for host, _ in found) | frozenset(records.hosts)) - frozenset(given.lost)
    match given.keep:
        case RetainedHosts.NONE:
            return frozenset()
        case RetainedHosts.REMAINING:
            staying = frozenset(host.instance for host in records.hosts.values() if host.stays)
            return staying - frozenset(given.lost)
        case _:
            assert_never(given.keep)


def _write(
    ledger: Ledger,
    records: Records,
    disposals: Collection[Disposal],
    given: ReleaseInput,
    now: datetime,
    not_kept: str | None,
) -> None:
    """Write the ends of the hosts. A host that EC2 no longer lists ended now, or when an earlier call released it. EC2
    bills until its answer, at `now`."""
    run, run_is_over = records.run.run, given.scope is Scope.RUN
    kept = {each.instance for each in disposals if each.act in (Act.KEEP, Act.POOL)}
    if given.scope is Scope.LOST:
        kept |= set(records.hosts) - set(given.lost)
    over = [host for host in records.hosts.values() if host.ended is None and host.instance not in kept]
    found = {each.instance for each in disposals}
    ended = {host.instance: now if host.instance in found else host.releasing or now for host in over}
    done = "; ".join(f"{each.act} {each.instance}" for each in disposals) or "no host remains"
    entry = note("released" if run_is_over else "retired", done, at=now, attempt=given.attempt)
    writes = [host_row(run, host, {"ended": at}) for host, at in ended.items()]
    if not_kept:
        writes.append(event_row(run, note("warning", not_kept, at=now, attempt=given.attempt)))
    writes.append(event_row(run, entry))
    if run_is_over:
        writes.append(run_row(run, {"state": "Release"}))
    ledger.write(*writes)
