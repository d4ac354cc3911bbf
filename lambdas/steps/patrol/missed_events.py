"""Events that did not come: patrol gives them to signal, which handles them as it handles the events themselves.

Signal takes every event twice without harm, so nothing here asks whether one came after all.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from lambdas.aws import messages, states
from lambdas.aws.dynamodb.logbook import Logbook, Opened
from lambdas.aws.ec2 import images
from lambdas.core.patrol.judgement import GOING
from lambdas.core.patrol.verdict import Verdict, Warn
from lambdas.steps import left_signals
from lambdas.steps.inputs import ConcludeInput, LastAnswer
from lambdas.steps.observability import logger
from lambdas.steps.patrol.observe import Observation, PatrolSettings
from lambdas.steps.signals.events import (
    AtCap,
    Event,
    Forgotten,
    ImageState,
    InstanceState,
    MayGrow,
    PatrolNews,
    StillStopping,
)
from trainyard.core.model import names
from trainyard.protocol import signals, sources
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.tags import Tag
from trainyard.protocol.verdicts import Cause
from trainyard.values import serialization

PATIENCE = timedelta(minutes=1)
"""How late an event may be before patrol sends it."""
LONG_AGO = timedelta(minutes=10)
"""Patrol has sent it in each of the minutes before."""
SILENT_FOR = timedelta(seconds=90)
"""A chief's host speaks every minute. Mostly this is before deadlines.HEARTBEAT; where patrol comes too late for that,
the look at an overdue Train reads the words itself."""
MOST_ASKED_ABOUT = 50
"""Runs that are open though no execution of theirs is listed: each costs a call of Step Functions."""
TRIES_MINUTES = 5
"""Between two tries to conclude a run: one that Launch still asks for is left, one that fails has an alarm."""
CUT_SHORT = (
    "The execution is over, and nothing says how it ended: it was stopped by hand or its time was up. Patrol has ended "
    "its hosts, if it had any. Start it again."
)
CAPTURE = "Capture"
"""The state in which a bake, a snapshot or a run waits for its image."""
UNDER_WAY = ("AwaitHosts", "Train")
Missed = tuple[str, Event]
"""The run that it is about, too."""


def send(
    seen: Observation,
    runs: Mapping[str, RunRow],
    book: Logbook,
    opened: Opened | None,
    yard: PatrolSettings,
    now: datetime,
) -> None:
    """Hosts that are gone, of runs and of the pool, images that are there, signals that hosts could only leave in
    the bucket, runs at their cap, runs that somebody has stopped, runs that may have more hosts, runs that the
    ledger has lost; and runs that were cut short. `runs` are those that go on."""
    missed = [
        *_gone(seen, now),
        *_imaged(runs, book, yard, now),
        *_left_signals(runs, yard, now),
        *_capped(runs, now),
        *_stopped(runs, now),
        *_growing(runs, now),
        *_forgotten(seen, runs, now),
        *_left_the_pool(seen, book, now),
    ]
    for run, event in missed:
        logger.info(
            "patrol sends what no event brought: %s %s", event.detail_type, event.detail, extra={"run": run}
        )
        _invoke(f"{yard.yard}-signal", event)
    for kind, conclusion in _cut_short(seen, book, opened, now):
        logger.info("patrol concludes %s", conclusion.run, extra={"run": conclusion.run})
        _invoke(f"{yard.yard}-{names.CONCLUDES[kind]}", conclusion)


def _invoke(function: str, given: Event | ConcludeInput) -> None:
    messages.invoke(function, json.dumps(serialization.to_json(given)).encode())


def _gone(seen: Observation, now: datetime) -> Iterator[Missed]:
    """Hosts of live runs that EC2 has ended or stopped."""
    went = [(host.id, host.state, host.changed, host.tags.get(Tag.RUN)) for host in seen.ended]
    went += [
        (host.instance, host.state, host.changed, host.run)
        for host in seen.hosts.values()
        if host.state in ("stopping", "stopped")
    ]
    for instance, state, changed, run in went:
        if run in seen.live and (changed is None or PATIENCE <= now - changed <= LONG_AGO):
            yield run, _from_ec2(InstanceState(instance=instance, state=state), changed or now)


def _imaged(
    runs: Mapping[str, RunRow], book: Logbook, yard: PatrolSettings, now: datetime
) -> Iterator[Missed]:
    """Images that runs wait for, once EC2 has made them or has given up."""
    waiting = {run: row.attempt for run, row in runs.items() if row.state == CAPTURE}
    whose = {image: run for run, image in book.awaited(waiting, CAPTURE.lower()).items()}
    made = images.of_yard(yard.yard) if whose else ()
    for image in made:
        if image.id in whose and image.state != "pending":
            state = ImageState(image=image.id, state=image.state, error=image.reason)
            yield whose[image.id], _from_ec2(state, now)


def _left_signals(runs: Mapping[str, RunRow], yard: PatrolSettings, now: datetime) -> Iterator[Missed]:
    """What hosts of runs without any news have left in the bucket when they ended their part."""
    for run, row in runs.items():
        if row.state != "Train" or not _is_silent(row, now):
            continue
        for left in left_signals.endings_of(yard.bucket_name, run, row.attempt):
            if now - left.at >= PATIENCE:
                source = sources.host_source(f":{left.sent.instance}")
                word, detail = left.sent.signal.word, signals.encode(left.sent)
                yield run, Event(source=source, detail_type=word, time=left.at, detail=detail)


def _is_silent(row: RunRow, now: datetime) -> bool:
    progress = row.progress or {}
    last = progress.get("at") if progress.get("attempt") == row.attempt else None
    return last is None or now - serialization.parse_timestamp(str(last)) >= SILENT_FOR


def _capped(runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Runs whose hours or dollars are used up: the ledger's deadline moves with what their hosts cost."""
    for run, row in runs.items():
        if row.state in UNDER_WAY and row.deadline is not None and now >= row.deadline:
            yield run, _from_patrol(AtCap(run=run, attempt=row.attempt), now)


def _stopped(runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Runs that go on though somebody has stopped them."""
    for run, row in runs.items():
        if row.stopping is not None and now - row.stopping >= PATIENCE:
            yield run, _from_patrol(StillStopping(run=run, attempt=row.attempt), now)


def _growing(runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Runs that train with fewer hosts than they may have, from when they may ask for more."""
    for run, row in runs.items():
        if row.state == "Train" and row.stopping is None and row.grows is not None and now >= row.grows:
            yield run, _from_patrol(MayGrow(run=run, attempt=row.attempt), now)


def _forgotten(seen: Observation, runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Live runs with hosts, which the ledger knew when these were launched, and knows no more."""
    for run in sorted({host.run for host in seen.hosts.values() if host.run and host.live} - set(runs)):
        yield run, _from_patrol(Forgotten(run=run), now)


def _left_the_pool(seen: Observation, book: Logbook, now: datetime) -> Iterator[Missed]:
    """Hosts that wait for a run by the ledger alone: EC2 has ended them."""
    ended = {host.id: host.changed for host in seen.ended}
    for host in book.pool():
        there = seen.hosts.get(host.instance)
        changed = there.changed if there else ended.get(host.instance)
        gone = there is None or there.state in GOING
        if gone and now - host.since >= PATIENCE and (changed is None or now - changed >= PATIENCE):
            state = InstanceState(instance=host.instance, state="terminated")
            yield host.run, _from_ec2(state, changed or now)


def _from_patrol(news: PatrolNews, now: datetime) -> Event:
    return Event(source=sources.PATROL, detail_type=news.word, time=now, detail=news)


def _from_ec2(news: InstanceState | ImageState, at: datetime) -> Event:
    return Event(source="aws.ec2", detail_type=news.word, time=at, detail=news)


def _cut_short(
    seen: Observation, book: Logbook, opened: Opened | None, now: datetime
) -> Iterator[tuple[str, ConcludeInput]]:
    """The kind and the end of each run that nobody has concluded though its execution is over, and no event came of
    that. Whether it has hosts makes no difference; those it has are ended first."""
    goes_on = seen.live | {
        host.run for name, host in seen.hosts.items() if _ends_next(seen.verdicts.get(name))
    }
    turn = f"{now:%Y-%m-%dT%H}:{now.minute // TRIES_MINUTES * TRIES_MINUTES:02d}"
    runs = opened.runs if opened else ()
    left = [each for each in runs if each.run not in goes_on and each.kind in names.CONCLUDES]
    for each in left[:MOST_ASKED_ABOUT]:
        over = states.over_since(each.execution_arn)
        if over is None or now - over < PATIENCE or not book.once(f"{turn}#cut#{each.run}", now):
            continue
        yield (
            each.kind,
            ConcludeInput(
                run=each.run,
                execution=each.execution_arn,
                cut_short=True,
                outcome=LastAnswer(kind="error", error="Aborted", reason=CUT_SHORT),
            ),
        )


def _ends_next(verdict: Verdict | None) -> bool:
    """Whether the next pass ends the host as an orphan, if nothing changes."""
    return isinstance(verdict, Warn) and verdict.cause is Cause.ORPHAN
