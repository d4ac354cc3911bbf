"""The guard between verdicts and acts: a thousand idle hosts may be a thousand lost metrics. Pure."""

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
"""How many hosts one pass may always act on, however small the yard is."""
SHARE = 0.2
"""The share of a yard's hosts that one pass may act on without confirmation by the next pass."""
LOOKS = 6
"""How many times a window is checked while it passes. A host stays idle for up to a sixth of its window too long."""


@dataclass(frozen=True)
class Passed:
    """The verdicts of one pass after the guard."""

    acts: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdicts to carry out now."""
    deferred: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdicts that the next patrol must confirm."""
    warnings: tuple[str, ...] = ()
    """Sentences for the yard's subscribers."""


def review(
    verdicts: Mapping[str, Verdict],
    *,
    earlier: Mapping[str, Earlier],
    hosts: int,
    asked: int,
    missing: int,
    now: datetime,
) -> Passed:
    """Split the verdicts into those to carry out now and those to confirm. `hosts` counts the yard's hosts; `asked`
    counts hosts whose metrics were requested, and `missing` counts hosts that have none."""
    acts = {host: verdict for host, verdict in verdicts.items() if verdict.kind in ACTS}
    warnings = []
    if _is_outage(asked, missing):
        by_metrics = {host for host, verdict in acts.items() if verdict.cause and verdict.cause.is_by_metrics}
        acts = {host: verdict for host, verdict in acts.items() if host not in by_metrics}
        warnings.append(
            f"{missing} of {asked} hosts have no GPU metrics. This looks like an outage of CloudWatch, so no host is "
            f"judged idle until more than half of them have metrics again ({len(by_metrics)} would have been stopped, "
            "archived or terminated)"
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
            f"{len(acts)} of {hosts} hosts would be stopped, archived or terminated at once, more than the limit of "
            f"{most}: {len(deferred)} of them must be confirmed by the next patrol"
        )
    kept = {host: verdict for host, verdict in acts.items() if host not in deferred}
    return Passed(kept, deferred, tuple(warnings))


def look_every(judged_by: Policy) -> int:
    """Return the minutes between two requests for a host's metrics, if these can change its verdict. CloudWatch charges
    $0.00001 for each."""
    return max(1, round(judged_by.window_minutes / LOOKS))


def is_due(host: ObservedHost, now: datetime) -> bool:
    """Return True if a host's metrics are due in this minute. Hosts take turns, so that each pass requests about as
    many. A host whose verdict waits for confirmation is always due."""
    if host.earlier and host.earlier.word.action in ACTS:
        return True
    every = look_every(host.policy)
    minute = int(now.timestamp() // 60)
    return minute % every == zlib.crc32(host.instance.encode()) % every


def _is_outage(asked: int, missing: int) -> bool:
    """Return True if most hosts lack metrics. A single host without metrics may only have a broken agent."""
    return missing > 1 and 2 * missing > asked


def _is_confirmed(verdict: Verdict, earlier: Earlier | None, now: datetime) -> bool:
    """Return True if the last patrol reached the same verdict, or warned of the orphan: all hosts of an unknown gang
    end in the same pass."""
    if earlier is None or now - earlier.since < TWO_LOOKS:
        return False
    return earlier.word == verdict.word or verdict.cause == Cause.ORPHAN == earlier.word.cause


def tag_changes(
    verdicts: Mapping[str, Verdict], earlier: Mapping[str, Earlier], now: datetime
) -> dict[str, list[str]]:
    """Return the hosts whose tag Tag.VERDICT changes, by its new value."""
    changes: dict[str, list[str]] = {}
    for host, verdict in verdicts.items():
        before = earlier.get(host)
        if before is None or before.word != verdict.word:
            tag = Earlier(verdict.word, verdict.since or now)
            changes.setdefault(tag.to_tag(), []).append(host)
    return changes


def policy_changes(hosts: Mapping[str, ObservedHost]) -> dict[str, list[str]]:
    """Return the dev hosts whose tag Tag.JUDGED_BY changes, by its new value."""
    changes: dict[str, list[str]] = {}
    for name, host in hosts.items():
        said = policy.judged_by(host.policy)
        if host.dev and host.state in ("pending", "running") and host.judged_by != said:
            changes.setdefault(said, []).append(name)
    return changes


def find_changed(
    verdicts: Mapping[str, Verdict], earlier: Mapping[str, Earlier], acts: Collection[str]
) -> list[str]:
    """Return the hosts whose verdict belongs in the ledger: it changed, or was carried out."""
    return [
        host
        for host, verdict in verdicts.items()
        if host in acts or earlier.get(host) is None or earlier[host].word != verdict.word
    ]
