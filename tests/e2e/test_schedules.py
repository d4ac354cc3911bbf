"""A job with a schedule starts no run when it is submitted, and a run at its first time; users pause and remove it."""

from pathlib import Path

import yaml

from tests.e2e.runs import Runs
from trainyard.client.schedules import find, read
from trainyard.protocol.ledger.schedules import Answer

NAME = "minutely"


def test_a_schedule_starts_a_run_at_its_time(runs: Runs, tmp_path: Path) -> None:
    job = runs.job(NAME, cluster={"strategy": "single", "workers": 1})
    job["schedule"] = {"cron": "* * * * *", "zone": "Europe/Berlin"}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    made = runs.yard.schedule(file)
    assert made.name == NAME
    assert made.row.by != "unknown"
    first = runs.until("the first run", lambda: find(runs.yard, NAME).last_run)
    run = runs.begun(first)
    paused = find(runs.yard, NAME).pause()
    assert paused.next_times() == []
    runs.finish(run)
    assert run.succeeded, run.why()
    row = runs.yard.row(first)
    assert row
    assert (row.submitter, row.name) == (made.row.by, NAME)
    started = [each.run for each in find(runs.yard, NAME).recent if each.answer is Answer.STARTED]
    assert {each.id for each in runs.yard.list() if each.name == NAME} == set(started)
    find(runs.yard, NAME).resume()
    assert NAME in {each.name for each in runs.yard.schedules()}
    find(runs.yard, NAME).remove()
    assert read(runs.yard, NAME) is None
    scheduler = runs.yard.session.client("scheduler")
    group = scheduler.list_schedules(GroupName=runs.yard.bus)["Schedules"]
    assert NAME not in {each["Name"] for each in group}
