"""The actions of the page. Each one follows a dialog that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.client import Yard, YardError, predictions, schedules
from trainyard.client.predictions import Prediction
from trainyard.core.jobfile import document
from trainyard.ui.pages.run import find_run

BEGIN_SECONDS = 45.0


def stop(yard: Yard, run: str, *, now: bool) -> str:
    """Stop the run after it has saved, or at once, and return its ID."""
    ending = find_run(yard, run)
    ending.stop(now=now)
    return ending.id


def rerun(yard: Yard, run: str, changed: str, *, resume: bool) -> str:
    """Start a new run of the run's job with changes, and return the new ID once the run has begun.

    Raises YardError for an unreadable change, and JobRefused.
    """
    job = yard.job_of(run, set=changes_in(changed), resume=resume)
    return yard.run(yard.upload(job).run).wait_for_start(BEGIN_SECONDS).id


def bake(yard: Yard, *, force: bool) -> str:
    """Start a bake of the yard's own recipe, and return its ID."""
    return yard.start("bake", {"force": True} if force else {}).id


def change_schedule(yard: Yard, name: str, action: str) -> str:
    """Pause, resume or remove a schedule, and return its name once the yard has done so. Raises YardError."""
    schedule = schedules.find(yard, name)
    {"pause": schedule.pause, "resume": schedule.resume, "remove": schedule.remove}[action]()
    return name


def predict(yard: Yard, model: str, text: str, version: str) -> Prediction:
    """Send a request for predictions, in the forms that `predict --json-instances` takes. Raises YardError."""
    document = predictions.read_instances("the request", text)
    return predictions.send(yard, model, document, version.strip() or None, explain=True)


def changes_in(text: str) -> dict[str, Any]:
    """Parse lines such as `args.lr=0.5`, as `--set` takes them. Raises YardError."""
    changes: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, sign, value = line.partition("=")
        read = document.read(value.strip().encode(), json_only=False)
        if not key.strip() or not sign or isinstance(read, document.NotReadable):
            raise YardError(
                f"{line!r} is not a change of the job",
                read.reason if isinstance(read, document.NotReadable) else "each line must be KEY=VALUE",
                "write e.g. args.lr=0.5 or limits.hours=2",
            )
        changes[key.strip()] = read
    return changes


def arguments_of(job: Mapping[str, Any]) -> str:
    """Return the program's arguments as lines that `changes_in` reads."""
    arguments = (job.get("program") or {}).get("args") or {}
    return "\n".join(f"args.{key}={_show(value)}" for key, value in arguments.items())


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
