"""Scenarios of runs that start by a rule instead of at once: after other runs (`start_after`), or by a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.scenario import SHORT, STEP_SECONDS, Scenario, job

if TYPE_CHECKING:
    from simulation.yard import Yard

ONE = {"strategy": "single"}
LOOK_SECONDS = 20
PATIENCE = timedelta(minutes=5)
"""The time after which a user submits a job again whose run has not appeared."""
FAILS = {**SHORT, "args": {"steps": 4, "step-seconds": STEP_SECONDS, "error-at": 3}}
CHAIN: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "second": ("first", "success", FAILS),
    "third": ("second", "success", SHORT),
    "last": ("second", "end", SHORT),
}
"""The jobs after the first: the job that each starts after, how that one must end, and the program."""
ZONE = "Australia/Lord_Howe"
"""Its clocks go back by half an hour only, so that the world is short."""
NIGHT = datetime(2026, 4, 4, 14, 48, tzinfo=UTC)
"""12 minutes before its clocks go back from 02:00 to 01:30."""
EARLY = tuple(datetime(2026, 4, 4, 14, minute, tzinfo=UTC) for minute in (50, 55))
"""The times 01:50 and 01:55. Clocks show them twice in that night, and they have one run each."""
LATE = tuple(
    datetime(2026, 4, 4, hour, minute, tzinfo=UTC) for hour, minute in ((15, 30), (16, 20), (16, 25))
)
"""The times 02:00, 02:50 and 02:55. Only the first one comes before the end of most worlds."""
LONG_STEPS = 5
"""The steps, of a minute each, of a run that has not ended when the next time comes."""


def _chain(yard: Yard) -> None:
    """Submit four jobs, each once the run that it starts after is known. The second one fails."""
    _submit(yard, "first")
    for name in CHAIN:
        _submit_once_known(yard, name)


def _submit(yard: Yard, name: str, after: str | None = None) -> None:
    more: dict[str, Any] = {"program": SHORT}
    if after:
        _, when, program = CHAIN[name]
        more = {"program": program, "start_after": {"runs": [after], "when": when}}
    yard.people.upload(f"jobs/{name}.json", job(name, ONE, **more))
    yard.after(PATIENCE.total_seconds(), lambda: _submit_again(yard, name, after), "a user looks for the run")


def _submit_again(yard: Yard, name: str, after: str | None) -> None:
    if not yard.runs_of(name):
        _submit(yard, name, after)


def _submit_once_known(yard: Yard, name: str) -> None:
    known = yard.runs_of(CHAIN[name][0])
    if known:
        _submit(yard, name, known[0].name)
    else:
        yard.after(LOOK_SECONDS, lambda: _submit_once_known(yard, name), "a user looks for the earlier run")


def _chain_is_over(yard: Yard) -> bool:
    return all(yard.runs_of(name) for name in ("first", *CHAIN)) and yard.all_over()


def _schedules(yard: Yard) -> None:
    """Upload two jobs with schedules. Runs take six minutes, and the second schedule's may overlap."""
    yard.scheduler.delays = lambda number: (1.0,)
    program = {**SHORT, "args": {"steps": LONG_STEPS, "step-seconds": 60.0}}
    for name, minutes, overlap in (("alone", "0,50,55 1-2", "skip"), ("beside", "50,55 1", "allow")):
        schedule = {"cron": f"{minutes} * * *", "zone": ZONE, "overlap": overlap}
        yard.people.upload(f"jobs/by/ada/{name}.json", job(name, ONE, program=program, schedule=schedule))


def _night_is_over(yard: Yard) -> bool:
    return yard.world.now > LATE[0] + timedelta(minutes=1) and yard.all_over()


ORDERED_SCENARIOS = (
    Scenario(
        "chain",
        "four runs that start after one another; the second one fails",
        _chain,
        timedelta(hours=5),
        gang=1,
        over=_chain_is_over,
        since="train-admit#2",
        ends={"second": "failed", "third": "refused"},
    ),
    Scenario(
        "schedule",
        "two schedules in the night when clocks go back",
        _schedules,
        timedelta(hours=6),
        gang=1,
        over=_night_is_over,
        beginning=NIGHT,
        times={"alone": EARLY + LATE, "beside": EARLY},
    ),
)
