"""Patrol's acts: stop, archive, terminate. Each may happen twice; a refused one keeps no other from happening."""

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
class Acted:
    """`refused` says of each host why AWS would not, in AWS's words: the next patrol tries again. `trouble` is the
    first error that is about no single host."""

    done: Mapping[str, Verdict] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    trouble: Exception | None = None


def act(
    acts: Mapping[str, Verdict], hosts: Mapping[str, ObservedHost], yard: PatrolSettings, now: datetime
) -> Acted:
    """Do what the verdicts say. What keeps one act from happening keeps no other: the caller raises it afterwards."""
    acts = _without_late_runs(acts, hosts, yard)
    refused: dict[str, str] = {}
    trouble: Exception | None = None
    for word, ids in _together(acts):
        try:
            refused |= _do(word, ids, hosts, yard, now)
        except Exception as error:  # noqa: BLE001 - whatever it is: patrol raises it once all is done
            logger.error("patrol could not %s %s: %s", word, ", ".join(ids), error)
            trouble = trouble or error
            refused |= dict.fromkeys(ids, str(error))
    done = {host: verdict for host, verdict in acts.items() if host not in refused}
    return Acted(done, refused, trouble)


def _together(acts: Mapping[str, Verdict]) -> Iterator[tuple[str, list[str]]]:
    """Each act with its hosts: EC2 stops and ends many at once, the snapshot workflow archives one."""
    for word in (Stop.kind, Terminate.kind):
        yield word, [host for host, verdict in acts.items() if verdict.kind == word]
    for host, verdict in acts.items():
        if verdict.kind == Archive.kind:
            yield Archive.kind, [host]


def _do(
    word: str, ids: list[str], hosts: Mapping[str, ObservedHost], yard: PatrolSettings, now: datetime
) -> dict[str, str]:
    """Who of these is refused, and why."""
    match word:
        case Stop.kind:
            return _in_words(instances.stop(ids))
        case Terminate.kind:
            return _in_words(instances.terminate(ids))
        case _:
            (host,) = ids
            return _archive(hosts[host], yard, now)


def _in_words(refused: Mapping[str, instances.Refusal]) -> dict[str, str]:
    return {host: str(why) for host, why in refused.items()}


def _without_late_runs(
    acts: Mapping[str, Verdict], hosts: Mapping[str, ObservedHost], yard: PatrolSettings
) -> dict[str, Verdict]:
    """Step Functions is asked once more before an orphan ends: a run may have begun, or been redriven, since."""
    if not any(verdict.cause is Cause.ORPHAN for verdict in acts.values()):
        return dict(acts)
    live = states.running(sorted(set(yard.state_machine_arns)))
    late = {host for host in acts if hosts[host].run in live}
    for host in late:
        run = hosts[host].run
        logger.info("%s is left alone: its run %s goes on after all", host, run, extra={"run": run})
    return {host: verdict for host, verdict in acts.items() if host not in late}


def _archive(host: ObservedHost, yard: PatrolSettings, now: datetime) -> dict[str, str]:
    """The snapshot workflow makes the image and then terminates. One try an hour: the name is the hour's."""
    at_rest = host.market.can_stop
    asked = {"instance": host.instance, "quiesce": "stop" if at_rest else "pause", "then": "terminate"}
    name = names.archive_execution(host.instance, now)
    if host.dev:
        Ledger(yard.table_name).write(dev_imaging_row(name, host.instance, now))
    if states.start(yard.snapshot_state_machine_arn, name, asked):
        return {}
    failed = f"its snapshot {name} has failed (its execution says why); the next try is in the next hour"
    return {host.instance: failed}
