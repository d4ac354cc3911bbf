"""Patrol's acts: stop, archive, terminate. Each may happen twice; a refused one keeps no other from happening."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lambdas.aws import ending, executions
from lambdas.core.catalogue import Market
from lambdas.core.errors import AccessDenied
from lambdas.core.verdict import Archive, Cause, Facts, Stop, Terminate, Verdict
from lambdas.handlers.voice import logger
from lambdas.settings import PatrolSettings


@dataclass(frozen=True)
class Acted:
    """`refused` says of each host that AWS would not, in AWS's words: the next patrol tries again."""

    done: Mapping[str, Verdict] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    denied: AccessDenied | None = None


def act(
    acts: Mapping[str, Verdict], hosts: Mapping[str, Facts], yard: PatrolSettings, now: datetime
) -> Acted:
    """Do what the verdicts say. A missing permission is kept for the caller to raise once the rest is done."""
    acts = _without_late_runs(acts, hosts, yard)
    refused: dict[str, str] = {}
    denied: AccessDenied | None = None
    for word in (Stop.kind, Terminate.kind, Archive.kind):
        ids = [host for host, verdict in acts.items() if verdict.kind == word]
        try:
            refused |= _do(word, ids, hosts, yard, now)
        except AccessDenied as error:
            denied = denied or error
            refused |= dict.fromkeys(ids, error.reason)
    done = {host: verdict for host, verdict in acts.items() if host not in refused}
    return Acted(done, refused, denied)


def _do(
    word: str, ids: list[str], hosts: Mapping[str, Facts], yard: PatrolSettings, now: datetime
) -> dict[str, str]:
    """Who of these is refused, and why."""
    match word:
        case Stop.kind:
            return ending.stop(ids)
        case Terminate.kind:
            return ending.terminate(ids)
        case _:
            return _archive(ids, hosts, yard, now)


def _without_late_runs(
    acts: Mapping[str, Verdict], hosts: Mapping[str, Facts], yard: PatrolSettings
) -> dict[str, Verdict]:
    """Step Functions is asked once more before an orphan ends: a run may have begun, or been redriven, since."""
    if not any(verdict.cause is Cause.ORPHAN for verdict in acts.values()):
        return dict(acts)
    live = executions.running(sorted(set(yard.state_machine_arns)))
    late = {host for host in acts if hosts[host].run in live}
    for host in late:
        logger.info("%s is left alone: its run %s goes on after all", host, hosts[host].run)
    return {host: verdict for host, verdict in acts.items() if host not in late}


def _archive(
    ids: list[str], hosts: Mapping[str, Facts], yard: PatrolSettings, now: datetime
) -> dict[str, str]:
    """The snapshot workflow makes the image and then terminates. One try an hour: the name is the hour's."""
    refused = {}
    for host in ids:
        at_rest = hosts[host].market is Market.ON_DEMAND
        asked = {"instance": host, "quiesce": "stop" if at_rest else "pause", "then": "terminate"}
        name = f"archive-{host}-{now:%Y%m%d%H}"
        if not executions.start(yard.snapshot_state_machine_arn, name, asked):
            refused[host] = (
                f"its snapshot {name} has failed (its execution says why); the next try is in the next hour"
            )
    return refused
