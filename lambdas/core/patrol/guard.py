"""The guard between verdicts and acts: what looks like a thousand idle hosts may be a thousand lost metrics. Pure."""

import math
import zlib
from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime

from lambdas.core.patrol.judgement import TWO_LOOKS, ObservedHost
from lambdas.core.patrol.verdict import Earlier, Verdict
from trainyard.core.model.yard import policy
from trainyard.core.model.yard.policy import Policy
from trainyard.protocol.verdicts import ACTS, Cause
from trainyard.values.lazy import dataclass

FEW = 3
"""So many hosts may be acted on in one pass of the smallest yard."""
SHARE = 0.2
"""Of a yard's hosts, what may be acted on in one pass without a second look."""
LOOKS = 6
"""How often a window is looked at while it passes: a host is idle for a sixth of it longer than it must."""


@dataclass(frozen=True)
class Passed:
    """`acts` may be acted on now. `deferred` wait for the next patrol to say the same of them. `warnings` are for
    people."""

    acts: Mapping[str, Verdict] = field(default_factory=dict)
    deferred: Mapping[str, Verdict] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def passed(
    verdicts: Mapping[str, Verdict],
    *,
    earlier: Mapping[str, Earlier],
    hosts: int,
    asked: int,
    missing: int,
    now: datetime,
) -> Passed:
    """Which verdicts may be acted on. `hosts`: how many the yard has; `asked`: about how many of them the metrics were
    asked, of which `missing` had none at all."""
    acts = {host: verdict for host, verdict in verdicts.items() if verdict.kind in ACTS}
    warnings = []
    if _is_outage(asked, missing):
        by_metrics = {host for host, verdict in acts.items() if verdict.cause and verdict.cause.is_by_metrics}
        acts = {host: verdict for host, verdict in acts.items() if host not in by_metrics}
        warnings.append(
            f"{missing} of {asked} hosts that were asked about have no GPU metrics: this looks like an outage of the "
            f"metrics, not like idle hosts, and none of them is judged idle until more than half are seen again "
            f"({len(by_metrics)} would have been acted on)"
        )
    most = max(FEW, math.ceil(SHARE * hosts))
    confirmed = {host for host, verdict in acts.items() if _is_confirmed(verdict, earlier.get(host), now)}
    others = sorted(
        (host for host in acts if host not in confirmed), key=lambda host: (acts[host].since or now, host)
    )
    now_too = set(others[: max(0, most - len(confirmed))])
    deferred = {host: acts[host] for host in others if host not in now_too}
    if deferred:
        warnings.append(
            f"{len(acts)} of {hosts} hosts would be acted on at once, which is more than {most}: {len(deferred)} of "
            "them wait until the next patrol, with metrics of its own, says the same"
        )
    kept = {host: verdict for host, verdict in acts.items() if host not in deferred}
    return Passed(kept, deferred, tuple(warnings))


def look_every(judged_by: Policy) -> int:
    """Every how many minutes a host's metrics are asked for, where they can change its verdict: one metric each time,
    for which CloudWatch asks a thousandth of a cent."""
    return max(1, round(judged_by.window_minutes / LOOKS))


def is_due(host: ObservedHost, now: datetime) -> bool:
    """Whether this minute is one of the host's; hosts take turns, so that each pass asks for as many. A host that waits
    for a second look is looked at at once."""
    if host.earlier and host.earlier.word.action in ACTS:
        return True
    every = look_every(host.policy)
    minute = int(now.timestamp() // 60)
    return minute % every == zlib.crc32(host.instance.encode()) % every


def _is_outage(asked: int, missing: int) -> bool:
    """Of one host nobody can say whether its agent or the whole service is silent."""
    return missing > 1 and 2 * missing > asked


def _is_confirmed(verdict: Verdict, earlier: Earlier | None, now: datetime) -> bool:
    """Whether the patrol before has said the same, or has warned of the orphan: all of a gang that nobody knows end at
    their second look."""
    if earlier is None or now - earlier.since < TWO_LOOKS:
        return False
    return earlier.word == verdict.word or verdict.cause == Cause.ORPHAN == earlier.word.cause


def tag_changes(
    verdicts: Mapping[str, Verdict], earlier: Mapping[str, Earlier], now: datetime
) -> dict[str, list[str]]:
    """Hosts by the new value of their tag Tag.VERDICT, those alone whose value changes."""
    changes: dict[str, list[str]] = {}
    for host, verdict in verdicts.items():
        before = earlier.get(host)
        if before is None or before.word != verdict.word:
            tag = Earlier(verdict.word, verdict.since or now)
            changes.setdefault(tag.to_tag(), []).append(host)
    return changes


def policy_changes(hosts: Mapping[str, ObservedHost]) -> dict[str, list[str]]:
    """Dev hosts by the new value of their tag Tag.JUDGED_BY, those alone that it is new to."""
    changes: dict[str, list[str]] = {}
    for name, host in hosts.items():
        said = policy.judged_by(host.policy)
        if host.dev and host.state in ("pending", "running") and host.judged_by != said:
            changes.setdefault(said, []).append(name)
    return changes


def changed(
    verdicts: Mapping[str, Verdict], earlier: Mapping[str, Earlier], acts: Collection[str]
) -> list[str]:
    """The hosts whose verdict is worth a line in the ledger: another than before, or acted on."""
    return [
        host
        for host, verdict in verdicts.items()
        if host in acts or earlier.get(host) is None or earlier[host].word != verdict.word
    ]
