"""The command line: up, down, status, env; persistence; and certain ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, allow, eventually, free_port
from tests.contract.processes import processes_of, server_of


def furnish(cloud: Cloud) -> dict[str, Any]:
    """Create one resource of each kind that a restart must keep."""
    cloud.client("s3").create_bucket(Bucket="kept")
    cloud.client("s3").put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    version = cloud.client("s3").put_object(Bucket="kept", Key="a/b", Body=b"bytes")["VersionId"]
    cloud.client("dynamodb").create_table(
        TableName="kept",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    cloud.client("dynamodb").put_item(TableName="kept", Item={"pk": {"S": "1"}, "n": {"N": "7"}})
    cloud.client("ssm").put_parameter(Name="/kept", Value="v", Type="String")
    vpc = cloud.client("ec2").create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    function = cloud.function("def handler(event, context): return 'still here'")
    machine = cloud.machine({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
    execution = cloud.start(machine)
    assert cloud.end_of(execution)["status"] == "SUCCEEDED"
    role = cloud.acting_as(allow("ssm:GetParameter", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/kept"))
    return {"version": version, "vpc": vpc, "function": function, "execution": execution, "role": role}


def assert_furnished(cloud: Cloud, made: dict[str, Any]) -> None:
    found = cloud.client("s3").get_object(Bucket="kept", Key="a/b")
    assert (found["Body"].read(), found["VersionId"]) == (b"bytes", made["version"])
    item = cloud.client("dynamodb").get_item(TableName="kept", Key={"pk": {"S": "1"}})["Item"]
    assert item["n"] == {"N": "7"}
    assert cloud.client("ssm").get_parameter(Name="/kept")["Parameter"]["Value"] == "v"
    vpcs = cloud.client("ec2").describe_vpcs(VpcIds=[made["vpc"]])["Vpcs"]
    assert vpcs[0]["CidrBlock"] == "10.77.0.0/16"
    answer = cloud.client("lambda").invoke(FunctionName=made["function"], Payload="{}")
    assert json.load(answer["Payload"]) == "still here"
    ended = cloud.client("stepfunctions").describe_execution(executionArn=made["execution"])
    assert ended["status"] == "SUCCEEDED"
    role: Credentials = made["role"]
    assert cloud.client("ssm", role).get_parameter(Name="/kept")["Parameter"]["Value"] == "v"


def test_everything_is_there_after_down_and_up(own_cloud: Cloud) -> None:
    made = furnish(own_cloud)
    own_cloud.down()
    own_cloud.up()
    assert_furnished(own_cloud, made)


def test_everything_is_there_after_the_server_was_killed(own_cloud: Cloud) -> None:
    made = furnish(own_cloud)
    eventually(lambda: own_cloud.admin("GET", "/status")["unwritten"] is False)
    os.kill(server_of(own_cloud.state), signal.SIGKILL)
    eventually(lambda: not processes_of(own_cloud.state))
    own_cloud.up()
    assert_furnished(own_cloud, made)


def test_an_execution_that_was_running_has_failed_after_a_restart(own_cloud: Cloud) -> None:
    wait = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}
    execution = own_cloud.start(own_cloud.machine(wait))
    own_cloud.down()
    own_cloud.up()
    found = own_cloud.client("stepfunctions").describe_execution(executionArn=execution)
    assert found["status"] == "FAILED"


def test_whoever_listens_is_told_of_an_execution_that_a_restart_has_ended(own_cloud: Cloud) -> None:
    sqs, events = own_cloud.client("sqs"), own_cloud.client("events")
    url = sqs.create_queue(QueueName="ended")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    send = allow("sqs:SendMessage") | {"Principal": {"Service": "events.amazonaws.com"}}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [send]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    pattern = {"source": ["aws.states"], "detail": {"status": ["FAILED"]}}
    events.put_rule(Name="ended", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="ended", Targets=[{"Id": "queue", "Arn": arn}])
    wait = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}
    execution = own_cloud.start(own_cloud.machine(wait))
    own_cloud.down()
    own_cloud.up()
    [told] = eventually(lambda: sqs.receive_message(QueueUrl=url).get("Messages"))
    detail = json.loads(told["Body"])["detail"]
    assert (detail["executionArn"], detail["error"]) == (execution, "States.ServiceRestart")
    history = own_cloud.client("stepfunctions").get_execution_history(executionArn=execution)["events"]
    assert history[-1]["type"] == "ExecutionFailed"


def test_down_leaves_no_process_and_may_be_repeated(own_cloud: Cloud) -> None:
    function = own_cloud.function("def handler(event, context): return 1")
    own_cloud.client("lambda").invoke(FunctionName=function, Payload="{}")
    assert "is down" in own_cloud.command("down").stdout
    assert processes_of(own_cloud.state) == []
    assert "was not up" in own_cloud.command("down").stdout


def test_killing_the_supervisor_ends_everything(own_cloud: Cloud) -> None:
    supervisor = json.loads((own_cloud.state / "supervisor.json").read_text())["supervisor"]
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not processes_of(own_cloud.state))
    own_cloud.up()
    assert own_cloud.command("status").returncode == 0


def test_killing_init_ends_everything_and_down_is_fine_afterwards(own_cloud: Cloud) -> None:
    os.kill(json.loads((own_cloud.state / "supervisor.json").read_text())["init"], signal.SIGKILL)
    eventually(lambda: not processes_of(own_cloud.state))
    assert "was not up" in own_cloud.command("down").stdout
    own_cloud.up()
    assert own_cloud.command("status").returncode == 0


def test_two_clouds_are_strangers_and_a_state_folder_may_have_spaces(cloud: Cloud, tmp_path: Path) -> None:
    other = Cloud(tmp_path / "a state with spaces", free_port())
    other.up()
    try:
        other.client("s3").create_bucket(Bucket="of-the-other")
        names = [bucket["Name"] for bucket in cloud.client("s3").list_buckets()["Buckets"]]
        assert "of-the-other" not in names
        image = other.client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        run = other.client("ec2").run_instances(
            ImageId=image, InstanceType="t3.micro", MinCount=1, MaxCount=1
        )
        host = run["Instances"][0]["InstanceId"]
        other.client("ec2").get_waiter("instance_running").wait(InstanceIds=[host])
    finally:
        other.down()
    assert cloud.command("status").returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that creates a folder on a separate disk of this size in MB."""
    folder = tmp_path / "small"
    folder.mkdir()

    def make(megabytes: int) -> Path:
        size = f"size={megabytes}m"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True)
        if done.returncode != 0:
            pytest.skip(f"needs the right to mount: {done.stderr.decode().strip()}")
        return folder

    yield make
    subprocess.run(["umount", str(folder)], check=False, capture_output=True)


def test_a_full_disk_is_said_where_it_hurts(small_disk: Callable[[int], Path]) -> None:
    cloud = Cloud(small_disk(20), free_port())
    cloud.up()
    try:
        cloud.client("s3").create_bucket(Bucket="large")
        filler = cloud.state / "filler"
        try:
            filler.write_bytes(bytes(20 << 20))
        except OSError:
            pass  # full, as intended
        with pytest.raises(ClientError, match="No space left on device") as refused:
            cloud.client("s3").put_object(Bucket="large", Key="object", Body=bytes(1 << 20))
        assert refused.value.response["Error"]["Code"] == "InsufficientStorage"
        eventually(lambda: json.loads(cloud.command("status", "--json").stdout)["not_saved"])
        filler.unlink()
        cloud.client("s3").put_object(Bucket="large", Key="object", Body=b"small")
        eventually(lambda: not json.loads(cloud.command("status", "--json").stdout)["not_saved"])
    finally:
        cloud.down()


def test_it_does_not_start_where_it_cannot_live(tmp_path: Path, small_disk: Callable[[int], Path]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "settings.yaml").write_text("latencys: {boot: 1}")
    settings = ["--settings", str(tmp_path / "settings.yaml")]
    for state, more, said in (
        (tmp_path / "file", [], "is a file"),
        (tmp_path / "state", settings, "latencys: not a setting of the local cloud"),
        (small_disk(8), [], "8 MB left"),
    ):
        refused = Cloud(state, free_port()).command("up", "--detach", *more, check=False)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_server_that_hangs_is_ended_too(own_cloud: Cloud) -> None:
    os.kill(server_of(own_cloud.state), signal.SIGSTOP)
    own_cloud.down()
    assert processes_of(own_cloud.state) == []


def test_status_and_env_speak_of_the_running_cloud(cloud: Cloud) -> None:
    assert cloud.endpoint in cloud.command("status").stdout
    lines = cloud.command("env").stdout
    assert f"export AWS_ENDPOINT_URL={cloud.endpoint}" in lines
    assert f"export AWS_REGION={REGION}" in lines
    platform = json.loads(cloud.command("status", "--json").stdout)["platform"]
    assert f"export CDK_FUNCTIONS_PLATFORM={platform}" in lines
    assert cloud.client("sts").get_caller_identity()["Account"] == ACCOUNT


def test_a_second_cloud_is_refused_on_the_same_state_or_port(cloud: Cloud, tmp_path: Path) -> None:
    again = cloud.command("up", "--detach", "--port", str(free_port()), check=False)
    assert again.returncode == 1
    assert "already up" in again.stderr
    other = Cloud(tmp_path / "other", cloud.port)
    refused = other.command("up", "--detach", "--port", str(cloud.port), check=False)
    assert refused.returncode == 1
    assert f"127.0.0.1:{cloud.port} is in use" in refused.stderr


def test_what_needs_a_running_cloud_says_how_to_start_one(tmp_path: Path) -> None:
    nothing = Cloud(tmp_path / "none", 1)
    for command in (("status",), ("env",), ("fault", "clear")):
        refused = nothing.command(*command, check=False)
        assert refused.returncode == 1
        assert "up --detach" in refused.stderr


@pytest.mark.parametrize(
    ("service", "call", "given"),
    [
        ("polly", "describe_voices", {}),
        ("glacier", "list_vaults", {"accountId": "-"}),
        ("cloudsearch", "describe_domains", {}),
    ],
)
def test_a_service_that_is_not_there_is_named(
    cloud: Cloud, service: str, call: str, given: dict[str, str]
) -> None:
    with pytest.raises(ClientError, match=f"no service '{service}'") as refused:
        getattr(cloud.client(service), call)(**given)
    assert refused.value.response["Error"]["Code"] == "UnsupportedOperation"


def test_functions_and_the_user_reach_the_same_endpoint_from_different_networks(cloud: Cloud) -> None:
    code = """
    import socket, boto3

    def handler(event, context):
        names = [name for _, name in socket.if_nameindex()]
        return [boto3.client("sts").get_caller_identity()["Account"], "eth0" in names]
    """
    answer = cloud.client("lambda").invoke(FunctionName=cloud.function(code), Payload="{}")
    assert json.load(answer["Payload"]) == [ACCOUNT, False]
