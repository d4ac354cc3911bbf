"""The yard's policies for users allow exactly the documented actions."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from tests.e2e.runs import Runs
from tests.support import quick
from trainyard.client import Yard
from trainyard.client.errors import Denied, NotPlanned
from trainyard.client.identity import event_source
from trainyard.client.session import Session
from trainyard.protocol import keys

POLICIES = {"viewer": ("Viewer",), "user": ("User",), "operator": ("User", "Operator")}


@pytest.fixture(scope="module")
def people(runs: Runs) -> Iterator[dict[str, Yard]]:
    """Return the yard as each level finds it, with its own keys."""
    session = runs.yard.session
    iam, stacks = session.client("iam"), session.client("cloudformation")
    (stack,) = stacks.describe_stacks(StackName="Trainyard-People")["Stacks"]
    arns = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    found, keys = {}, {}
    for who, policies in POLICIES.items():
        iam.create_user(UserName=who)
        for policy in policies:
            iam.attach_user_policy(UserName=who, PolicyArn=arns[f"{policy}PolicyArn"])
        key = keys[who] = iam.create_access_key(UserName=who)["AccessKey"]
        boto = boto3.Session(
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
            region_name=session.region,
        )
        found[who] = Yard.find(session=Session(boto, session.endpoint))
    yield found
    for who, policies in POLICIES.items():
        for policy in policies:
            iam.detach_user_policy(UserName=who, PolicyArn=arns[f"{policy}PolicyArn"])
        iam.delete_access_key(UserName=who, AccessKeyId=keys[who]["AccessKeyId"])
        iam.delete_user(UserName=who)


def test_a_user_trains_what_a_viewer_sees_and_an_operator_ends_a_host_of(
    runs: Runs, people: dict[str, Yard], tmp_path: Path
) -> None:
    file = tmp_path / "of-a-user.json"
    alone, steps = {"strategy": "single", "workers": 1}, {"args": quick.LONG_AT_FIRST}
    file.write_text(json.dumps(runs.job("of-a-user", cluster=alone, program=steps)))
    run = people["user"].submit(file)
    runs.until("a checkpoint in the bucket", lambda: runs.checkpoint_of(run))
    seen = people["viewer"].run(run.id)
    assert not seen.execution.is_over
    assert seen.json("job.json")["name"] == "of-a-user"
    (listed,) = (each for each in people["viewer"].list() if each.id == run.id)
    assert (listed.submitter, listed.name) == ("user", "of-a-user")
    with pytest.raises(Denied, match="states:StopExecution"):
        seen.stop(now=True)
    with pytest.raises(Denied, match="events:PutEvents"):
        seen.stop()
    ((host, tags),) = (
        (each["InstanceId"], {tag["Key"]: tag["Value"] for tag in each["Tags"]})
        for each in people["viewer"].instances(run.id)
    )
    assert tags["trainyard:submitter"] == "user"
    for who in ("viewer", "user"):
        with pytest.raises(Denied, match="ec2:TerminateInstances"):
            people[who].session.client("ec2").terminate_instances(InstanceIds=[host])
    ended = people["operator"].session.client("ec2").terminate_instances(InstanceIds=[host])
    assert ended["TerminatingInstances"][0]["CurrentState"]["Name"] in ("shutting-down", "terminated")
    finished = runs.finish(seen)
    assert finished.succeeded, finished.why()
    assert finished.summary["submitter"] == "user"


def test_a_user_stops_a_run_that_saves_and_says_who(
    runs: Runs, people: dict[str, Yard], tmp_path: Path
) -> None:
    file = tmp_path / "to-be-stopped.json"
    steps = {"args": {"steps": 40_000}}
    file.write_text(
        json.dumps(runs.job("to-be-stopped", cluster={"strategy": "single", "workers": 1}, program=steps))
    )
    run = people["user"].submit(file)
    runs.until("a checkpoint in the bucket", lambda: runs.checkpoint_of(run))
    for _ in range(2):
        run.stop()
    summary = runs.finish(run).summary
    assert (summary["outcome"], summary["error"]) == ("stopped", "Stopped"), run.why()
    assert "user has stopped the run after step" in summary["reason"]
    assert f"checkpoints.resume: {run.id}" in summary["reason"]
    assert run.execution.status == "FAILED"
    run.stop()
    assert run.summary == summary


def test_a_user_ends_a_run_at_once_and_it_is_stopped_and_says_by_whom(
    runs: Runs, people: dict[str, Yard], tmp_path: Path
) -> None:
    file = tmp_path / "to-be-ended.json"
    steps = {"args": {"steps": 40_000}}
    file.write_text(
        json.dumps(runs.job("to-be-ended", cluster={"strategy": "single", "workers": 1}, program=steps))
    )
    run = people["user"].submit(file)
    runs.until("a host", lambda: people["user"].instances(run.id))
    run.stop(now=True)
    assert run.execution.error == "Stopped"
    summary = runs.until("its summary", lambda: run.summary)
    assert (summary["outcome"], summary["error"]) == ("stopped", "Stopped"), run.why()
    assert "user has stopped the run" in summary["reason"]
    runs.until("no host is left", lambda: not runs.living())


def test_a_user_plans_a_job_of_which_no_run_comes(
    runs: Runs, people: dict[str, Yard], tmp_path: Path
) -> None:
    file = tmp_path / "to-be-planned.json"
    file.write_text(json.dumps(runs.job("to-be-planned", cluster={"strategy": "single", "workers": 1})))
    found = people["user"].plan(file)
    assert found.pools
    assert (found.gang, found.image) == (1, people["user"].image())
    assert not [each for each in people["user"].list() if each.name == "to-be-planned"]
    nowhere = {"source": "s3://BUCKET/programs/nowhere.tar.gz"}
    file.write_text(json.dumps(runs.job("to-be-planned", program=nowhere)))
    with pytest.raises(NotPlanned, match=r"(?s)JobRefused: .*program.source"):
        people["user"].plan(file)


def upload(key: str) -> Callable[[Yard], object]:
    return lambda yard: yard.bucket.put(key, b"{}")


def upload_to_own(folder: str) -> Callable[[Yard], object]:
    """Return an upload to the caller's own part of a folder."""
    return lambda yard: yard.bucket.put(f"{keys.owned(folder, yard.destination.user)}broken.json", b"{}")


def delete(key: str) -> Callable[[Yard], object]:
    return lambda yard: yard.session.client("s3").delete_object(Bucket=yard.bucket.name, Key=key)


def start(workflow: str) -> Callable[[Yard], object]:
    return lambda yard: yard.session.client("stepfunctions").start_execution(
        stateMachineArn=yard.workflows[workflow], input="{}"
    )


def request_stop(yard: Yard, source: str) -> object:
    entry = {"EventBusName": yard.bus, "Source": source, "DetailType": "stop", "Detail": '{"run": "unknown"}'}
    return yard.session.client("events").put_events(Entries=[entry])


def row(yard: Yard) -> object:
    item = {"pk": "run#mine", "sk": "run", "state": "Conclude"}
    return yard.session.resource("dynamodb").Table(yard.table).put_item(Item=item)


def point_at_another_image(yard: Yard) -> object:
    return yard.session.client("ssm").put_parameter(
        Name="/trainyard/image", Value="ami-0123456789abcdef0", Overwrite=True
    )


def command(yard: Yard) -> object:
    return yard.session.client("ssm").send_command(
        DocumentName="AWS-RunShellScript",
        Targets=[{"Key": "tag:trainyard:yard", "Values": ["trainyard"]}],
        Parameters={"commands": ["id"]},
    )


def attach_policy(yard: Yard) -> object:
    iam = yard.session.client("iam")
    return iam.attach_user_policy(UserName="viewer", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")


ACTIONS: list[tuple[str, Callable[[Yard], object], set[str]]] = [
    ("upload a job", upload_to_own(keys.JOBS), {"user", "operator"}),
    ("upload a job as another user", upload("jobs/by/root/broken.json"), set()),
    ("upload a job without a user", upload("jobs/broken.json"), set()),
    ("upload a program", upload_to_own(keys.PROGRAMS), {"user", "operator"}),
    ("upload data", upload_to_own(keys.DATA), {"user", "operator"}),
    ("replace the program of another user", upload("programs/by/root/theirs.tar.gz"), set()),
    ("delete the program of another user", delete("programs/by/root/theirs.tar.gz"), set()),
    ("upload a program without a user", upload("programs/one.zip"), set()),
    ("upload data that all users share", upload("data/one"), {"operator"}),
    ("delete data that all users share", delete("data/one"), {"operator"}),
    ("upload a recipe", upload("images/broken.json"), {"operator"}),
    ("write the summary of a run", upload("runs/mine/summary.json"), set()),
    ("start a run by hand", start("train"), {"operator"}),
    (
        "request a stop of a run",
        lambda yard: request_stop(yard, event_source(yard.session)),
        {"user", "operator"},
    ),
    ("request a stop as another user", lambda yard: request_stop(yard, "trainyard.people/root"), set()),
    ("send a signal as a host", lambda yard: request_stop(yard, "trainyard.host/AROA:i-1"), set()),
    ("launch a host without a name", start("dev-host"), {"operator"}),
    ("bake", start("bake"), {"operator"}),
    ("write the ledger", row, set()),
    ("point the yard at another image", point_at_another_image, set()),
    ("run a command on hosts", command, set()),
    ("attach another policy", attach_policy, set()),
]


@pytest.mark.parametrize(("action", "call", "allowed"), ACTIONS, ids=[action for action, _, _ in ACTIONS])
def test_each_level_may_do_what_the_page_says(
    people: dict[str, Yard], action: str, call: Callable[[Yard], object], allowed: set[str]
) -> None:
    done = set()
    for who, yard in people.items():
        try:
            call(yard)
        except Denied:
            continue
        done.add(who)
    assert done == allowed, action
