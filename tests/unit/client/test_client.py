"""The client's reading of AWS's answers and errors."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from lambdas.core.capacity.cost import bill
from tests.unit.client.facts import HOST, MACHINE, NOON, yard_of
from trainyard.client import Run, Session, Yard
from trainyard.client.errors import Denied, FileUnreadable, NoCredentials, RunNotStarted, StillRunning
from trainyard.client.jobs.source import content_of
from trainyard.client.runs.metric_points import samples_in
from trainyard.client.runs.progress import Progress, further, objective_in, progress_in
from trainyard.client.runs.records import timeline_in
from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.objective import Point
from trainyard.protocol.plan import Market
from trainyard.protocol.timeline import Entry, Source
from trainyard.values.serialization import Measure

EXECUTION = "arn:aws:states:us-east-1:123456789012:execution:trainyard-train:digits-1"


@contextmanager
def answering(service: str) -> Iterator[tuple[Yard, Stubber]]:
    boto = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    session = Session(boto)
    with Stubber(session.client(service)) as stub:
        yield yard_of(session), stub
        stub.assert_no_pending_responses()


def described(status: str, **more: Any) -> dict[str, Any]:
    return {
        "executionArn": EXECUTION,
        "stateMachineArn": MACHINE,
        "status": status,
        "startDate": NOON,
        "input": "{}",
        **more,
    }


def test_a_run_is_found_again_by_its_id() -> None:
    with answering("stepfunctions") as (yard, stub):
        run = yard.run("digits-1")
        assert (run.arn, run.id) == (EXECUTION, "digits-1")
        assert run == Run(yard, EXECUTION)
        stub.add_response("describe_execution", described("FAILED", error="NoCapacity", cause="no room"))
        execution = run.execution
        assert (execution.name, execution.is_over, execution.error) == ("digits-1", True, "NoCapacity")


def test_runs_that_are_not_admitted_yet_are_found_and_plans_are_none() -> None:
    def execution(name: str) -> dict[str, Any]:
        arn = EXECUTION.replace("digits-1", name)
        return {
            "executionArn": arn,
            "stateMachineArn": MACHINE,
            "name": name,
            "status": "RUNNING",
            "startDate": NOON,
        }

    names = ["by-hand", "digits-00000002", "digits-00000003", "digits-00000001"]
    with answering("stepfunctions") as (yard, stub):
        asked = {"stateMachineArn": MACHINE, "statusFilter": "RUNNING"}
        stub.add_response("list_executions", {"executions": [execution(name) for name in names]}, asked)
        stub.add_response(
            "describe_execution", described("RUNNING") | {"input": '{"job_key": "jobs/d.json"}'}
        )
        stub.add_response(
            "describe_execution", described("RUNNING") | {"input": '{"job_key": "jobs/d.plan.json"}'}
        )
        (found,) = yard.not_admitted({"digits-00000001"})
    assert (found.id, found.name) == ("digits-00000002", "digits")


def test_waiting_ends_with_the_time_that_was_given() -> None:
    with answering("stepfunctions") as (yard, stub):
        stub.add_response("describe_execution", described("RUNNING"))
        with pytest.raises(StillRunning, match="digits-1 is still running after 0 s"):
            yard.run("digits-1").wait(seconds=0)


def test_a_run_that_never_begins_is_told_with_where_to_look() -> None:
    with answering("stepfunctions") as (yard, stub):
        stub.add_client_error("describe_execution", "ExecutionDoesNotExist", "none")
        with pytest.raises(RunNotStarted, match=r"digits-1 has not begun within 0 s.*functions/submit"):
            yard.run("digits-1").wait_for_start(seconds=0)


def refused(code: str) -> Exception:
    """Return the error that the client raises for a call that AWS refuses with this code."""
    with answering("stepfunctions") as (yard, stub):
        stub.add_client_error("start_execution", code, "User: me is not authorized to do this.")
        with pytest.raises((Denied, NoCredentials)) as raised:
            yard.start("train", {})
        return raised.value


def test_a_denial_names_the_action() -> None:
    error = refused("AccessDeniedException")
    assert isinstance(error, Denied)
    assert error.what == "states:StartExecution was denied"
    assert str(error).startswith(
        "states:StartExecution was denied: User: me is not authorized to do this. Next: "
    )


@pytest.mark.parametrize("code", ["ExpiredToken", "UnrecognizedClientException", "AuthFailure"])
def test_credentials_that_are_not_accepted_are_another_error(code: str) -> None:
    assert isinstance(refused(code), NoCredentials)


def test_a_profile_that_is_not_there_is_named() -> None:
    with pytest.raises(NoCredentials, match="no-such-profile"):
        Session.of(profile="no-such-profile")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable, match=r"job.yaml: No such file"):
        content_of(tmp_path / "job.yaml")


def test_a_program_without_figures_has_no_progress_and_no_curve() -> None:
    assert progress_in(None) is None
    assert progress_in({"epoch": 1}) is None
    assert samples_in({"samples": [{"step": 1}, {"step": 2, "loss": 0.5}]})["loss"].curve == ((2, 0.5),)


def test_numbers_that_a_program_does_not_report_are_missing_and_not_zero() -> None:
    progress = progress_in({"step": 3, "loss": None})
    assert progress
    assert (progress.loss, progress.epoch, progress.steps_per_second) == (None, None, None)
    assert progress.numbers() == ()


def test_a_loss_that_became_nan_is_nan_and_says_since_when() -> None:
    reported = {"step": 330, "loss": "NaN", "accuracy": "Infinity", "nan_since": 320}
    progress = progress_in(reported)
    assert progress
    assert progress.numbers() == ("loss NaN since step 320", "accuracy Infinity")
    assert progress.warning == "Its loss has been NaN since step 320."
    samples = [{"step": 1, "loss": 0.5}, {"step": 320, "loss": "NaN"}]
    assert [(step, math.isnan(loss)) for step, loss in samples_in({"samples": samples})["loss"].curve] == [
        (1, False),
        (320, True),
    ]


@pytest.mark.parametrize(("told", "since"), [({}, 400), ({"nan_since": 320}, 320)])
def test_a_loss_that_became_nan_in_a_programs_last_steps_is_known_from_metrics_json(
    told: dict[str, Any], since: int
) -> None:
    ledger = progress_in({"step": 330, **told})
    written = further(ledger, progress_in({"step": 400, "loss": "NaN"}))
    assert written
    assert written.nan_since == since


def test_the_timeline_is_in_the_order_of_time_whatever_the_order_of_the_rows() -> None:
    rows = [
        Entry(at=NOON + timedelta(seconds=2), event="started", source=Source.HOST),
        Entry(at=NOON + timedelta(seconds=1), event="ready", source=Source.HOST),
    ]
    assert [event.event for event in timeline_in(rows)] == ["ready", "started"]


def test_a_host_costs_until_it_ended() -> None:
    now = NOON + timedelta(seconds=100)
    ended = replace(HOST, ended=NOON + timedelta(seconds=50))
    assert round(HOST.dollars(now), 4) == 0.01
    assert round(ended.dollars(now), 4) == 0.006, "EC2 bills a minute at least"


def test_a_host_costs_what_the_bill_of_its_run_says() -> None:
    """A host costs at least one minute, its disk, and the one-time charge of its volume."""
    host = replace(HOST, disk_gib=100, gib_month=0.08, volume_charge=0.0012)
    for seconds in (1, 59, 61, 7200):
        end = HOST.launched + timedelta(seconds=seconds)
        billed = BilledHost(
            instance=host.instance,
            type=host.type,
            zone=host.zone,
            market=Market.SPOT,
            price=host.price,
            disk_gib=100,
            gib_month=0.08,
            volume_charge=0.0012,
            launched=host.launched,
            ended=end,
        )
        assert bill([billed], now=end).dollars == pytest.approx(host.dollars(end), abs=1e-5)


def test_hosts_stand_in_the_order_of_their_roles() -> None:
    roles = ["ps 0", "worker 10", "worker 2", "evaluator 0", "chief 0", ""]
    hosts = [replace(HOST, role=role) for role in roles] + [replace(HOST, attempt=0, role="worker 1")]
    ranked = [host.role for host in sorted(hosts, key=lambda host: host.rank)]
    assert ranked == ["worker 1", "chief 0", "worker 2", "worker 10", "ps 0", "evaluator 0", ""]


def listed(number: int, day: int, **more: Any) -> dict[str, Any]:
    """Return a run's row in the form of DynamoDB's answer."""
    row = {
        "pk": f"run#digits-{number}",
        "sk": "run",
        "kind": "train",
        "state": "Launch",
        "created": f"2026-11-{day:02}T12:00:00.000Z",
        "month": "2026-11",
        "execution_arn": EXECUTION,
        **more,
    }
    return {name: {"S": value} for name, value in row.items()} | {"attempt": {"N": "1"}}


def queried(yard: Yard, months: list[list[dict[str, Any]]]) -> tuple[Stubber, list[dict[str, Any]]]:
    """Return a stub of the index with these rows for each month, and the list of queries sent to it."""
    client = yard.session.resource("dynamodb").meta.client
    asked: list[dict[str, Any]] = []
    stub = Stubber(client)
    for rows in months:
        stub.add_response("query", {"Items": rows, "Count": len(rows)})
    client.meta.events.register(
        "provide-client-params.dynamodb.Query",
        lambda params, **_: asked.append(dict(params)),
    )
    return stub, asked


def test_a_list_asks_for_one_page_of_each_month_that_it_comes_to() -> None:
    session = Session(
        boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    )
    yard = yard_of(session)
    stub, asked = queried(yard, [[], [listed(2, 3), listed(1, 2)]])
    with stub:
        found = yard.list()
        stub.assert_no_pending_responses()
    assert [run.id for run in found] == ["digits-2", "digits-1"]
    assert {each["IndexName"] for each in asked} == {"month"}
    assert not any("ConsistentRead" in each for each in asked)
    assert (found[0].arn, found[0].kind, found[0].attempt, found[0].waiting) == (EXECUTION, "train", 1, None)


def test_a_list_that_is_full_asks_for_no_earlier_month() -> None:
    session = Session(
        boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    )
    yard = yard_of(session)
    stub, asked = queried(yard, [[listed(2, 3), listed(1, 2)]])
    with stub:
        assert len(yard.list(limit=2, since=NOON - timedelta(days=900))) == 2
    assert [each["Limit"] for each in asked] == [2]


@pytest.mark.parametrize(
    ("scalars", "measures"),
    [
        ({"f1": [[1, 0.5], [2, math.inf]], "lr": []}, {"f1": ((1, 0.5), (2, math.inf))}),
        ({"f1": 0.5, "lr": [1, [2], ["3", 4], [5, "6"], [7, 8]]}, {"lr": ((7, 8.0),)}),
        (0.5, {}),
        (None, {}),
    ],
)
def test_curves_of_metrics_are_read_from_what_a_program_may_have_replaced(
    scalars: object, measures: dict[str, Any]
) -> None:
    assert {name: points.curve for name, points in samples_in({"scalars": scalars}).items()} == measures


@pytest.mark.parametrize(
    ("objective", "reported", "metrics", "found"),
    [
        ({"metric": "f1"}, Point(step=1, value=Measure(0.5)), {}, ("f1", 0.5)),
        ({"metric": "f1"}, Point(step=1, value=Measure(0.5)), {"f1": 0.75}, ("f1", 0.75)),
        ({"metric": "f1"}, None, {"f1": "high"}, None),
        ({"metric": "f1"}, None, {"accuracy": 0.5}, None),
        ({"metric": "loss"}, Point(step=1, value=Measure(0.5)), {"loss": 0.5}, None),
        (None, None, {"f1": 0.5}, None),
    ],
)
def test_the_objective_of_a_run_is_its_last_value(
    objective: object, reported: Point | None, metrics: dict[str, Any], found: tuple[str, float] | None
) -> None:
    assert objective_in({"objective": objective}, reported, metrics) == found
    assert (Progress(step=1, steps=2, objective=found).numbers() == ()) is (found is None)
