"""Alarms and the dashboard, and their cost while nothing runs."""

import json
import re
from pathlib import Path
from typing import Any

from tests.infrastructure import idle_cost
from tests.infrastructure.assembly import Assembly, text
from trainyard.core.model.yard.metrics import NAMESPACE, OF_PREDICTIONS, Metric
from trainyard.protocol.plan import RefusalKind

ROOT = Path(__file__).resolve().parents[2]
ALARMS = {
    "function-failed",
    "run-failed",
    "retire-failed",
    "signal-forged",
    "run-cut-short",
    "patrol-absent",
    "dead-letters",
}


def test_no_alarm_rings_for_what_a_user_does_wrong(yard: Assembly) -> None:
    """Step Functions' own metrics count refused and failed jobs of users, too."""
    alarms = {each.properties["AlarmName"]: each for each in yard.resources("AWS::CloudWatch::Alarm")}
    assert alarms.keys() == {f"trainyard-{word}" for word in ALARMS}
    of_executions = [name for name, each in alarms.items() if each.properties["Namespace"] == "AWS/States"]
    assert of_executions == ["trainyard-retire-failed"], "no user starts it"


def test_every_alarm_has_a_text_of_its_own_and_a_line_in_the_runbook(yard: Assembly) -> None:
    alarms = yard.resources("AWS::CloudWatch::Alarm")
    assert len({each.properties["AlarmDescription"] for each in alarms}) == len(ALARMS)
    runbook = (ROOT / "docs/runbook.md").read_text()
    assert [word for word in ALARMS if f"alarm `...-{word}`" not in runbook] == []


def test_every_alarm_tells_the_topic_and_says_what_to_do(yard: Assembly) -> None:
    for alarm in yard.resources("AWS::CloudWatch::Alarm"):
        assert len(alarm.properties["AlarmActions"]) == 1
        assert len(alarm.properties["AlarmDescription"]) > 40
        absent = alarm.properties["AlarmName"] == "trainyard-patrol-absent"
        assert alarm.properties["TreatMissingData"] == ("breaching" if absent else "notBreaching")


def test_the_alarm_of_a_stopped_execution_says_what_a_rule_does_with_its_hosts(yard: Assembly) -> None:
    told = {
        alarm.properties["AlarmName"]: alarm.properties["AlarmDescription"]
        for alarm in yard.resources("AWS::CloudWatch::Alarm")
    }
    assert "Its hosts were terminated" in told["trainyard-run-cut-short"]
    assert "othing was released" not in "".join(told.values())


def test_an_alarm_watches_one_plain_metric_which_is_told(yard: Assembly) -> None:
    """An alarm on metric math is billed for each metric."""
    machines = {f"{{{each.name}}}" for each in yard.resources("AWS::StepFunctions::StateMachine")}
    for alarm in yard.resources("AWS::CloudWatch::Alarm"):
        given = alarm.properties
        ((dimension,),) = [given["Dimensions"]]
        match given["Namespace"]:
            case "AWS/States":
                assert text(dimension["Value"]) in machines
            case "AWS/SQS":
                assert dimension["Value"] == "trainyard-dead-letters"
            case _:
                assert given["Namespace"] == NAMESPACE
                assert given["MetricName"] in list(Metric)
                assert dimension == {"Name": "service", "Value": "trainyard"}


def test_a_function_that_crashes_is_heard_of_by_its_caller(yard: Assembly) -> None:
    """After a crash our code reports no metric: the execution fails, the event becomes a dead letter, patrol is
    missing, the deployment fails, or a user gets no prediction or no test of a webhook. Nothing else calls a
    function."""
    called = {
        name
        for machine in yard.resources("AWS::StepFunctions::StateMachine")
        for name in re.findall(
            r"\{(\w+)\.Arn\}",
            " ".join(text(each) for each in machine.properties["DefinitionSubstitutions"].values()),
        )
    }
    kept = {
        text(each.properties["FunctionName"]).strip("{}")
        for each in yard.resources("AWS::Lambda::EventInvokeConfig")
        if "OnFailure" in each.properties.get("DestinationConfig", {})
    }
    deploys = {
        text(each.properties["ServiceToken"]).strip("{}").removesuffix(".Arn")
        for each in yard.resources("Custom::Prepared")
    }
    for word, function in yard.functions.items():
        assert function.name in called | kept | deploys or word in ("patrol", "predict", "try_webhook"), word


def dashboard(yard: Assembly, name: str) -> list[dict[str, Any]]:
    (board,) = (
        each
        for each in yard.resources("AWS::CloudWatch::Dashboard")
        if each.properties["DashboardName"] == name
    )
    widgets: list[dict[str, Any]] = json.loads(text(board.properties["DashboardBody"]))["widgets"]
    return [widget["properties"] for widget in widgets]


def test_the_dashboard_shows_every_metric_of_the_yard(yard: Assembly) -> None:
    shown = {
        (metric[1], *metric[2:-1])
        for widget in dashboard(yard, "trainyard")
        for metric in widget.get("metrics", [])
        if metric[0] == NAMESPACE
    }
    others = {Metric.LAUNCHES_REFUSED, *OF_PREDICTIONS}
    plain = {(metric.value, "service", "trainyard") for metric in set(Metric) - others}
    kinds = {
        (Metric.LAUNCHES_REFUSED.value, "kind", kind.value, "service", "trainyard") for kind in RefusalKind
    }
    assert shown == plain | kinds


def test_a_dashboard_is_one_that_costs_nothing(yard: Assembly) -> None:
    for name in ("trainyard", "trainyard-patrol"):
        shown = sum(len(widget.get("metrics", [])) for widget in dashboard(yard, name))
        assert shown <= idle_cost.MOST_METRICS, name


def test_the_table_of_open_runs_is_what_patrol_logs_and_not_who_began_in_its_window(yard: Assembly) -> None:
    (table,) = (
        each for each in dashboard(yard, "trainyard") if each.get("title", "").startswith("Open runs")
    )
    assert "/trainyard/functions/patrol" in table["query"]
    assert 'message = "open run"' in table["query"]
    assert "ExecutionStarted" not in table["query"]


def test_the_runbook_says_what_a_yard_costs_while_nothing_runs(
    yard: Assembly, private_yard: Assembly
) -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    assert idle_cost.table(yard) in page, idle_cost.table(yard)
    (endpoints,) = (line for line in idle_cost.table(private_yard).splitlines() if "endpoints" in line)
    dollars = endpoints.split("|")[2].strip()
    assert f"private, in three zones, ${dollars} more" in page, dollars
