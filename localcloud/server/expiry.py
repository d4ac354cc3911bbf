"""Expiry of old data, so that a local cloud that runs for weeks needs constant memory.

As on AWS: log events after the retention of their group, executions 90 days after their end, and all but the newest 100
versions of a parameter. Also, because memory is limited: all but the newest `EVENTS` of a log group and the newest
`EXECUTIONS` ended executions of a state machine.
"""

from __future__ import annotations

import logging
import math
import resource
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from localcloud.base import descriptors
from localcloud.patches import MINISTACK

log = logging.getLogger(__name__)

Key = TypeVar("Key")

PAUSE = 60.0
DAY = 86400.0
EXECUTION_DAYS = 90
EXECUTIONS = 1000
EVENTS = 10_000
VERSIONS = 100
NEARLY = 0.9


def install() -> None:
    """Start the expiry thread."""
    MINISTACK.replace("services.sts:_evict_expired_sessions", lambda: None)
    threading.Thread(target=_forget_forever, name="expiry", daemon=True).start()


def _forget_forever() -> None:
    warned = False
    while True:
        time.sleep(PAUSE)
        for forget in (forget_sessions, forget_log_events, forget_executions, forget_versions):
            try:
                forget(time.time())
            except Exception:  # one failing step must not stop the others
                log.exception("%s failed", forget.__name__)
        warned = _warn(warned)


def _warn(warned: bool) -> bool:
    """Warn once when nearly all descriptors are in use. Return True while that is so."""
    used, limit = len(list(Path("/proc/self/fd").iterdir())), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    nearly = limit != resource.RLIM_INFINITY and used > NEARLY * limit
    if nearly and not warned:
        log.warning("%s of %s descriptors are in use. %s", used, limit, descriptors.shortage(2 * limit))
    return nearly


def forget_sessions(now: float) -> None:
    """Remove expired temporary credentials. Credentials of functions have no end."""
    from ministack.services import sts

    for key, session in list(sts._sessions.items()):
        if session.get("Expiration", math.inf) < now:
            sts._sessions.pop(key, None)


def forget_log_events(now: float) -> None:
    """Remove expired events and streams that became empty. Streams without any events so far stay."""
    from ministack.services import cloudwatch_logs as logs

    oldest: dict[tuple[str, str, str], float] = {}
    for (account, region, name), group in logs._log_groups.all_items():
        streams = list(group["streams"].items())
        times = [event["timestamp"] for _, stream in streams for event in stream["events"]]
        first = oldest[account, region, name] = retention_start(times, group.get("retentionInDays"), now)
        for stream_name, stream in streams:
            with logs._log_events_lock:
                del stream["events"][: bisect_left(stream["events"], first, key=itemgetter("timestamp"))]
                if stream["events"]:
                    stream["firstEventTimestamp"] = stream["events"][0]["timestamp"]
                elif (stream["lastEventTimestamp"] or first) < first:
                    group["streams"].pop(stream_name)
    for (account, region, pointer), record in logs._log_records.all_items():
        if record["_timestamp_ms"] < oldest.get((account, region, record["@log"]), 0):
            logs._log_records.pop_scoped(account, region, pointer, None)


def retention_start(times: Sequence[float], days: int | None, now: float) -> float:
    """Return the time in milliseconds before which a log group with events at these times removes them."""
    too_old = (now - days * DAY) * 1000 if days else 0.0
    return max(too_old, sorted(times)[-EVENTS] if len(times) > EVENTS else 0.0)


def forget_executions(now: float) -> None:
    """Remove ended executions after 90 days, and all but the newest of each state machine."""
    from ministack.services import stepfunctions

    ended: dict[str, dict[tuple[str, str, str], str]] = defaultdict(dict)
    for key, execution in stepfunctions._executions.all_items():
        if execution["status"] != "RUNNING" and execution["stopDate"]:
            ended[execution["stateMachineArn"]][key] = execution["stopDate"]
    for stopped in ended.values():
        for key in expired_executions(stopped, now):
            stepfunctions._executions.pop_scoped(*key, None)


def expired_executions(stopped: Mapping[Key, str], now: float) -> list[Key]:
    """Return the expired executions of a state machine, given their end times in AWS's format."""
    too_old = datetime.fromtimestamp(now - EXECUTION_DAYS * DAY, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    newest_first = sorted(stopped, key=lambda key: stopped[key], reverse=True)
    return [key for place, key in enumerate(newest_first) if place >= EXECUTIONS or stopped[key] < too_old]


def forget_versions(now: float) -> None:
    """Remove all but the newest versions of each parameter."""
    from ministack.services import ssm

    for _, versions in ssm._parameter_history.all_items():
        del versions[:-VERSIONS]
