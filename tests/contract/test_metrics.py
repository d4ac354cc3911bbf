"""CloudWatch's metrics: exact matches, in pages, without invented data."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow, eventually
from tests.contract.ec2.conftest import unique

NOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
HOUR = {"StartTime": NOON, "EndTime": NOON + timedelta(hours=1)}


@pytest.fixture(scope="module")
def namespace() -> str:
    return unique("Metrics")


def put(cloud: Cloud, namespace: str, value: float, minute: float, **dimensions: str) -> None:
    listed = [{"Name": name, "Value": given} for name, given in dimensions.items()]
    datum = {
        "MetricName": "busy",
        "Dimensions": listed,
        "Timestamp": NOON + timedelta(minutes=minute),
        "Value": value,
        "Unit": "Percent",
    }
    cloud.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[datum])


def query(namespace: str, name: str, period: int = 300, **dimensions: str) -> dict[str, Any]:
    listed = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    metric = {"Namespace": namespace, "MetricName": "busy", "Dimensions": listed}
    return {"Id": name, "MetricStat": {"Metric": metric, "Period": period, "Stat": "Maximum"}}


def asked(cloud: Cloud, queries: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    request = {"MetricDataQueries": queries, **HOUR, **more}
    return dict(cloud.client("cloudwatch").get_metric_data(**request))


def refused(cloud: Cloud, queries: list[dict[str, Any]], **more: Any) -> str:
    with pytest.raises(ClientError) as raised:
        asked(cloud, queries, **more)
    assert raised.value.response["Error"]["Code"] == "ValidationError"
    return str(raised.value.response["Error"]["Message"])


def minutes(result: dict[str, Any]) -> list[int]:
    return [int((at - NOON).total_seconds() // 60) for at in result["Timestamps"]]


def test_the_newest_datapoint_comes_first_unless_asked_otherwise(cloud: Cloud, namespace: str) -> None:
    for minute, value in ((1, 10.0), (2, 30.0), (11, 5.0)):
        put(cloud, namespace, value, minute, InstanceId="i-order")
    wanted = query(namespace, "order", InstanceId="i-order")
    (down,) = asked(cloud, [wanted])["MetricDataResults"]
    assert (minutes(down), down["Values"], down["StatusCode"]) == ([10, 0], [5.0, 30.0], "Complete")
    (up,) = asked(cloud, [wanted], ScanBy="TimestampAscending")["MetricDataResults"]
    assert (minutes(up), up["Values"]) == ([0, 10], [30.0, 5.0])
    assert up["Label"] == "busy"


def test_what_nobody_has_put_is_absent_and_not_zero(cloud: Cloud, namespace: str) -> None:
    put(cloud, namespace, 1.0, 5, InstanceId="i-there")
    there, gone, bare = asked(
        cloud,
        [
            query(namespace, "there", InstanceId="i-there"),
            query(namespace, "gone", InstanceId="i-gone"),
            query(namespace, "bare"),
        ],
    )["MetricDataResults"]
    assert there["Values"] == [1.0]
    assert (gone["Values"], gone["Timestamps"], gone["StatusCode"]) == ([], [], "Complete")
    assert bare["Values"] == [], "no dimensions is a metric of its own, not all of them"


def test_a_span_has_its_start_and_not_its_end(cloud: Cloud, namespace: str) -> None:
    for minute in (10, 20, 30):
        put(cloud, namespace, float(minute), minute, InstanceId="i-span")
    span = {"StartTime": NOON + timedelta(minutes=10), "EndTime": NOON + timedelta(minutes=30)}
    (found,) = asked(cloud, [query(namespace, "span", InstanceId="i-span")], **span)["MetricDataResults"]
    assert minutes(found) == [20, 10]
    rounded = {**span, "StartTime": NOON + timedelta(minutes=10, seconds=42)}
    (found,) = asked(cloud, [query(namespace, "span", InstanceId="i-span")], **rounded)["MetricDataResults"]
    assert minutes(found) == [20, 10], "the start is rounded down to the minute"


def test_pages_give_every_datapoint_once(cloud: Cloud, namespace: str) -> None:
    for host in range(3):
        for minute in range(4):
            put(cloud, namespace, float(10 * host + minute), 15 * minute, InstanceId=f"i-page{host}")
    queries = [query(namespace, f"q{host}", 60, InstanceId=f"i-page{host}") for host in range(3)]
    seen: dict[str, list[float]] = {}
    pages = []
    for page in (
        cloud.client("cloudwatch")
        .get_paginator("get_metric_data")
        .paginate(
            MetricDataQueries=[*queries, query(namespace, "none", InstanceId="i-none")],
            PaginationConfig={"PageSize": 5},
            **HOUR,
        )
    ):
        pages.append([(r["Id"], r["StatusCode"]) for r in page["MetricDataResults"]])
        for result in page["MetricDataResults"]:
            seen.setdefault(result["Id"], []).extend(result["Values"])
    assert seen == {
        "q0": [3.0, 2.0, 1.0, 0.0], "q1": [13.0, 12.0, 11.0, 10.0], "q2": [23.0, 22.0, 21.0, 20.0], "none": [],
    }  # fmt: skip
    assert pages == [
        [("q0", "Complete"), ("q1", "PartialData")],
        [("q1", "Complete"), ("q2", "PartialData")],
        [("q2", "Complete"), ("none", "Complete")],
    ]


def test_five_hundred_queries_go_in_one_request_and_no_more(cloud: Cloud, namespace: str) -> None:
    for host in (0, 499):
        put(cloud, namespace, float(host), 30, InstanceId=f"i-{host:017x}")
    queries = [query(namespace, f"host{n}", InstanceId=f"i-{n:017x}") for n in range(500)]
    results = asked(cloud, queries)["MetricDataResults"]
    assert [result["Id"] for result in results] == [wanted["Id"] for wanted in queries]
    assert {result["Id"]: result["Values"] for result in results if result["Values"]} == {
        "host0": [0.0],
        "host499": [499.0],
    }
    one_more = query(namespace, "host500", InstanceId="i-500")
    assert "500" in refused(cloud, [*queries, one_more])


def test_a_query_that_cannot_be_answered_is_refused(cloud: Cloud, namespace: str) -> None:
    good = query(namespace, "good")
    assert "pattern" in refused(cloud, [query(namespace, "i-0123")])
    assert "unique" in refused(cloud, [good, good])
    assert "multiple of 60" in refused(cloud, [query(namespace, "odd", 90)])
    assert "less than" in refused(cloud, [good], EndTime=NOON)
    assert "expressions" in refused(cloud, [{"Id": "math", "Expression": "good * 2"}, good])


def test_statistics_are_those_of_one_metric(cloud: Cloud, namespace: str) -> None:
    for value, host in ((1.0, "i-one"), (3.0, "i-one"), (100.0, "i-two")):
        put(cloud, namespace, value, 7, InstanceId=host)
    answer = cloud.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName="busy",
        Dimensions=[{"Name": "InstanceId", "Value": "i-one"}],
        Period=300,
        Statistics=["Average", "Maximum", "SampleCount"],
        **HOUR,
    )
    (point,) = answer["Datapoints"]
    assert (point["Average"], point["Maximum"], point["SampleCount"]) == (2.0, 3.0, 2.0)
    assert (point["Unit"], minutes({"Timestamps": [point["Timestamp"]]})) == ("Percent", [5])


def test_reading_needs_a_permission(cloud: Cloud, namespace: str) -> None:
    client = cloud.client("cloudwatch", cloud.acting_as(allow("cloudwatch:GetMetricData")))
    client.get_metric_data(MetricDataQueries=[query(namespace, "q")], **HOUR)
    stranger = cloud.client("cloudwatch", cloud.acting_as(allow("cloudwatch:PutMetricData")))
    with pytest.raises(ClientError, match="GetMetricData"):
        stranger.get_metric_data(MetricDataQueries=[query(namespace, "q")], **HOUR)


def test_a_state_machine_reads_metrics_too(cloud: Cloud, namespace: str) -> None:
    put(cloud, namespace, 42.0, 30, InstanceId="i-machine")
    ask = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:cloudwatch:getMetricData",
        "Arguments": {
            "MetricDataQueries": [query(namespace, "q", InstanceId="i-machine")],
            **{name: at.isoformat().replace("+00:00", "Z") for name, at in HOUR.items()},
        },
        "Output": "{% $states.result.MetricDataResults[0].Values %}",
        "End": True,
    }
    machine = cloud.machine({"StartAt": "Ask", "States": {"Ask": ask}}, allow("cloudwatch:GetMetricData"))
    ended = cloud.run(machine)
    assert ended["status"] == "SUCCEEDED", ended
    assert "42" in ended["output"]


# ------------------------------------------------------------------------------------- metrics of services


def total(cloud: Cloud, namespace: str, name: str, **dimensions: str) -> float | None:
    """Return the sum of the last hour, or None without data."""
    now = datetime.now(UTC)
    points = cloud.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["Sum"],
    )["Datapoints"]
    return sum(point["Sum"] for point in points) if points else None


PRINTS = """
import json, time

def handler(event, context):
    metrics = [{"Name": "HostsLaunched", "Unit": "Count"}]
    directive = {"Namespace": event["namespace"], "Dimensions": [["service"], ["service", "kind"]], "Metrics": metrics}
    told = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    print(json.dumps({"_aws": told, "service": "yard", "kind": "spot", "HostsLaunched": [2.0, 1.0], "run": "r-1"}))
    print(json.dumps({"service": "yard", "HostsLaunched": 100}))
"""


def test_a_line_that_a_function_prints_in_the_embedded_metric_format_is_a_metric(
    cloud: Cloud, namespace: str
) -> None:
    function = cloud.function(PRINTS)
    cloud.client("lambda").invoke(FunctionName=function, Payload=json.dumps({"namespace": namespace}))
    eventually(lambda: total(cloud, namespace, "HostsLaunched", service="yard") == 3.0)
    assert total(cloud, namespace, "HostsLaunched", service="yard", kind="spot") == 3.0
    assert total(cloud, namespace, "HostsLaunched") is None, "only in the sets of dimensions that it names"


def test_a_log_event_against_the_format_is_no_metric_and_is_counted(cloud: Cloud, namespace: str) -> None:
    logs, group = cloud.client("logs"), f"/contract/{unique('embedded')}"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="it")
    directive = {"Namespace": namespace, "Dimensions": [["zone"]], "Metrics": [{"Name": "Lines"}]}
    stamp = int(datetime.now(UTC).timestamp() * 1000)
    metadata = {"Timestamp": stamp, "CloudWatchMetrics": [directive]}
    long_ago = metadata | {"Timestamp": stamp - 15 * 24 * 3600 * 1000}
    good = {"_aws": metadata, "zone": "a", "Lines": 4}
    lines = [
        json.dumps(good),
        json.dumps(good | {"zone": 7}),
        json.dumps(good | {"Lines": "four"}),
        json.dumps(good | {"_aws": long_ago}),
        "see " + json.dumps(good),
    ]
    events = [{"timestamp": stamp, "message": line} for line in lines]
    logs.put_log_events(logGroupName=group, logStreamName="it", logEvents=events)
    assert total(cloud, namespace, "Lines", zone="a") == 4.0
    assert total(cloud, "AWS/Logs", "EMFValidationErrors", LogGroupName=group) == 3.0
    assert total(cloud, "AWS/Logs", "EMFParsingErrors", LogGroupName=group) == 1.0


def test_an_invocation_is_counted_whoever_has_called(cloud: Cloud) -> None:
    sound = cloud.function("def handler(event, context): return {}")
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{sound}"
    call = {"Type": "Task", "Resource": arn, "End": True}
    machine = cloud.machine({"StartAt": "Call", "States": {"Call": call}}, allow("lambda:InvokeFunction"))
    assert cloud.run(machine)["status"] == "SUCCEEDED"
    cloud.client("lambda").invoke(FunctionName=sound)
    assert total(cloud, "AWS/Lambda", "Invocations", FunctionName=sound) == 2.0
    assert total(cloud, "AWS/Lambda", "Errors", FunctionName=sound) == 0.0
    assert (total(cloud, "AWS/Lambda", "Duration", FunctionName=sound) or 0) > 0
    events = cloud.client("events")
    rule = events.put_rule(Name=unique("rule"), EventPattern=json.dumps({"source": [sound]}))["RuleArn"]
    events.put_targets(Rule=rule.rpartition("/")[2], Targets=[{"Id": "it", "Arn": arn}])
    cloud.client("lambda").add_permission(
        FunctionName=sound,
        StatementId="rule",
        Action="lambda:InvokeFunction",
        Principal="events.amazonaws.com",
        SourceArn=rule,
    )
    events.put_events(Entries=[{"Source": sound, "DetailType": "test", "Detail": "{}"}])
    eventually(lambda: total(cloud, "AWS/Lambda", "Invocations", FunctionName=sound) == 3.0)
    failing = cloud.function("def handler(event, context): raise ValueError('always')")
    cloud.client("lambda").invoke(FunctionName=failing, InvocationType="Event")
    eventually(lambda: total(cloud, "AWS/Lambda", "Errors", FunctionName=failing) == 3.0)
    assert total(cloud, "AWS/Lambda", "Invocations", FunctionName=failing) == 3.0


def test_executions_are_counted_by_how_they_end(cloud: Cloud) -> None:
    states = {
        "Which": {
            "Type": "Choice",
            "Choices": [{"Condition": "{% $states.input.how = 'fail' %}", "Next": "Fail"}],
            "Default": "Wait",
        },
        "Fail": {"Type": "Fail", "Error": "No"},
        "Wait": {"Type": "Wait", "Seconds": "{% $states.input.seconds %}", "Next": "End"},
        "End": {"Type": "Succeed"},
    }
    machine = cloud.machine({"StartAt": "Which", "States": states})
    assert cloud.run(machine, how="succeed", seconds=0)["status"] == "SUCCEEDED"
    assert cloud.run(machine, how="fail")["status"] == "FAILED"
    cloud.client("stepfunctions").stop_execution(executionArn=cloud.start(machine, how="wait", seconds=600))
    counted = {
        how: total(cloud, "AWS/States", f"Executions{how}", StateMachineArn=machine)
        for how in ("Started", "Succeeded", "Failed", "Aborted", "TimedOut")
    }
    assert counted == {"Started": 3.0, "Succeeded": 1.0, "Failed": 1.0, "Aborted": 1.0, "TimedOut": None}


# -------------------------------------------------------------------------------------------------------------- alarms


def alarm(cloud: Cloud, namespace: str, name: str, metric: str, *, below: bool = False, **more: Any) -> str:
    """Create an alarm on the metric's five-minute sum for `service` = `name`. Return its name."""
    named = unique(name)
    settings = {
        "AlarmName": named,
        "Namespace": namespace,
        "MetricName": metric,
        "Dimensions": [{"Name": "service", "Value": name}],
        "Statistic": "Sum",
        "Period": 300,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
        "ComparisonOperator": "LessThanThreshold" if below else "GreaterThanOrEqualToThreshold",
    }
    cloud.client("cloudwatch").put_metric_alarm(**settings, **more)
    return named


def state(cloud: Cloud, name: str) -> str:
    (found,) = cloud.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return str(found["StateValue"])


def told(cloud: Cloud, namespace: str, metric: str, service: str, value: float) -> None:
    dimensions = [{"Name": "service", "Value": service}]
    datum = {"MetricName": metric, "Dimensions": dimensions, "Value": value}
    cloud.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[datum])


def test_an_alarm_looks_at_its_own_dimensions_alone(cloud: Cloud, namespace: str) -> None:
    mine = alarm(cloud, namespace, "mine", "Failures", TreatMissingData="notBreaching")
    yours = alarm(cloud, namespace, "yours", "Failures", TreatMissingData="notBreaching")
    told(cloud, namespace, "Failures", "mine", 1.0)
    eventually(lambda: state(cloud, mine) == "ALARM")
    eventually(lambda: state(cloud, yours) == "OK")


def test_an_alarm_takes_what_is_missing_as_it_is_told(cloud: Cloud, namespace: str) -> None:
    kinds = {"breaching": "ALARM", "notBreaching": "OK", "missing": "INSUFFICIENT_DATA"}
    names = {
        kind: alarm(cloud, namespace, kind, "Silence", below=True, TreatMissingData=kind) for kind in kinds
    }
    eventually(lambda: {kind: state(cloud, name) for kind, name in names.items()} == kinds)
    told(cloud, namespace, "Silence", "breaching", 1.0)
    eventually(lambda: state(cloud, names["breaching"]) == "OK")


def test_an_alarm_on_an_expression_is_refused_and_not_kept_without_one(cloud: Cloud, namespace: str) -> None:
    parts = [query(namespace, "a", InstanceId="i-a"), {"Id": "b", "Expression": "a * 2", "ReturnData": True}]
    named = unique("math")
    with pytest.raises(ClientError, match="expressions"):
        cloud.client("cloudwatch").put_metric_alarm(
            AlarmName=named,
            Metrics=parts,
            EvaluationPeriods=1,
            Threshold=1.0,
            ComparisonOperator="GreaterThanThreshold",
        )
    assert cloud.client("cloudwatch").describe_alarms(AlarmNames=[named])["MetricAlarms"] == []
