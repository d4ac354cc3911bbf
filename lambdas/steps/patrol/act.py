"""Actions of patrol: stop, archive and terminate hosts. Each may be repeated, and a refused one does not prevent the
others."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import dev_imaging_row
from lambdas.aws.ec2 import instances
from lambdas.core.patrol.judgement import ObservedHost
from lambdas.core.patrol.verdict import Archive, Stop, Terminate, Verdict
from lambdas.steps.observability import logger
from lambdas.steps.patrol.observe import PatrolSettings
from trainyard.core.model import names
from trainyard.protocol.verdicts import Cause
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class ActionResults:
    """The results of the actions of a pass."""

    done: Mapping[str, Verdict] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    """The reason of AWS for each refused host. The next pass tries again."""
    trouble: Exception | None = None
    """The first error that does not concern a single host."""


def act(
    acts: Mapping[str, Verdict], hosts: Mapping[str, ObservedHost], yard: PatrolSettings, now: datetime
) -> ActionResults:
    """Carry out the verdicts. An error does not prevent the other actions; the caller raises it afterwards."""
    acts = _drop_late_runs(acts, hosts, yard)
    refused: dict[str, str] = {}
    trouble: Exception | None = None
    for word, ids in _batch(acts):
        try:
            refused |= _do(word, ids, hosts, yard, now)
        except Exception as error:  # noqa: BLE001 - whatever it is: patrol raises it once all is done
            logger.error("patrol could not %s %s: %s", word, ", ".join(ids), error)
            trouble = trouble or error
            refused |= dict.fromkeys(ids, str(error))
    done = {host: verdict for host, verdict in acts.items() if host not in refused}
    return ActionResults(done, refused, trouble)


def _batch(acts: Mapping[str, Verdict]) -> Iterator[tuple[str, list[str]]]:
    """Yield each kind of action with its hosts. EC2 stops and terminates many at once; the snapshot workflow archives
    one."""
    for word in (Stop.kind, Terminate.kind):
        yield word, [host for host, verdict in acts.items() if verdict.kind == word]
    for host, verdict in acts.items():
        if verdict.kind == Archive.kind:
            yield Archive.kind, [host]


def _do(
    word: str, ids: list[str], hosts: Mapping[str, ObservedHost], yard: PatrolSettings, now: datetime
) -> dict[str, str]:
    """Carry out an action; return the refused hosts with the reasons."""
    match word:
        case Stop.kind:
            return _to_texts(instances.stop(ids))
        case Terminate.kind:
            return _to_texts(instances.terminate(ids))
        case _:
            (host,) = ids
            return _archive(hosts[host], yard, now)


def _to_texts(refused: Mapping[str, instances.Refusal]) -> dict[str, str]:
    return {host: str(why) for host, why in refused.items()}


def _drop_late_runs(
    acts: Mapping[str, Verdict], hosts: Mapping[str, ObservedHost], yard: PatrolSettings
) -> dict[str, Verdict]:
    """Drop the orphans whose run has begun, or was redriven, since the pass began."""
    if not any(verdict.cause is Cause.ORPHAN for verdict in acts.values()):
        return dict(acts)
    live = states.list_running(sorted(set(yard.state_machine_arns)))
    late = {host for host in acts if hosts[host].run in live}
    for host in late:
        run = hosts[host].run
        logger.info("%s stays: its run %s has begun or was redriven", host, run, extra={"run": run})
    return {host: verdict for host, verdict in acts.items() if host not in late}


def _archive(host: ObservedHost, yard: PatrolSettings, now: datetime) -> dict[str, str]:
    """Start the snapshot workflow, which makes an image and terminates the host. The name of the execution contains the
    hour, so that each hour has one try."""
    at_rest = host.market.can_stop
    asked = {"instance": host.instance, "quiesce": "stop" if at_rest else "pause", "then": "terminate"}
    name = names.archive_execution(host.instance, now)
    if host.dev:
        Ledger(yard.table_name).write(dev_imaging_row(name, host.instance, now))
    if states.start(yard.snapshot_state_machine_arn, name, asked):
        return {}
    failed = f"its snapshot {name} has failed (its execution says why); the next try is in the next hour"
    return {host.instance: failed}
