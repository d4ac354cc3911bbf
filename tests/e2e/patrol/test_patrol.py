"""Patrol on a deployed yard, once a minute as on AWS, with a policy in minutes instead of half hours.

All scenarios run at the same time on one yard, because most of them wait. The rules that terminate the hosts of an
aborted execution are disabled, so that only patrol or the run itself terminates hosts.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

import pytest

from tests.e2e.runs import Runs
from tests.e2e.watch import (
    CLEANUP_RULES,
    ON_DEMAND,
    ONE,
    SHORT_POLICY,
    act_on,
    begun,
    delete_prefix,
    delete_rows,
    ec2,
    host,
    host_of,
    hosts_of,
    launched,
    passes,
    patrol_log,
    patrols_until_its_end,
    set_tags,
    shell,
    state,
    tag,
    until_gone,
    until_it_is,
    until_judged,
    verdicts,
    without_rules,
)
from trainyard.client import Run, Yard
from trainyard.values import serialization

Story = Callable[[Runs], None]
NOTE = "/root/note"
LONG = {"args": {"steps": 6000}}
A_MINUTE = {"args": {"steps": 1200, "step-delay": 0.05}}
A_FIFTH = "while :; do i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; sleep 0.8; done"
"""Computes for a fifth of the time, in one process, so that waiting for a processor counts, too."""


def start(runs: Runs, host: str) -> None:
    """Start a host with a long window, so that a slow boot does not make it idle."""
    set_tags(runs, host, window_minutes=60)
    ec2(runs).start_instances(InstanceIds=[host])


def a_host_that_computes_is_kept_an_idle_one_stopped_and_archived_and_its_files_stay(runs: Runs) -> None:
    job = runs.job("ladder", cluster=ONE, hardware=ON_DEMAND, after={"hosts": "stop"}, policy=SHORT_POLICY)
    run = runs.run(job)
    assert run.succeeded, run.why()
    kept = host_of(run)
    until_it_is(runs, kept, "stopped")

    start(runs, kept)
    busy = f"nohup sh -c '{A_FIFTH}' >/dev/null 2>&1 & echo $! > /root/busy"
    shell(runs, kept, f"echo mine > {NOTE}; {busy}")
    set_tags(runs, kept, **SHORT_POLICY)
    seen = len(passes(runs))
    until_judged(runs, [kept], "keep-busy")
    runs.until("patrol looks three times", lambda: len(passes(runs)) >= seen + 3)
    assert state(runs, kept) == "running", verdicts(runs, kept)
    busy_reasons = [each["reason"] for each in verdicts(runs, kept) if each["verdict"] == "keep-busy"]
    assert "its busiest GPU was at" in busy_reasons[-1]

    shell(runs, kept, "kill $(cat /root/busy)")
    until_it_is(runs, kept, "stopped")
    last = act_on(runs, kept)
    assert last["verdict"] == "stop-idle"
    assert "no GPU of it was above" in last["reason"]

    start(runs, kept)
    assert shell(runs, kept, f"cat {NOTE}") == "mine"
    ec2(runs).stop_instances(InstanceIds=[kept])
    until_it_is(runs, kept, "stopped")
    set_tags(runs, kept, archive_days="0.0001")
    until_gone(runs, [kept])
    assert act_on(runs, kept)["verdict"] == "archive-stopped"
    of_it = [{"Name": "tag:trainyard:host", "Values": [kept]}]
    images = ec2(runs).describe_images(Owners=["self"], Filters=of_it)["Images"]
    assert [each["State"] for each in images] == ["available"]

    zone = host(runs, kept)["Placement"]["AvailabilityZone"]
    other = next(f"us-east-1{letter}" for letter in "abc" if zone[-1] != letter)
    again = launched(runs, latest="ladder", zones=[other], market="on_demand").summary
    assert again["zone"] == other
    assert shell(runs, again["instance"], f"cat {NOTE}") == "mine"
    ec2(runs).terminate_instances(InstanceIds=[again["instance"]])


def a_spot_gang_that_no_run_explains_ends_at_the_third_patrol(runs: Runs) -> None:
    """Five hosts exceed the limit of one pass, which does not apply to orphans."""
    tags = {"trainyard:yard": "trainyard", "trainyard:run": "ghost-1", "trainyard:attempt": "1"}
    made = ec2(runs).run_instances(
        ImageId=runs.yard.image(),
        InstanceType="g6.xlarge",
        MinCount=5,
        MaxCount=5,
        InstanceMarketOptions={"MarketType": "spot"},
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )
    ghosts = [each["InstanceId"] for each in made["Instances"]]
    until_gone(runs, ghosts)
    assert max(patrols_until_its_end(runs, each) for each in ghosts) <= 3
    assert "no execution of that name is running" in act_on(runs, ghosts[0])["reason"]


def an_execution_stopped_by_hand_unheard_leaves_no_host_and_a_summary(runs: Runs) -> None:
    run = begun(runs, runs.job("unheard", program=LONG, policy=SHORT_POLICY))
    hosts = hosts_of(run)
    stopped = datetime.now(UTC)
    runs.yard.session.client("stepfunctions").stop_execution(executionArn=run.arn)
    until_gone(runs, hosts)
    assert max(patrols_until_its_end(runs, each, stopped) for each in hosts) <= 4
    summary = runs.until("a summary", lambda: run.summary)
    assert summary["error"] == "Aborted"
    assert "Patrol has terminated its hosts" in summary["reason"]


def a_run_stops_at_its_cap_without_its_host_agent(runs: Runs) -> None:
    """The frozen host receives no order, so patrol ends the run."""
    job = runs.job("frozen", cluster=ONE, program={"args": {"steps": 60000}}, limits={"hours": 0.08})
    run = begun(runs, job)
    runs.cloud.fault("freeze", host_of(run))
    done = runs.finish(run)
    assert done.execution.error == "LimitReached", done.why()
    assert "stopped at its cap of 0.08 hours" in done.summary["reason"]


def a_forgotten_host_of_a_launch_is_stopped_hours_before_its_lease_ends(runs: Runs) -> None:
    """The launch has no hold."""
    made = launched(
        runs, image=runs.yard.image(), instance_types=["g6.xlarge"], market="on_demand", hours=12
    ).summary
    notebook = made["instance"]
    assert made["held"] is None
    set_tags(runs, notebook, **SHORT_POLICY)
    until_it_is(runs, notebook, "stopped")
    stopped = act_on(runs, notebook)
    assert stopped["verdict"] == "stop-idle"
    assert "no GPU of it was above" in stopped["reason"]
    assert "an hour. Stopped: $" in stopped["reason"]
    ready = serialization.parse_timestamp(tag(runs, notebook, "trainyard:ready"))
    assert serialization.parse_timestamp(stopped["at"]) - ready >= timedelta(
        minutes=SHORT_POLICY["window_minutes"]
    )
    ec2(runs).terminate_instances(InstanceIds=[notebook])


def an_idle_host_of_a_launch_that_is_to_be_held_goes_when_the_hold_is_over(runs: Runs) -> None:
    """The hold is longer than the window, so the host is idle long before the hold ends."""
    made = launched(
        runs, image=runs.yard.image(), instance_types=["g6.xlarge"], market="spot", hold_hours=0.09
    ).summary
    notebook, hold_ends = made["instance"], serialization.parse_timestamp(made["held"])
    set_tags(runs, notebook, **SHORT_POLICY, idle_spot="terminate")
    until_gone(runs, [notebook])
    ended = act_on(runs, notebook)
    assert ended["verdict"] == "terminate-idle"
    assert serialization.parse_timestamp(ended["at"]) >= hold_ends
    assert sum(host(runs, notebook)["LaunchTime"] < at < hold_ends for at in passes(runs)) >= 3


def a_host_whose_metrics_stop_is_warned_about_by_name_and_kept(runs: Runs) -> None:
    """The window is longer than the launch, so that the metrics of the launch never fill a window."""
    made = launched(
        runs, image=runs.yard.image(), instance_types=["g6.xlarge"], market="on_demand", hours=1
    ).summary
    silent = str(made["instance"])
    runs.cloud.fault("metrics", silent)
    set_tags(runs, silent, unknown_warn_minutes=1, grace_minutes=0.1, window_minutes=6)
    until_judged(runs, [silent], "warn-unknown")
    seen = len(passes(runs))
    runs.until("patrol looks twice more", lambda: len(passes(runs)) >= seen + 2)
    assert state(runs, silent) == "running"
    assert "check that its CloudWatch agent is running" in verdicts(runs, silent)[-1]["reason"]
    ec2(runs).terminate_instances(InstanceIds=[silent])


def a_run_that_waits_for_capacity_keeps_its_idle_hosts(runs: Runs) -> None:
    """The workflow releases remaining hosts if their capacity pool is full, so the test launches a host by hand."""
    runs.cloud.fault("refuse", "g5.xlarge", "*", "*")
    job = runs.job("waits", hardware={"instance_types": ["g5.xlarge"]}, limits={"wait_minutes": 30})
    run = runs.start(job)
    runs.until("it waits", lambda: any(event.event == "waiting" for event in run.timeline))
    tags = {"trainyard:yard": "trainyard", "trainyard:run": run.id, "trainyard:attempt": "1"}
    made = ec2(runs).run_instances(
        ImageId=runs.yard.image(),
        InstanceType="g6.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )
    survivor = made["Instances"][0]["InstanceId"]
    set_tags(runs, survivor, **SHORT_POLICY)
    seen = len(passes(runs))
    runs.until("patrol looks four times", lambda: len(passes(runs)) >= seen + 4)
    assert state(runs, survivor) == "running"
    assert {each["verdict"] for each in verdicts(runs, survivor)} == {"keep"}
    stopped = datetime.now(UTC)
    run.stop(now=True)
    until_gone(runs, [survivor])
    assert patrols_until_its_end(runs, survivor, stopped) <= 4


# ------------------------------------------------------------------------------------------ deleted rows and objects
def it_ended_for_lack_of_its_rows(runs: Runs, run: Run, of: str) -> None:
    runs.finish(run)
    assert run.execution.error == "Misconfigured", run.why()
    assert f"lacks {of.format(run=run.id)}" in run.execution.cause
    assert f"checkpoints.resume: {run.id}" in run.summary["reason"]
    until_gone(runs, hosts_of(run), 60)


def a_run_whose_row_is_deleted_ends_and_says_so(runs: Runs) -> None:
    run = begun(runs, runs.job("no-row", cluster=ONE, program=LONG))
    delete_rows(runs, run, lambda key: key == "run")
    it_ended_for_lack_of_its_rows(runs, run, "the run {run}")


def a_run_whose_attempt_is_deleted_ends_and_says_so(runs: Runs) -> None:
    run = begun(runs, runs.job("no-attempt", cluster=ONE, program=A_MINUTE))
    delete_rows(runs, run, lambda key: key.startswith("attempt#"))
    it_ended_for_lack_of_its_rows(runs, run, "attempt 1 of the run {run}")


def a_run_whose_host_is_deleted_ends_and_says_so(runs: Runs) -> None:
    run = begun(runs, runs.job("no-host", cluster=ONE, program=A_MINUTE))
    delete_rows(runs, run, lambda key: key.startswith("host#"))
    it_ended_for_lack_of_its_rows(runs, run, f"{host_of(run)} of the run {{run}}")


def a_run_of_which_no_row_is_left_ends_and_says_so(runs: Runs) -> None:
    """The task token is deleted, too, so the state waits until its deadline."""
    job = runs.job("no-rows", cluster=ONE, program={"args": {"steps": 60000}}, limits={"hours": 0.08})
    run = begun(runs, job)
    delete_rows(runs, run, lambda key: True)
    it_ended_for_lack_of_its_rows(runs, run, "the run {run}")


def a_run_whose_folder_is_deleted_goes_on_to_its_end(runs: Runs) -> None:
    """The host has read its inputs, and writes its results again."""
    run = begun(runs, runs.job("no-folder", cluster=ONE, program=A_MINUTE))
    runs.until("a checkpoint", lambda: runs.checkpoint_of(run))
    delete_prefix(runs, f"runs/{run.id}/")
    done = runs.finish(run)
    assert done.succeeded, done.why()
    assert [key for key in run.keys if key.startswith("model/")]
    until_gone(runs, hosts_of(run), 60)


def a_run_whose_checkpoints_are_deleted_says_what_it_does_again(runs: Runs) -> None:
    run = begun(runs, runs.job("no-checkpoints", cluster=ONE, program=A_MINUTE))
    runs.until("the signal of a checkpoint", lambda: run.status().has_saved)
    first = host_of(run)
    runs.cloud.fault("freeze", first)
    delete_prefix(runs, f"runs/{run.id}/checkpoints/")
    runs.cloud.fault("kill", first)
    done = runs.finish(run)
    assert done.succeeded, done.why()
    assert [each["from_step"] for each in done.summary["attempts"]] == [0, 0]
    assert done.summary["resume"]["steps_lost"] > 0
    assert "is missing in the bucket" in done.text("timeline.jsonl")
    until_gone(runs, hosts_of(run), 60)


STORIES: tuple[Story, ...] = (
    a_host_that_computes_is_kept_an_idle_one_stopped_and_archived_and_its_files_stay,
    a_spot_gang_that_no_run_explains_ends_at_the_third_patrol,
    an_execution_stopped_by_hand_unheard_leaves_no_host_and_a_summary,
    a_run_stops_at_its_cap_without_its_host_agent,
    a_forgotten_host_of_a_launch_is_stopped_hours_before_its_lease_ends,
    an_idle_host_of_a_launch_that_is_to_be_held_goes_when_the_hold_is_over,
    a_host_whose_metrics_stop_is_warned_about_by_name_and_kept,
    a_run_that_waits_for_capacity_keeps_its_idle_hosts,
    a_run_whose_row_is_deleted_ends_and_says_so,
    a_run_whose_attempt_is_deleted_ends_and_says_so,
    a_run_whose_host_is_deleted_ends_and_says_so,
    a_run_of_which_no_row_is_left_ends_and_says_so,
    a_run_whose_folder_is_deleted_goes_on_to_its_end,
    a_run_whose_checkpoints_are_deleted_says_what_it_does_again,
)


@pytest.fixture(scope="module")
def began(runs: Runs) -> datetime:
    """Return the time before the first scenario. The yard may be much older."""
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def scenarios(
    request: pytest.FixtureRequest, runs: Runs, began: datetime
) -> Iterator[dict[Story, Future[None]]]:
    """Start all selected scenarios, each with its own clients, because a session belongs to one thread."""
    chosen = [story for story in STORIES if any(_is_test_of(item, story) for item in request.session.items)]
    own = [Runs(runs.cloud, Yard.find(session=runs.cloud.session())) for _ in chosen]
    with without_rules(runs, *CLEANUP_RULES), ThreadPoolExecutor(len(chosen)) as pool:
        yield {story: pool.submit(story, mine) for story, mine in zip(chosen, own, strict=True)}
    runs.cloud.fault("clear")
    assert runs.living() == []


def _is_test_of(item: pytest.Item, story: Story) -> bool:
    return item.name == f"{test_on_one_yard.__name__}[{story.__name__}]"


@pytest.fixture(autouse=True)
def no_host_remains() -> None:
    """Skip the check after each scenario, because others still run; `told` checks at the end."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_on_one_yard(story: Story, scenarios: dict[Story, Future[None]]) -> None:
    scenarios[story].result()


def test_patrol_has_looked_every_minute_and_never_failed(
    runs: Runs, scenarios: dict[Story, Future[None]], began: datetime
) -> None:
    """The median counts, because a busy machine may be late with one pass."""
    wait(scenarios.values())
    looked = [each for each in passes(runs) if each > began]
    assert [entry["message"] for entry in patrol_log(runs, looked[0]) if entry["level"] == "ERROR"] == []
    between = [(later - before).total_seconds() for before, later in pairwise(looked)]
    assert median(between) < 100
