"""The page of schedules, and what a run's page says about its schedule and the runs that it waits for."""

import pytest

from tests.unit.ui import canned
from tests.unit.ui.canned import FAILED, INTERRUPTED, TRAINING, WAITING
from tests.unit.ui.site import owner, post, said


@pytest.fixture
def cloud() -> canned.Cloud:
    return canned.cloud()


def test_the_list_of_schedules_names_times_zone_and_last_run(cloud: canned.Cloud) -> None:
    text = owner(cloud).get("/schedules").text
    shown = said(text)
    assert "nightly Active 0 3 * * 1-5 Europe/Berlin" in shown
    assert "weekly-report Paused 30 7 * * mon UTC" in shown
    assert f'<a href="/runs/{INTERRUPTED}">' in text
    assert 'href="/?q=schedule%3Dnightly"' in text


def test_a_schedule_counts_skipped_and_missed_times(cloud: canned.Cloud) -> None:
    """One hour since its last change was skipped, and at least one was never delivered."""
    text = owner(cloud).get("/schedules").text
    row = text.partition('id="row-watch"')[2].partition("</tr>")[0]
    assert f'href="/runs/{FAILED}"' in row, "a skipped time started no run"
    assert '<td class="n" data-name="Skipped">1</td>' in row
    assert '<b class="verdict-terminate">' in row


def test_a_yard_without_schedules_says_how_to_make_one(cloud: canned.Cloud) -> None:
    cloud.schedules.clear()
    shown = said(owner(cloud).get("/schedules").text)
    assert "No schedules. Next: trainyard submit JOB , with a section schedule in the job file" in shown


@pytest.mark.parametrize(
    ("schedule", "action", "act", "words"),
    [
        ("nightly", "pause", "pause", "starts no more runs until it is resumed"),
        ("weekly-report", "resume", "resume", "Times during the pause start no runs"),
        ("nightly", "remove", "rm", "Its runs stay"),
    ],
)
def test_a_schedule_is_changed_after_a_dialog(
    cloud: canned.Cloud, schedule: str, action: str, act: str, words: str
) -> None:
    client = owner(cloud)
    assert words in said(client.get(f"/schedules/{schedule}/{action}").text)
    assert not cloud.told
    answer = post(client, f"/schedules/{schedule}/{action}")
    assert answer.headers["hx-redirect"] == "/schedules"
    assert cloud.told == [("schedule", {"schedule": schedule, "act": act})]


def test_an_unknown_schedule_or_action_is_refused(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    assert "has no schedule nights" in said(client.get("/schedules/nights/pause").text)
    assert client.get("/schedules/nightly/stop").status_code == 404
    assert post(client, "/schedules/nightly/stop").status_code == 404


def test_a_run_links_to_its_schedule_and_to_the_runs_that_it_waits_for(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    assert "Starts after" not in client.get(f"/runs/{TRAINING}").text
    cloud.stories[WAITING].row["job"]["start_after"] = {"runs": [TRAINING, FAILED], "when": "end"}
    text = client.get(f"/runs/{WAITING}").text
    assert f"Starts after the end of {TRAINING} , {FAILED}" in said(text)
    assert f'<a href="/runs/{FAILED}">' in text
    story = cloud.stories.pop(INTERRUPTED)
    run = "nightly-20261130-0200"
    story.row |= {"pk": f"run#{run}", "execution_arn": f"{canned.EXECUTION}:{run}"}
    cloud.stories[run] = story
    assert '<a href="/schedules#row-nightly">nightly</a>' in client.get(f"/runs/{run}").text
