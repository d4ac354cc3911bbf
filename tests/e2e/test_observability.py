"""An operator finds a metric, an alarm, and the log lines of all functions for a run."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.runs import Runs


def lines(runs: Runs) -> Iterator[dict[str, Any]]:
    """Yield the JSON log lines of all training functions; Lambda's own lines are not JSON."""
    logs, prefix = runs.yard.session.client("logs"), f"/{runs.yard.name.lower()}/functions/train-"
    for group in logs.describe_log_groups(logGroupNamePrefix=prefix)["logGroups"]:
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"])
        for event in (event for page in pages for event in page["events"]):
            if event["message"].startswith("{"):
                yield json.loads(event["message"])


def counted(runs: Runs, metric: str) -> float:
    """Return the sum of a metric of the yard over the last hours."""
    now = datetime.now(UTC)
    points = runs.yard.session.client("cloudwatch").get_metric_statistics(
        Namespace="Trainyard",
        MetricName=metric,
        Dimensions=[{"Name": "service", "Value": runs.yard.name.lower()}],
        StartTime=now - timedelta(hours=12),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum"],
    )["Datapoints"]
    return float(sum(point["Sum"] for point in points))


def test_an_operator_finds_the_lines_of_a_run_that_fails_and_no_alarm_rings_for_its_program(
    runs: Runs,
) -> None:
    launched, failed = counted(runs, "HostsLaunched"), counted(runs, "RunsFailed")
    job = runs.job("heard", cluster={"workers": 1}, program={"args": {"fail-at": 3}})
    run = runs.run(job)
    assert not run.succeeded
    assert counted(runs, "HostsLaunched") == launched + 1
    assert counted(runs, "RunsFailed") == failed
    every = list(lines(runs))
    mine = [line for line in every if line.get("run") == run.id]
    functions = {line["function_name"].removeprefix(f"{runs.yard.name.lower()}-train-") for line in mine}
    assert {"admit", "plan", "launch", "train", "recover", "conclude"} <= functions
    requests = {line["function_request_id"] for line in mine if "function_request_id" in line}
    others = [line for line in every if line.get("function_request_id") in requests and line not in mine]
    assert others == [], "every line of an invocation that is about the run names it"
