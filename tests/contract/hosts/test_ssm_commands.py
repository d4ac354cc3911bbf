"""Run Command behaves as on AWS: targets, answers, and ends of commands."""

import json
import time
from typing import Any

import pytest

from tests.contract.conftest import Cloud, allow, eventually
from tests.contract.hosts.conftest import REGISTER, Hosts, error_code, unique


def queue_of(cloud: Cloud, source: str) -> str:
    """Return a queue that receives every event of this source."""
    sqs, name = cloud.client("sqs"), unique("events")
    url = str(sqs.create_queue(QueueName=name)["QueueUrl"])
    arn = f"arn:aws:sqs:us-east-1:123456789012:{name}"
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    events = cloud.client("events")
    events.put_rule(Name=name, EventPattern=json.dumps({"source": [source]}))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    return url


def gate() -> tuple[str, str]:
    """Return a line that waits, and another that releases it."""
    path = f"/tmp/{unique('gate')}"
    return f"until [ -e {path} ]; do sleep 0.1; done", f"touch {path}"


def of_command(cloud: Cloud, queue: str, command_id: str, last: str) -> list[dict[str, Any]]:
    """Return the command's events up to the command-level status `last`."""
    heard: list[dict[str, Any]] = []

    def is_whole() -> bool:
        sqs = cloud.client("sqs")
        for message in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", []):
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            event = json.loads(message["Body"])
            if event["detail"].get("command-id") == command_id:
                heard.append(event)
        return any("Invocation" not in e["detail-type"] and e["detail"]["status"] == last for e in heard)

    eventually(is_whole)
    return heard


# --- targets ---


def test_one_unregistered_host_stops_the_whole_command(shared: Hosts, pair: list[str]) -> None:
    before = len(shared.ssm.list_commands()["Commands"])
    unknown = "i-0123456789abcdef0"
    parameters = {"commands": ["true"]}
    send = shared.ssm.send_command
    code = error_code(
        send, DocumentName="AWS-RunShellScript", InstanceIds=[*pair, unknown], Parameters=parameters
    )
    assert code == "InvalidInstanceId"
    assert len(shared.ssm.list_commands()["Commands"]) == before


def test_a_host_may_work_that_systems_manager_never_learns_of(shared: Hosts, pair: list[str]) -> None:
    known, unknown = pair
    send = shared.ssm.send_command
    document: Any = {"DocumentName": "AWS-RunShellScript", "Parameters": {"commands": ["true"]}}
    shared.cloud.command("fault", "unregister", unknown)
    try:
        listed = [
            one["InstanceId"] for one in shared.ssm.describe_instance_information()["InstanceInformationList"]
        ]
        assert known in listed
        assert unknown not in listed
        assert error_code(send, InstanceIds=[unknown], **document) == "InvalidInstanceId"
        assert unknown in shared.cloud.admin("GET", "/faults")["unregistered"]
    finally:
        shared.cloud.command("fault", "unregister", unknown, "--seconds", "0")
    assert send(InstanceIds=[unknown], **document)["Command"]["CommandId"]


def test_tags_reach_the_registered_hosts_that_have_them_and_no_other(hosts: Hosts) -> None:
    value = unique("group")
    wanted = hosts.launch(1, tags={"group": value, "kind": "a"})
    hidden = {"HttpTokens": "required", "InstanceMetadataTags": "disabled"}
    wanted += hosts.launch(1, tags={"group": value, "kind": "a"}, MetadataOptions=hidden)
    hosts.launch(1, tags={"group": value, "kind": "b"})
    targets = [{"Key": "tag:group", "Values": [value, "other"]}, {"Key": "tag:kind", "Values": ["a"]}]
    sent = hosts.ssm.send_command(
        DocumentName="AWS-RunShellScript", Targets=targets, Parameters={"commands": ["true"]}
    )["Command"]
    found = hosts.ssm.list_command_invocations(CommandId=sent["CommandId"])["CommandInvocations"]
    assert {one["InstanceId"] for one in found} == set(wanted)


def test_tags_that_no_host_has_reach_nobody(shared: Hosts) -> None:
    sent = shared.ssm.send_command(
        DocumentName="AWS-RunShellScript",
        Targets=[{"Key": "tag:nobody", "Values": ["has this"]}],
        Parameters={"commands": ["true"]},
    )["Command"]
    command = shared.ssm.list_commands(CommandId=sent["CommandId"])["Commands"][0]
    assert (command["StatusDetails"], command["TargetCount"]) == ("NoInstancesInTag", 0)


def test_a_document_that_is_not_there_is_refused(shared: Hosts, pair: list[str]) -> None:
    assert (
        error_code(shared.ssm.send_command, DocumentName="nobody-knows", InstanceIds=pair)
        == "InvalidDocument"
    )


def test_more_than_fifty_hosts_cannot_be_named(shared: Hosts) -> None:
    many = [f"i-{number:017x}" for number in range(51)]
    parameters = {"commands": ["true"]}
    send = shared.ssm.send_command
    code = error_code(send, DocumentName="AWS-RunShellScript", InstanceIds=many, Parameters=parameters)
    assert code == "ValidationException"


def test_a_role_without_the_permission_never_registers(hosts: Hosts) -> None:
    profile = hosts.make_profile(allow("s3:GetObject"))
    silent = hosts.one(IamInstanceProfile={"Name": profile})
    hosts.until(silent, "running")
    allowed = hosts.one()
    time.sleep(1)
    assert allowed in hosts.known_to_ssm()
    assert silent not in hosts.known_to_ssm()


def test_a_host_that_is_gone_is_not_listed(hosts: Hosts) -> None:
    host = hosts.one()
    hosts.terminate_all()
    eventually(lambda: host not in hosts.known_to_ssm())


def test_hosts_are_found_by_id_and_by_tag(shared: Hosts, pair: list[str]) -> None:
    look = shared.ssm.describe_instance_information
    by_id = look(Filters=[{"Key": "InstanceIds", "Values": pair[:1]}])["InstanceInformationList"]
    assert [(one["InstanceId"], one["PingStatus"]) for one in by_id] == [(pair[0], "Online")]
    name = shared.instance(pair[0])["Tags"][0]["Value"]
    by_tag = look(Filters=[{"Key": "tag:Name", "Values": [name]}])["InstanceInformationList"]
    assert {one["InstanceId"] for one in by_tag} == set(pair)
    assert by_tag[0]["AgentVersion"].startswith("3.3.")


# --- answers ---


def test_an_invocation_says_how_it_ended(shared: Hosts, pair: list[str]) -> None:
    ended = shared.over(shared.send(pair[:1], "echo out", "echo err >&2", "exit 7"), pair[0])
    assert (ended["Status"], ended["StatusDetails"], ended["ResponseCode"]) == ("Failed", "Failed", 7)
    assert ended["StandardOutputContent"] == "out\n"
    assert ended["StandardErrorContent"].startswith("err\n")


def test_the_exit_code_is_that_of_the_last_line(shared: Hosts, pair: list[str]) -> None:
    assert shared.over(shared.send(pair[:1], "false", "true"), pair[0])["ResponseCode"] == 0


def test_output_is_empty_until_the_step_has_ended(shared: Hosts, pair: list[str]) -> None:
    until_told, tell = gate()
    command = shared.send(pair[:1], "echo early", until_told)
    look = {"CommandId": command, "InstanceId": pair[0]}
    eventually(lambda: shared.ssm.get_command_invocation(**look)["Status"] == "InProgress")
    running = shared.ssm.get_command_invocation(**look)
    assert (running["StandardOutputContent"], running["ResponseCode"]) == ("", -1)
    shared.send(pair[:1], tell)
    assert shared.over(command, pair[0])["StandardOutputContent"] == "early\n"


def test_long_output_is_cut(shared: Hosts, pair: list[str]) -> None:
    command = shared.send(
        pair[:1], "head -c 100000 /dev/zero | tr '\\0' x", "head -c 20000 /dev/zero | tr '\\0' e >&2"
    )
    ended = shared.over(command, pair[0])
    assert len(ended["StandardOutputContent"]) == 24000
    assert len(ended["StandardErrorContent"]) <= 8000
    listed = shared.ssm.list_command_invocations(CommandId=command, Details=True)["CommandInvocations"]
    assert len(listed[0]["CommandPlugins"][0]["Output"]) == 2500


def test_commands_run_as_root_and_know_where(shared: Hosts, pair: list[str]) -> None:
    known = "echo $(id -u) $AWS_SSM_INSTANCE_ID $AWS_SSM_REGION_NAME"
    assert shared.run(pair[0], known) == f"0 {pair[0]} us-east-1"
    command = shared.send(pair[:1], "echo $SSM_COMMAND_ID")
    assert shared.over(command, pair[0])["StandardOutputContent"].strip() == command


def test_an_invocation_that_was_never_made_does_not_exist(shared: Hosts, pair: list[str]) -> None:
    look = shared.ssm.get_command_invocation
    unknown = "00000000-0000-0000-0000-000000000000"
    assert error_code(look, CommandId=unknown, InstanceId=pair[0]) == "InvocationDoesNotExist"
    sent = shared.send(pair[:1], "true")
    assert error_code(look, CommandId=sent, InstanceId=pair[1]) == "InvocationDoesNotExist"


def test_invocations_come_in_pages(shared: Hosts, pair: list[str]) -> None:
    command = shared.send(pair, "true")
    pages = shared.ssm.get_paginator("list_command_invocations").paginate(
        CommandId=command, PaginationConfig={"PageSize": 1}
    )
    listed = [[one["InstanceId"] for one in page["CommandInvocations"]] for page in pages]
    assert sorted(listed) == sorted([[one] for one in pair])


def test_output_goes_to_the_bucket_with_the_hosts_own_rights(hosts: Hosts) -> None:
    s3, bucket = hosts.cloud.client("s3"), unique("bucket")
    s3.create_bucket(Bucket=bucket)
    hosts.profile = hosts.make_profile(REGISTER, allow("s3:PutObject", f"arn:aws:s3:::{bucket}/runs/*"))
    host = hosts.one()

    def uploaded(prefix: str) -> list[str]:
        command = hosts.send([host], "echo hello", OutputS3BucketName=bucket, OutputS3KeyPrefix=prefix)
        assert hosts.over(command, host)["Status"] == "Success"
        found = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        return [one["Key"].replace(command, "ID") for one in found if command in one["Key"]]

    assert uploaded("elsewhere") == []
    assert uploaded("runs/1") == [f"runs/1/ID/{host}/awsrunShellScript/awsrunShellScript/stdout"]


# --- ends of commands ---


def test_cancelling_kills_what_runs(shared: Hosts, pair: list[str]) -> None:
    command = shared.send(pair, "trap '' TERM INT", "sleep 1111 & sleep 1111")
    eventually(lambda: shared.run(pair[0], "pgrep -c -x -f 'sleep 1111' || true") == "2")
    shared.ssm.cancel_command(CommandId=command)
    ended = shared.over(command, pair[0])
    assert (ended["Status"], ended["ResponseCode"]) == ("Cancelled", 137)
    assert shared.run(pair[0], "pgrep -c -x -f 'sleep 1111' || true") == "0"
    eventually(lambda: shared.ssm.list_commands(CommandId=command)["Commands"][0]["Status"] == "Cancelled")


def test_cancelling_one_host_leaves_the_others(shared: Hosts, pair: list[str]) -> None:
    until_told, tell = gate()
    command = shared.send(pair, until_told, "echo whole")
    shared.ssm.cancel_command(CommandId=command, InstanceIds=[pair[0]])
    assert shared.over(command, pair[0])["Status"] == "Cancelled"
    shared.send(pair[1:], tell)
    assert shared.over(command, pair[1])["StandardOutputContent"] == "whole\n"


def test_a_step_that_takes_too_long_is_killed(shared: Hosts, pair: list[str]) -> None:
    step = {
        "action": "aws:runShellScript",
        "name": "slow",
        "inputs": {"timeoutSeconds": "5", "runCommand": ["echo begun", "sleep 1000"]},
    }
    document = shared.document({"mainSteps": [step]})
    sent = shared.ssm.send_command(DocumentName=document, InstanceIds=pair[:1])["Command"]
    ended = shared.over(sent["CommandId"], pair[0])
    assert (ended["Status"], ended["StatusDetails"]) == ("TimedOut", "ExecutionTimedOut")
    assert ended["StandardOutputContent"] == "begun\n"


def test_a_host_that_vanishes_leaves_its_invocation_in_progress(hosts: Hosts) -> None:
    host = hosts.one()
    command = hosts.send([host], "sleep 1000")
    look = {"CommandId": command, "InstanceId": host}
    eventually(lambda: hosts.ssm.get_command_invocation(**look)["Status"] == "InProgress")
    hosts.terminate_all()
    hosts.until(host, "terminated")
    assert hosts.ssm.get_command_invocation(**look)["Status"] == "InProgress"


def test_a_host_runs_five_commands_at_a_time(shared: Hosts, pair: list[str]) -> None:
    commands = [shared.send(pair[1:], "sleep 1000") for _ in range(6)]

    def states() -> list[str]:
        found = shared.ssm.list_commands(InstanceId=pair[1])["Commands"]
        return sorted(one["Status"] for one in found if one["CommandId"] in commands)

    eventually(lambda: states() == ["InProgress"] * 5 + ["Pending"])
    shared.ssm.cancel_command(CommandId=commands[0])
    eventually(lambda: states() == ["Cancelled"] + ["InProgress"] * 5)
    for command in commands[1:]:
        shared.ssm.cancel_command(CommandId=command)
        shared.over(command, pair[1])


def test_max_concurrency_and_max_errors_hold_the_rest_back(shared: Hosts, pair: list[str]) -> None:
    command = shared.send(pair, "exit 1", MaxConcurrency="1", MaxErrors="0")
    eventually(lambda: shared.ssm.list_commands(CommandId=command)["Commands"][0]["Status"] == "Failed")
    found = shared.ssm.list_command_invocations(CommandId=command)["CommandInvocations"]
    assert sorted(one["StatusDetails"] for one in found) == ["Failed", "Terminated"]


@pytest.mark.parametrize(("lines", "status"), [(["true"], "Success"), (["exit 1"], "Failed")])
def test_every_change_of_status_is_an_event(
    shared: Hosts, pair: list[str], lines: list[str], status: str
) -> None:
    queue = queue_of(shared.cloud, "aws.ssm")
    command = shared.send(pair, *lines, MaxErrors="1")
    heard = of_command(shared.cloud, queue, command, status if status == "Success" else "Failed")
    of_hosts = [
        event for event in heard if event["detail-type"].endswith("Invocation Status-change Notification")
    ]
    for one in pair:
        own = [event["detail"]["status"] for event in of_hosts if event["detail"]["instance-id"] == one]
        assert own == ["InProgress", status]
    whole = [event for event in heard if event["detail-type"] == "EC2 Command Status-change Notification"]
    assert [event["detail"]["status"] for event in whole] == ["InProgress", status]
    assert whole[0]["detail"]["parameters"] == {"commands": lines}
    assert whole[0]["detail"]["document-name"] == "AWS-RunShellScript"
    assert of_hosts[0]["resources"][0].startswith("arn:aws:ec2:us-east-1:123456789012:instance/i-")


def test_the_history_survives_a_restart(own_cloud: Cloud) -> None:
    made = Hosts(own_cloud, "")
    made.profile = made.make_profile(REGISTER)
    host = made.one()
    command = made.send([host], "echo kept")
    made.over(command, host)
    own_cloud.down()
    own_cloud.up()
    assert made.over(command, host)["StandardOutputContent"] == "kept\n"
