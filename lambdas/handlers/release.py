"""Release: end every host of an attempt or of the run. On every path, and it may run twice.

The workflow calls it, and a rule for executions that did not end well (those have no attempt to name).

EC2 is asked by tag, so hosts that the ledger never heard of are ended too; and it is asked before the
ledger may fail, so that a broken ledger does not keep hosts running. What the ledger has launched a moment
ago is ended too, though EC2 does not show it yet.
"""

from collections.abc import Collection
from datetime import datetime
from typing import assert_never

from lambdas import settings
from lambdas.aws.ec2 import instances
from lambdas.aws.ledger import Ledger, event_row, host_row, run_row
from lambdas.core.edges.common import Released, ReleaseInput, Scope
from lambdas.core.run import release
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import KeptHosts
from lambdas.core.run.release import Act, Disposal
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model.job import Hosts

MOST_HOSTS = 20
"""How many of them the answer names."""


@entry_point
def handler(given: ReleaseInput) -> Released:
    run, run_is_over = given.run, given.scope is Scope.RUN
    ledger, now = Ledger(settings.read(settings.YardSettings).table_name), clock()
    records, unread = _records(ledger, run)
    if records and not records.run.is_of(given.execution):
        return Released(hosts=(), reason=f"{run} is another execution's: {records.run.execution_arn}")
    found = [(host.id, host.market) for host in instances.of_run(run)]
    new = release.unseen(records.hosts.values(), dict(found), now) if records else ()
    job = records.run.job if records else None
    disposals = release.dispose(
        [*found, *new],
        after=job.after.hosts if job else Hosts.TERMINATE,
        keep=_kept(records, given) if records and not run_is_over else (),
        run_is_over=run_is_over,
    )
    unwritten = _announce(ledger, run, records, disposals, now) if records else None
    refused = instances.terminate([each.instance for each in disposals if each.act is Act.TERMINATE])
    stopping = [each.instance for each in disposals if each.act is Act.STOP]
    instances.keep_disks(stopping)
    instances.all_done(refused | instances.stop(stopping))
    if wrong := unread or unwritten:
        raise wrong
    if records:
        _write(ledger, records, disposals, given.attempt, clock(), run_is_over=run_is_over)
    done = tuple(f"{each.act} {each.instance}: {each.reason}" for each in disposals)
    return Released(hosts=done[:MOST_HOSTS])


def _records(ledger: Ledger, run: str) -> tuple[Records | None, Exception | None]:
    """What is wrong with the ledger is raised only after the hosts are ended."""
    try:
        return ledger.read(run), None
    except Exception as error:  # noqa: BLE001 - whatever it is: the handler raises it once no host runs
        logger.error("the ledger cannot be read, hosts are ended all the same: %s", error)
        return None, error


def _announce(
    ledger: Ledger, run: str, records: Records, disposals: Collection[Disposal], now: datetime
) -> Exception | None:
    """Say before EC2 does that these hosts go because we ask for it: nobody shall take them for lost."""
    going = [
        each.instance for each in disposals if each.act is not Act.KEEP and each.instance in records.hosts
    ]
    try:
        ledger.write(*(host_row(run, host, {"releasing": now}) for host in going))
    except Exception as error:  # noqa: BLE001 - as above: raised once no host runs
        logger.error("the ledger cannot be written, hosts are ended all the same: %s", error)
        return error
    return None


def _kept(records: Records, given: ReleaseInput) -> frozenset[str]:
    """What the next attempt goes on with: the survivors, if it keeps any, without those that are lost."""
    match given.keep:
        case KeptHosts.NONE:
            return frozenset()
        case KeptHosts.SURVIVORS:
            staying = frozenset(host.instance for host in records.hosts.values() if host.stays)
            return staying - frozenset(given.lost)
        case _:
            assert_never(given.keep)


def _write(
    ledger: Ledger,
    records: Records,
    disposals: Collection[Disposal],
    attempt: int | None,
    now: datetime,
    *,
    run_is_over: bool,
) -> None:
    """A host that was not found is gone already: for it, too, the clock stops here at the latest. `now` is when EC2 has
    answered: it bills until then."""
    run = records.run.run
    kept = {each.instance for each in disposals if each.act is Act.KEEP}
    over = [
        host.instance for host in records.hosts.values() if host.ended is None and host.instance not in kept
    ]
    done = "; ".join(f"{each.act} {each.instance}" for each in disposals) or "no host is left"
    entry = note("released" if run_is_over else "retired", done, at=now, attempt=attempt)
    writes = [host_row(run, host, {"ended": now}) for host in over]
    ledger.write(
        *writes, event_row(run, entry), *([run_row(run, {"state": "Release"})] if run_is_over else [])
    )
