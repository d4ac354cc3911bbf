"""What a person may have done by the page, after it has said what that will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.client import Yard, YardError
from trainyard.core.jobfile import document
from trainyard.ui.pages.run import found

BEGIN_SECONDS = 45.0


def stop(yard: Yard, run: str, *, now: bool) -> str:
    """Have the run save and end, or end it at once; answers its id."""
    ending = found(yard, run)
    ending.stop(now=now)
    return ending.id


def again(yard: Yard, run: str, changed: str, *, resume: bool) -> str:
    """A new run of the run's job, with what was changed; answers its id once it has begun. Raises YardError where a
    change cannot be read, JobRefused."""
    job = yard.job_of(run, set=changes_in(changed), resume=resume)
    return yard.run(yard.upload(job).run).started(BEGIN_SECONDS).id


def bake(yard: Yard, *, force: bool) -> str:
    """Start a bake of the yard's own recipe; answers its run's id."""
    return yard.start("bake", {"force": True} if force else {}).id


def changes_in(text: str) -> dict[str, Any]:
    """`lr=0.5` lines, as `--set` takes them. Raises YardError."""
    changes: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, sign, value = line.partition("=")
        read = document.read(value.strip().encode(), json_only=False)
        if not key.strip() or not sign or isinstance(read, document.NotReadable):
            raise YardError(
                f"{line!r} is no change",
                read.reason if isinstance(read, document.NotReadable) else "it is KEY=VALUE, one a line",
                "as args.lr=0.5, or limits.hours=2",
            )
        changes[key.strip()] = read
    return changes


def arguments_of(job: Mapping[str, Any]) -> str:
    """The program's arguments of a job, as lines that `changes_in` reads."""
    arguments = (job.get("program") or {}).get("args") or {}
    return "\n".join(f"args.{key}={_shown(value)}" for key, value in arguments.items())


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
