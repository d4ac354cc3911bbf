"""Three schedules of the canned yard: one is active, one is paused, and one has missed and skipped times."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.unit.ui.canned import FAILED, INTERRUPTED, TRAINING, stamp


def schedules(now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the rows."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    yield _row("nightly", now, "0 3 * * 1-5", recent=[_firing(hour - timedelta(hours=9), INTERRUPTED)])
    yield _row("weekly-report", now, "30 7 * * mon", zone="UTC", paused=stamp(now - timedelta(days=2)))
    skipped = _firing(hour - timedelta(hours=2), TRAINING) | {"answer": "skipped"}
    recent = [skipped, _firing(hour - timedelta(hours=5), FAILED)]
    yield _row(
        "watch", now, "0 * * * *", zone="UTC", since=hour - timedelta(hours=5, minutes=1), recent=recent
    )


def _row(
    name: str,
    now: datetime,
    cron: str,
    *,
    zone: str = "Europe/Berlin",
    since: datetime | None = None,
    **more: Any,
) -> dict[str, Any]:
    return {
        "pk": "schedules",
        "sk": name,
        "name": name,
        "cron": cron,
        "zone": zone,
        "overlap": "skip",
        "by": "ada",
        "key": f"jobs/by/ada/{name}.yaml",
        "since": stamp(since or now),
        "made": True,
        **more,
    }


def _firing(at: datetime, run: str) -> dict[str, Any]:
    return {"at": stamp(at), "received": stamp(at + timedelta(seconds=1)), "answer": "started", "run": run}
