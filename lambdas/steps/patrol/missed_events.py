"""What an event should have said, patrol says: through signal, which hears it as it hears the event itself.

Signal takes every word twice without harm, so nothing here asks whether the event came after all.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from lambdas.aws import images, messages, s3
from lambdas.aws.logbook import Logbook
from lambdas.core.model import names, wire
from lambdas.core.patrol.verdict import Cause, Terminate, Verdict
from lambdas.core.run import signal_schema
from lambdas.core.run.records import RunRow
from lambdas.settings import PatrolSettings
from lambdas.steps.observability import logger
from lambdas.steps.patrol.observe import Look

Event = dict[str, Any]
PATIENCE = timedelta(minutes=1)
"""How late an event may be before patrol says it."""
LONG_AGO = timedelta(minutes=10)
"""Patrol has said it in each of the minutes before."""
SILENT_FOR = timedelta(minutes=2, seconds=30)
"""A program that goes on is heard of every minute."""
CUT_SHORT = (
    "The execution is over, and nothing told how it ended: it was stopped by hand or its time was up. Patrol has ended "
    "its hosts. Start it again; a job goes on where it was with checkpoints.resume, if it left a checkpoint."
)
CAPTURE = "Capture"
"""The state in which a bake, a snapshot or a run waits for its image."""
UNDER_WAY = ("AwaitHosts", "Train")


def relay(seen: Look, book: Logbook, yard: PatrolSettings, now: datetime) -> None:
    """Hosts that are gone, images that are there, last words that nobody heard, runs at their cap, runs that the ledger
    has lost; and runs that were cut short."""
    runs = book.runs(seen.live)
    told = [
        *_gone(seen, now),
        *_imaged(runs, book, yard, now),
        *_unheard(runs, yard, now),
        *_capped(runs, now),
        *_forgotten(seen, runs, now),
    ]
    for event in told:
        logger.info("patrol says what no event did: %s %s", event["detail-type"], event["detail"])
        messages.invoke(f"{yard.yard}-signal", json.dumps(event).encode())
    for kind, conclusion in _cut_short(seen, book):
        logger.info("patrol concludes %s", conclusion["run"])
        messages.invoke(f"{yard.yard}-{names.CONCLUDES[kind]}", json.dumps(conclusion).encode())


def _gone(seen: Look, now: datetime) -> Iterator[Event]:
    """Hosts of live runs that EC2 has ended or stopped."""
    went = [(host.id, host.state, host.changed, host.tags.get("trainyard:run")) for host in seen.ended]
    went += [
        (host.instance, host.state, host.changed, host.run)
        for host in seen.hosts.values()
        if host.state in ("stopping", "stopped")
    ]
    for instance, state, changed, run in went:
        if run in seen.live and (changed is None or PATIENCE <= now - changed <= LONG_AGO):
            yield {
                "source": "aws.ec2",
                "detail-type": "EC2 Instance State-change Notification",
                "time": wire.stamp(changed or now),
                "detail": {"instance-id": instance, "state": state},
            }


def _imaged(runs: dict[str, RunRow], book: Logbook, yard: PatrolSettings, now: datetime) -> Iterator[Event]:
    """Images that runs wait for, once EC2 has made them or has given up."""
    waiting = {run: row.attempt for run, row in runs.items() if row.state == CAPTURE}
    awaited = set(book.awaited(waiting, CAPTURE.lower()).values())
    made = images.of_yard(yard.yard) if awaited else ()
    for image in made:
        if image.id in awaited and image.state != "pending":
            yield {
                "source": "aws.ec2",
                "detail-type": "EC2 AMI State Change",
                "time": wire.stamp(now),
                "detail": {"ImageId": image.id, "State": image.state, "ErrorMessage": image.reason},
            }


def _unheard(runs: dict[str, RunRow], yard: PatrolSettings, now: datetime) -> Iterator[Event]:
    """What hosts of runs that say nothing any more have left in the bucket when they ended their part."""
    for run, row in runs.items():
        if row.state != "Train" or not _is_silent(row, now):
            continue
        for key in s3.keys(yard.bucket_name, f"runs/{run}/attempts/{row.attempt}/words/"):
            word = _word(yard, key)
            if word and now - wire.instant(word["at"]) >= PATIENCE:
                yield {
                    "source": "trainyard.host",
                    "detail-type": word["signal"],
                    "time": word["at"],
                    "detail": word,
                }


def _word(yard: PatrolSettings, key: str) -> dict[str, Any] | None:
    """What a host has left there. What cannot be read as that (a run's program can write there, too) is logged, and
    keeps nothing else from being said."""
    try:
        word = s3.get_json(yard.bucket_name, key) or {}
    except ValueError as error:
        logger.warning("%s is no word of a host: %s", key, error)
        return None
    wrong = signal_schema.unreadable(str(word.get("signal")), word)
    if wrong or not word.get("at"):
        logger.warning("%s is no word of a host: %s", key, wrong or "it does not say when")
        return None
    return word


def _is_silent(row: RunRow, now: datetime) -> bool:
    progress = row.progress or {}
    last = progress.get("at") if progress.get("attempt") == row.attempt else None
    return last is None or now - wire.instant(str(last)) >= SILENT_FOR


def _capped(runs: dict[str, RunRow], now: datetime) -> Iterator[Event]:
    """Runs whose hours or dollars are used up: the ledger's deadline moves with what their hosts cost."""
    for run, row in runs.items():
        if row.state in UNDER_WAY and row.deadline is not None and now >= row.deadline:
            yield {
                "source": "trainyard.patrol",
                "detail-type": "cap",
                "time": wire.stamp(now),
                "detail": {"run": run, "attempt": row.attempt},
            }


def _forgotten(seen: Look, runs: dict[str, RunRow], now: datetime) -> Iterator[Event]:
    """Live runs with hosts, which the ledger knew when these were launched, and knows no more."""
    for run in sorted({host.run for host in seen.hosts.values() if host.run and host.live} - set(runs)):
        yield {
            "source": "trainyard.patrol",
            "detail-type": "forgotten",
            "time": wire.stamp(now),
            "detail": {"run": run},
        }


def _cut_short(seen: Look, book: Logbook) -> Iterator[tuple[str, Event]]:
    """The kind and the end of each run whose hosts are ended as orphans, and that nobody has concluded: its execution
    is gone, unheard."""
    kinds = {
        host.run: host.kind
        for name, host in seen.hosts.items()
        if host.run and host.kind in names.CONCLUDES and _ends_as_orphan(seen.verdicts.get(name))
    }
    for run, row in book.runs(kinds).items():
        if row.ended is None:
            yield (
                kinds[run],
                {
                    "run": run,
                    "execution": row.execution_arn,
                    "cut_short": True,
                    "outcome": {"kind": "error", "error": "Aborted", "reason": CUT_SHORT},
                },
            )


def _ends_as_orphan(verdict: Verdict | None) -> bool:
    return isinstance(verdict, Terminate) and verdict.cause is Cause.ORPHAN
