"""Events that were lost: patrol passes them to signal, which handles them like the events themselves.

Signal tolerates repeated events. Therefore no check is needed whether an event arrived after all."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from lambdas.aws import messages, states
from lambdas.aws.dynamodb.logbook import Logbook, Opened
from lambdas.aws.ec2 import images
from lambdas.core.patrol.judgement import ENDING_STATES
from lambdas.core.patrol.verdict import Verdict, Warn
from lambdas.steps import stored_signals
from lambdas.steps.inputs import ConcludeInput, LastAnswer
from lambdas.steps.observability import logger
from lambdas.steps.patrol import preemption
from lambdas.steps.patrol.observe import Observation, PatrolSettings
from lambdas.steps.signals.events import (
    AtCap,
    Event,
    Forgotten,
    ImageState,
    InstanceState,
    MayGrow,
    PatrolEvent,
    RunsEnded,
    StillStopping,
    StudyEnds,
)
from trainyard.core.model import names
from trainyard.protocol import signals, sources
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.study import STUDY
from trainyard.protocol.tags import Tag
from trainyard.protocol.verdicts import Cause
from trainyard.values import serialization

PATIENCE = timedelta(minutes=1)
"""The delay after which patrol sends an event itself."""
LONG_AGO = timedelta(minutes=10)
"""The age after which patrol stops sending an event."""
SILENT_FOR = timedelta(seconds=90)
"""The time without a signal after which a chief counts as silent. Its host sends one every minute. This is below
deadlines.HEARTBEAT; if patrol is later than that, the overdue Train reads the signals in the bucket itself."""
MOST_CHECKED_RUNS = 50
"""The most open runs without a listed execution that one pass checks. Each costs a call of Step Functions."""
TRIES_MINUTES = 5
"""The interval between two tries to conclude a run. A run with a launch request under way is skipped, and a failing
conclusion raises an alarm."""
CUT_SHORT = (
    "The execution ended without a conclusion: it was stopped by hand or ran into its time limit. Patrol has "
    "terminated its hosts, if it had any. Start it again."
)
CAPTURE = "Capture"
"""The state of a bake, snapshot or run that waits for its image."""
AWAIT_RUNS = "AwaitRuns"
"""The state of a run that waits for other runs."""
UNDER_WAY = ("AwaitHosts", "Train")
Missed = tuple[str, Event]
"""The run of the event, and the event."""


def send(
    seen: Observation,
    runs: Mapping[str, RunRow],
    book: Logbook,
    opened: Opened | None,
    yard: PatrolSettings,
    now: datetime,
) -> None:
    """Send every missed event: lost hosts of runs and of the warm pool, finished images, signals in the bucket, runs at
    their cap, stopped runs, runs that may grow or have to leave for others, trials of ended studies, and runs that the
    ledger lost. Take a turn of each open study. Then conclude the runs that were cut short. `runs` are the open
    runs."""
    missed = [
        *_find_lost_hosts(seen, now),
        *_find_images(runs, book, yard, now),
        *_find_stored_signals(runs, yard, now),
        *_find_at_cap(runs, now),
        *_find_stopped(runs, now),
        *_find_growing(runs, now),
        *_find_trials_left(runs, book, now),
        *_find_runs_ended(runs, book, now),
        *((each.run, _from_patrol(each, now)) for each in preemption.find(runs, opened, yard)),
        *_find_forgotten(seen, runs, now),
        *_find_lost_warm_hosts(seen, book, now),
    ]
    for run, event in missed:
        logger.info(
            "patrol sends what no event brought: %s %s", event.detail_type, event.detail, extra={"run": run}
        )
        _invoke(f"{yard.yard}-signal", event)
    for study in (run for run, row in runs.items() if row.kind == STUDY):
        messages.invoke(f"{yard.yard}-study-turn", json.dumps({"run": study}).encode())
    for kind, conclusion in _find_cut_short(seen, book, opened, now):
        logger.info("patrol concludes %s", conclusion.run, extra={"run": conclusion.run})
        _invoke(f"{yard.yard}-{names.CONCLUDES[kind]}", conclusion)


def _invoke(function: str, given: Event | ConcludeInput) -> None:
    messages.invoke(function, json.dumps(serialization.to_json(given)).encode())


def _find_lost_hosts(seen: Observation, now: datetime) -> Iterator[Missed]:
    """Yield the hosts of live runs that EC2 has ended or stopped."""
    went = [(host.id, host.state, host.changed, host.tags.get(Tag.RUN)) for host in seen.ended]
    went += [
        (host.instance, host.state, host.changed, host.run)
        for host in seen.hosts.values()
        if host.state in ("stopping", "stopped")
    ]
    for instance, state, changed, run in went:
        if run in seen.live and (changed is None or PATIENCE <= now - changed <= LONG_AGO):
            yield run, _from_ec2(InstanceState(instance=instance, state=state), changed or now)


def _find_images(
    runs: Mapping[str, RunRow], book: Logbook, yard: PatrolSettings, now: datetime
) -> Iterator[Missed]:
    """Yield the awaited images that EC2 has made or given up."""
    waiting = {run: row.attempt for run, row in runs.items() if row.state == CAPTURE}
    whose = {image: run for run, image in book.find_awaited_images(waiting, CAPTURE.lower()).items()}
    made = images.find_in_yard(yard.yard) if whose else ()
    for image in made:
        if image.id in whose and image.state != "pending":
            state = ImageState(image=image.id, state=image.state, error=image.reason)
            yield whose[image.id], _from_ec2(state, now)


def _find_stored_signals(runs: Mapping[str, RunRow], yard: PatrolSettings, now: datetime) -> Iterator[Missed]:
    """Yield the ends that hosts of silent runs left in the bucket."""
    for run, row in runs.items():
        if row.state != "Train" or not _is_silent(row, now):
            continue
        for left in stored_signals.endings_of(yard.bucket_name, run, row.attempt):
            if now - left.at >= PATIENCE:
                source = sources.host_source(f":{left.sent.instance}")
                word, detail = left.sent.signal.detail_type, signals.encode(left.sent)
                yield run, Event(source=source, detail_type=word, time=left.at, detail=detail)


def _is_silent(row: RunRow, now: datetime) -> bool:
    progress = row.progress or {}
    last = progress.get("at") if progress.get("attempt") == row.attempt else None
    return last is None or now - serialization.parse_timestamp(str(last)) >= SILENT_FOR


def _find_at_cap(runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Yield the runs whose hours or dollars are used up. The deadline in the ledger moves with the cost of the
    hosts."""
    for run, row in runs.items():
        if row.state in UNDER_WAY and row.deadline is not None and now >= row.deadline:
            yield run, _from_patrol(AtCap(run=run, attempt=row.attempt), now)


def _find_stopped(runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Yield the stopped runs that still continue."""
    for run, row in runs.items():
        if row.kind != STUDY and row.stopping is not None and now - row.stopping >= PATIENCE:
            yield run, _from_patrol(StillStopping(run=run, attempt=row.attempt), now)


def _find_growing(runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Yield the runs that train with fewer hosts than allowed, once they may request more."""
    for run, row in runs.items():
        if row.state == "Train" and row.stopping is None and row.grows is not None and now >= row.grows:
            yield run, _from_patrol(MayGrow(run=run, attempt=row.attempt), now)


def _find_trials_left(runs: Mapping[str, RunRow], book: Logbook, now: datetime) -> Iterator[Missed]:
    """Yield the trials that continue although their study is over."""
    trials = {run: row.trial for run, row in runs.items() if row.trial and row.stopping is None}
    studies = book.runs(trial.study for trial in trials.values()) if trials else {}
    for run, trial in trials.items():
        study = studies.get(trial.study)
        if study is None or study.ended or study.cut_short:
            yield run, _from_patrol(StudyEnds(run=run, attempt=runs[run].attempt), now)


def _find_runs_ended(runs: Mapping[str, RunRow], book: Logbook, now: datetime) -> Iterator[Missed]:
    """Yield the runs that still wait although the runs in their job's `start_after` have ended."""
    waiting = {run: row for run, row in runs.items() if row.state == AWAIT_RUNS and row.waiting}
    if not waiting:
        return
    wanted = {run: _awaited_by(row) for run, row in waiting.items()}
    others = book.runs(name for names_ in wanted.values() for name in names_)
    for run, row in waiting.items():
        ends = [others[name].ended if name in others else None for name in wanted[run]]
        missing = any(name not in others for name in wanted[run])
        late = [end for end in ends if end is not None and now - end >= PATIENCE]
        if missing or late:
            yield run, _from_patrol(RunsEnded(run=run, attempt=row.attempt), now)


def _awaited_by(row: RunRow) -> tuple[str, ...]:
    section = (row.job or {}).get("start_after") or {}
    return tuple(section.get("runs") or ())


def _find_forgotten(seen: Observation, runs: Mapping[str, RunRow], now: datetime) -> Iterator[Missed]:
    """Yield the live runs with hosts whose rows are missing in the ledger."""
    for run in sorted({host.run for host in seen.hosts.values() if host.run and host.live} - set(runs)):
        yield run, _from_patrol(Forgotten(run=run), now)


def _find_lost_warm_hosts(seen: Observation, book: Logbook, now: datetime) -> Iterator[Missed]:
    """Yield the hosts of the warm pool that EC2 has ended."""
    ended = {host.id: host.changed for host in seen.ended}
    for host in book.pool():
        there = seen.hosts.get(host.instance)
        changed = there.changed if there else ended.get(host.instance)
        gone = there is None or there.state in ENDING_STATES
        if gone and now - host.since >= PATIENCE and (changed is None or now - changed >= PATIENCE):
            state = InstanceState(instance=host.instance, state="terminated")
            yield host.run, _from_ec2(state, changed or now)


def _from_patrol(message: PatrolEvent, now: datetime) -> Event:
    return Event(source=sources.PATROL, detail_type=message.detail_type, time=now, detail=message)


def _from_ec2(message: InstanceState | ImageState, at: datetime) -> Event:
    return Event(source="aws.ec2", detail_type=message.detail_type, time=at, detail=message)


def _find_cut_short(
    seen: Observation, book: Logbook, opened: Opened | None, now: datetime
) -> Iterator[tuple[str, ConcludeInput]]:
    """Yield the kind and conclusion of each open run whose execution has ended. A run whose hosts are about to be
    terminated comes in a later pass."""
    goes_on = seen.live | {
        host.run for name, host in seen.hosts.items() if _is_about_to_end(seen.verdicts.get(name))
    }
    turn = f"{now:%Y-%m-%dT%H}:{now.minute // TRIES_MINUTES * TRIES_MINUTES:02d}"
    runs = opened.runs if opened else ()
    left = [each for each in runs if each.run not in goes_on and each.kind in names.CONCLUDES]
    for each in left[:MOST_CHECKED_RUNS]:
        over = states.read_end(each.execution_arn)
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


def _is_about_to_end(verdict: Verdict | None) -> bool:
    """Return True if the next pass terminates the host as an orphan unless something changes."""
    return isinstance(verdict, Warn) and verdict.cause is Cause.ORPHAN
