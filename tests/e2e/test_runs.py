"""Whole runs from the job file to the documented results."""

import json
from typing import Any

import pytest

from tests.e2e.runs import Runs


def test_a_run_on_two_hosts_leaves_its_model_and_its_story(runs: Runs) -> None:
    run = runs.run(runs.job("clean"))
    assert run.succeeded, run.why()
    assert run.summary["outcome"] == "succeeded"
    assert [attempt["attempt"] for attempt in run.summary["attempts"]] == [1]
    assert len(run.summary["hosts"]) == 2
    assert run.summary["cost"]["dollars"] > 0
    left = run.keys
    for name in (
        "job.json",
        "plan.json",
        "timeline.jsonl",
        "summary.json",
        "metrics.json",
        "model/model.json",
    ):
        assert name in left, left
    assert {"attempts/1/logs/chief-0/00000001.log", "attempts/1/logs/worker-1/00000001.log"} <= set(left)
    assert run.json("metrics.json")["step"] == 60
    losses = run.metrics("loss")
    assert (losses["step"][-1], losses["at"] == sorted(losses["at"])) == (60, True)
    assert "finished at step 60" in run.log()
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    assert len({host["address"] for host in hosts}) == 2
    signals = [json.loads(line)["event"] for line in run.text("timeline.jsonl").splitlines()]
    for signal in ("ready", "started", "finished"):
        assert signal in signals, signals
        assert signal in [event.event for event in run.timeline]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_is_all_that_changes(runs: Runs, workers: int) -> None:
    run = runs.run(runs.job(f"workers-{workers}", cluster={"workers": workers}))
    assert run.succeeded, run.why()
    assert len(run.summary["hosts"]) == workers


def test_on_demand_hosts_are_launched_and_billed_as_such(runs: Runs) -> None:
    read = runs.until_prices()["read"]
    run = runs.run(runs.job("on-demand", hardware={"market": "on_demand"}, cluster={"workers": 1}))
    assert run.succeeded, run.why()
    cost = run.summary["cost"]
    assert set(cost["by_market"]) == {"on_demand"}
    assert cost["prices"] == f"prices of us-east-1, {read[:10]}"
    assert all("InstanceLifecycle" not in instance for instance in runs.yard.instances(run.id))


def test_hosts_without_a_gpu_train_as_others_do(runs: Runs) -> None:
    run = runs.run(runs.job("processors", hardware={"instance_types": ["m7i.large"]}))
    assert run.succeeded, run.why()
    assert [each["InstanceType"] for each in runs.yard.instances(run.id)] == ["m7i.large"] * 2


def test_a_command_with_its_words_runs_in_the_zone_and_on_the_disk_that_the_job_names(runs: Runs) -> None:
    """Run a command with arguments on hosts without a GPU."""
    line = 'exec python -m steps --steps "$1" --step-delay 0.02'
    program = {"module": None, "command": ["sh", "-c", line, "steps"], "args": [60]}
    hardware = {"instance_types": ["m7i.large"], "zones": ["us-east-1b"], "disk_gib": 150}
    run = runs.run(runs.job("command", program=program, hardware=hardware))
    assert run.succeeded, run.why()
    assert run.json("metrics.json")["step"] == 60
    assert "$0.033 for 2 disks of 150 GiB" in next(
        each.reason for each in run.timeline if each.event == "planned"
    )
    assert [host["disk_gib"] for host in run.summary["hosts"]] == [150, 150]
    assert {each["Placement"]["AvailabilityZone"] for each in runs.yard.instances(run.id)} == {"us-east-1b"}


def test_by_speed_ec2_is_asked_for_all_pools_at_once_and_the_gang_is_in_one(runs: Runs) -> None:
    hardware = {"instance_types": ["m7i.large", "c7i.large"], "prefer": "speed"}
    run = runs.run(runs.job("soon", hardware=hardware))
    assert run.succeeded, run.why()
    asked = [each.reason for each in run.timeline if each.event == "asking"]
    assert [reason.partition(": ")[0] for reason in asked] == ["2 x any of 6 spot pools in one request"]
    hosts = runs.yard.instances(run.id)
    assert len({(host["InstanceType"], host["Placement"]["AvailabilityZone"]) for host in hosts}) == 1
    (launched,) = run.json("plan.json")["launch_requests"]
    assert launched["answer"] == "launched"
    assert launched["pool"].startswith(
        f"{hosts[0]['InstanceType']} in {hosts[0]['Placement']['AvailabilityZone']}"
    )


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        ({"zones": ["eu-west-1a"]}, '"eu-west-1a" is not a zone of this yard, which is in us-east-1'),
        ({"disk_gib": 20}, "hardware.disk_gib: found 20; the root disk of the image"),
    ],
)
def test_what_the_yard_cannot_give_is_refused_and_nothing_is_launched(
    runs: Runs, hardware: dict[str, Any], message: str
) -> None:
    run = runs.run(runs.job("nowhere", hardware=hardware))
    assert (run.summary["outcome"], run.summary["error"]) == ("refused", "JobRefused")
    assert message in run.summary["reason"]
    assert runs.yard.instances(run.id) == []


def test_a_command_that_no_host_has_ends_the_run_at_once(runs: Runs) -> None:
    program = {"module": None, "command": ["torchrnu", "steps.py"], "args": None}
    run = runs.run(runs.job("no-command", program=program))
    assert run.summary["outcome"] == "failed"
    assert "program.command begins with torchrnu, and this host has no such command" in run.summary["reason"]
    assert len(run.summary["attempts"]) == 1


def test_a_job_given_to_the_execution_itself_runs(runs: Runs) -> None:
    run = runs.finish(runs.yard.start("train", {"job": runs.job("inline", cluster={"workers": 1})}))
    assert run.succeeded, run.why()
    assert run.json("job.json")["name"] == "inline"


def test_the_same_object_delivered_twice_is_one_run_and_a_new_version_is_another(runs: Runs) -> None:
    job = runs.job("twice", cluster={"workers": 1}, program={"args": {"steps": 5}})
    uploaded = runs.upload(job)
    first = runs.begun(uploaded.run)
    s3, events = runs.yard.session.client("s3"), runs.yard.session.client("lambda")
    detail = {
        "bucket": {"name": runs.yard.bucket.name},
        "object": {
            "key": uploaded.key,
            "version-id": uploaded.version,
            "etag": s3.head_object(Bucket=runs.yard.bucket.name, Key=uploaded.key)["ETag"].strip('"'),
            "size": len(json.dumps(job)),
            "sequencer": "00",
        },
    }
    again = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    submit = next(
        function["FunctionName"]
        for page in events.get_paginator("list_functions").paginate()
        for function in page["Functions"]
        if function["Handler"] == "lambdas.workflows.submit.handler"
    )
    answer = events.invoke(FunctionName=submit, Payload=json.dumps(again).encode())
    assert "FunctionError" not in answer, answer["Payload"].read()
    assert [run for run in runs.yard.runs() if run.id.startswith("twice-")] == [first]
    second = runs.start(job)
    assert second != first
    assert all(runs.finish(run).succeeded for run in (first, second))


def test_a_program_that_fails_ends_the_run_with_its_last_words(runs: Runs) -> None:
    run = runs.run(runs.job("breaks", program={"args": {"fail-at": 7}}))
    assert run.execution.status == "FAILED"
    assert run.summary["outcome"] == "failed"
    assert "told to fail at step 7" in run.summary["reason"] + run.execution.cause, run.why()
    assert len(run.summary["attempts"]) == 1, "a program's own error is not tried again"
