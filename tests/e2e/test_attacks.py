"""Attacks by users with the yard's policies, by a run's credentials, and by a program on its host.

Each line is one attack: its name, the call, and the levels that may make the call. All other levels are refused.
"""
# ruff: noqa: E501 - one attack, one line

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.published import script
from tests.e2e.runs import Runs
from tests.e2e.users import person
from tests.support import quick
from trainyard.client import Yard
from trainyard.client.errors import Denied
from trainyard.client.session import Session

TRIED = re.compile(r"attack: (.*): (\w[\w ]*)$", re.MULTILINE)
PEOPLE = ("viewer", "user", "operator")
REFUSED = (
    "AccessDenied",
    "AccessDeniedException",
    "UnauthorizedOperation",
    "AuthorizationError",
    "AccessDeniedFault",
)
NO_ROLE: frozenset[str] = frozenset()
OPERATOR = frozenset({"operator"})
HOST, AMI = "i-0123456789abcdef0", "ami-0123456789abcdef0"
Attack = Callable[[Yard], object]


@pytest.fixture(scope="module")
def people(runs: Runs) -> Iterator[dict[str, Yard]]:
    """Return the yard as each level finds it; `grace` is an operator."""
    found = {}
    with (
        person(runs, "viewer", "mallory-viewer") as viewer,
        person(runs, "user", "mallory-user") as user,
        person(runs, "operator", "grace") as operator,
    ):
        for who, environment in zip(PEOPLE, (viewer, user, operator), strict=True):
            boto = boto3.Session(
                aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
                region_name=runs.yard.session.region,
            )
            found[who] = Yard.find(session=Session(boto, runs.yard.session.endpoint))
        yield found


def call(service: str, operation: str, **given: Any) -> Attack:
    """Return an attack by one call of AWS. Values such as `{bucket}` stand for the yard's."""

    def act(yard: Yard) -> object:
        return getattr(yard.session.client(service), operation)(**_filled(given, yard))

    return act


def _filled(value: Any, yard: Yard) -> Any:
    match value:
        case str():
            arn = f"arn:aws:%s:{yard.session.region}:{yard.account}"
            known = {
                "{bucket}": yard.bucket.name,
                "{table}": yard.table,
                "{bus}": yard.bus,
                "{topic}": yard.topic,
                "{function}": f"{arn % 'lambda'}:function:trainyard",
                "{role}": f"arn:aws:iam::{yard.account}:role",
                "{execution}": f"{arn % 'states'}:execution:trainyard",
                **{f"{{{word}}}": machine for word, machine in yard.workflows.items()},
            }
            for word, meant in known.items():
                value = value.replace(word, meant)
            return value
        case dict():
            return {key: _filled(each, yard) for key, each in value.items()}
        case list():
            return [_filled(each, yard) for each in value]
        case _:
            return value


def say(*sources: str, bus: str = "{bus}") -> Attack:
    """Return an attack that sends events of several sources in one call. `ME` stands for the user's own name."""

    def act(yard: Yard) -> object:
        me = yard.session.client("sts").get_caller_identity()["Arn"].rpartition("/")[2]
        entry = {"EventBusName": _filled(bus, yard), "DetailType": "stop", "Detail": '{"run": "nobodys"}'}
        entries = [{**entry, "Source": source.replace("ME", me)} for source in sources]
        return yard.session.client("events").put_events(Entries=entries)

    return act


def tag(key: str, value: str = "2099-01-01T00:00:00.000Z") -> Attack:
    return call("ec2", "create_tags", Resources=[HOST], Tags=[{"Key": key, "Value": value}])


MINE, THEIRS = "jobs/by/${aws:username}/x.json", "jobs/by/ada/x.json"
BY_PEOPLE: list[tuple[str, Attack, frozenset[str]]] = [
    # ------------------------------------------------------------------------------------------- in another's name
    ("an event in patrol's name behind the user's own", say("trainyard.people/ME", "trainyard.patrol"), NO_ROLE),
    ("an event in patrol's name before the user's own", say("trainyard.patrol", "trainyard.people/ME"), NO_ROLE),
    ("an event in ada's name among ten of the user's own", say(*["trainyard.people/ME"] * 9, "trainyard.people/ada"), NO_ROLE),
    ("an event of a host beside the user's own", say("trainyard.people/ME", "trainyard.host/AROA:i-1"), NO_ROLE),
    ("an event with the user's name in capitals", say("Trainyard.people/ME"), NO_ROLE),
    ("an event with more after the user's name", say("trainyard.people/MEx"), NO_ROLE),
    ("an event of all people", say("trainyard.people/*"), NO_ROLE),
    ("an event on the account's bus", say("trainyard.people/ME", bus="default"), NO_ROLE),
    ("a job in parts in ada's folder", call("s3", "create_multipart_upload", Bucket="{bucket}", Key=THEIRS), NO_ROLE),
    ("another program under the name of ada's", call("s3", "put_object", Bucket="{bucket}", Key="programs/by/ada/x.tar.gz", Body=b"x"), NO_ROLE),
    ("another program for ada, in parts", call("s3", "create_multipart_upload", Bucket="{bucket}", Key="programs/by/ada/x.tar.gz"), NO_ROLE),
    ("ada's program deleted", call("s3", "delete_object", Bucket="{bucket}", Key="programs/by/ada/x.tar.gz"), NO_ROLE),
    ("a program in a folder whose name begins like the user's", call("s3", "put_object", Bucket="{bucket}", Key="programs/by/mallory-users/x", Body=b"x"), NO_ROLE),
    ("other data under the name of ada's", call("s3", "put_object", Bucket="{bucket}", Key="data/by/ada/x", Body=b"x"), OPERATOR),
    ("a job in a folder called like a pattern", call("s3", "put_object", Bucket="{bucket}", Key=MINE, Body=b"{}"), NO_ROLE),
    ("a job beside all folders", call("s3", "put_object", Bucket="{bucket}", Key="jobs/by//x.json", Body=b"{}"), NO_ROLE),
    ("ada's job copied into a run", call("s3", "copy_object", Bucket="{bucket}", Key="runs/x/job.json", CopySource="{bucket}/jobs/x"), NO_ROLE),
    ("a run by hand of ada's job", call("stepfunctions", "start_execution", stateMachineArn="{train}", input=json.dumps({"job_key": THEIRS})), OPERATOR),
    ("a launch by hand", call("stepfunctions", "start_execution", stateMachineArn="{dev-host}", input='{"latest": "nobodys", "hold_hours": 720}'), OPERATOR),
    ("ada's dev host by hand", call("stepfunctions", "start_execution", stateMachineArn="{dev-host}", input='{"dev": "adas"}'), OPERATOR),
    # ------------------------------------------------------------------------------------------- hosts and their caps
    ("a hold of a run's host", tag("trainyard:hold"), NO_ROLE),
    ("the cap of a host", tag("trainyard:cap"), NO_ROLE),
    ("a host in the user's own name", tag("trainyard:submitter", "mallory-user"), NO_ROLE),
    ("a run's host as a dev host", tag("trainyard:dev", "mine"), NO_ROLE),
    ("a longer lease", tag("trainyard:lease"), NO_ROLE),
    ("a host of no yard", call("ec2", "delete_tags", Resources=[HOST], Tags=[{"Key": "trainyard:yard"}]), NO_ROLE),
    ("a host without the yard", call("ec2", "run_instances", ImageId=AMI, MinCount=1, MaxCount=1, InstanceType="p5.48xlarge"), NO_ROLE),
    ("hosts by a fleet", call("ec2", "create_fleet", LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-0123456789abcdef0", "Version": "1"}}], TargetCapacitySpecification={"TotalTargetCapacity": 1}), NO_ROLE),
    ("other user data", call("ec2", "modify_instance_attribute", InstanceId=HOST, UserData={"Value": b"id"}), NO_ROLE),
    ("an image of a run's host", call("ec2", "create_image", InstanceId=HOST, Name="theirs"), NO_ROLE),
    ("another role for a host", call("ec2", "associate_iam_instance_profile", InstanceId=HOST, IamInstanceProfile={"Name": "admin"}), NO_ROLE),
    ("a command on a host", call("ssm", "send_command", InstanceIds=[HOST], DocumentName="AWS-RunShellScript", Parameters={"commands": ["id"]}), NO_ROLE),
    ("an order to a host", call("ssm", "send_command", InstanceIds=[HOST], DocumentName="trainyard-stop"), NO_ROLE),
    # ------------------------------------------------------------------------------------------- the ledger and secrets
    ("the whole ledger", call("dynamodb", "scan", TableName="{table}"), NO_ROLE),
    ("a row by PartiQL", call("dynamodb", "execute_statement", Statement="""INSERT INTO "{table}" VALUE {'pk': 'x', 'sk': 'y'}"""), NO_ROLE),
    ("a claim deleted", call("dynamodb", "delete_item", TableName="{table}", Key={"pk": {"S": "open"}, "sk": {"S": "x"}}), NO_ROLE),
    ("the month's money", call("dynamodb", "transact_write_items", TransactItems=[{"Delete": {"TableName": "{table}", "Key": {"pk": {"S": "patrol"}, "sk": {"S": "money"}}}}]), NO_ROLE),
    ("rows in bulk", call("dynamodb", "batch_write_item", RequestItems={"{table}": [{"DeleteRequest": {"Key": {"pk": {"S": "counters"}, "sk": {"S": "given"}}}}]}), NO_ROLE),
    ("a secret of the yard", call("ssm", "get_parameter", Name="/trainyard/secrets/hub", WithDecryption=True), NO_ROLE),
    ("secrets in bulk", call("ssm", "get_parameters_by_path", Path="/trainyard/secrets", WithDecryption=True), NO_ROLE),
    ("a secret's history", call("ssm", "get_parameter_history", Name="/trainyard/secrets/hub", WithDecryption=True), NO_ROLE),
    ("a host's credentials", call("s3", "get_object", Bucket="{bucket}", Key="credentials/AROA:i-1.json"), NO_ROLE),
    ("where the yard is", call("ssm", "put_parameter", Name="/trainyard/yard", Value="{}", Overwrite=True), NO_ROLE),
    # ------------------------------------------------------------------------------------------- the yard itself
    ("a forged event to signal", call("lambda", "invoke", FunctionName="trainyard-signal", Payload=b"{}"), NO_ROLE),
    ("other code for admit", call("lambda", "update_function_code", FunctionName="trainyard-dev-host-admit", ZipFile=b"x"), NO_ROLE),
    ("other limits for admit", call("lambda", "update_function_configuration", FunctionName="trainyard-dev-host-admit", Environment={"Variables": {"MOST_HOSTS": "0"}}), NO_ROLE),
    ("patrol's rule", call("events", "disable_rule", Name="trainyard-patrol"), NO_ROLE),
    ("another workflow", call("stepfunctions", "update_state_machine", stateMachineArn="{dev-host}", definition="{}"), NO_ROLE),
    ("an answer to a task", call("stepfunctions", "send_task_success", taskToken="x" * 60, output="{}"), NO_ROLE),
    ("an execution redriven", call("stepfunctions", "redrive_execution", executionArn="{execution}-train:x"), NO_ROLE),
    ("a bucket for all", call("s3", "put_bucket_policy", Bucket="{bucket}", Policy="{}"), NO_ROLE),
    ("a bucket that forgets", call("s3", "put_bucket_versioning", Bucket="{bucket}", VersioningConfiguration={"Status": "Suspended"}), NO_ROLE),
    ("a bucket that tells others", call("s3", "put_bucket_notification_configuration", Bucket="{bucket}", NotificationConfiguration={}), NO_ROLE),
    ("a version of a job deleted", call("s3", "delete_object", Bucket="{bucket}", Key="jobs/by/ada/x.json", VersionId="null"), NO_ROLE),
    ("the role of all runs", call("sts", "assume_role", RoleArn="{role}/trainyard-run", RoleSessionName="me"), NO_ROLE),
    ("a key for ada", call("iam", "create_access_key", UserName="ada"), NO_ROLE),
    ("more rights", call("iam", "attach_user_policy", UserName="mallory-user", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess"), NO_ROLE),
    ("another version of one's policy", call("iam", "create_policy_version", PolicyArn="arn:aws:iam::123456789012:policy/trainyard-user", PolicyDocument="{}", SetAsDefault=True), NO_ROLE),
    ("the yard's end", call("cloudformation", "delete_stack", StackName="Trainyard-Patrol"), NO_ROLE),
    ("a notification of the user's own", call("sns", "publish", TopicArn="{topic}", Message="x"), NO_ROLE),
    ("another reader of notifications", call("sns", "subscribe", TopicArn="{topic}", Protocol="email", Endpoint="me@example.com"), NO_ROLE),
    ("no alarm any more", call("cloudwatch", "disable_alarm_actions", AlarmNames=["trainyard-patrol-absent"]), NO_ROLE),
    ("no log any more", call("logs", "delete_log_group", logGroupName="/trainyard/functions/patrol"), NO_ROLE),
    # ------------------------------------------------------------------------------- what an admin of AWS would try next
    ("a key of the user's own folder that is tagged", call("s3", "put_object", Bucket="{bucket}", Key="programs/by/mallory-user/x", Body=b"x", Tagging="trainyard:hold=1"), NO_ROLE),
    ("versions of the bucket", call("s3", "list_object_versions", Bucket="{bucket}", Prefix="credentials/"), NO_ROLE),
    ("an earlier version of a job", call("s3", "get_object", Bucket="{bucket}", Key="jobs/by/ada/x.json", VersionId="null"), NO_ROLE),
    ("the bucket's end of objects", call("s3", "put_bucket_lifecycle_configuration", Bucket="{bucket}", LifecycleConfiguration={"Rules": [{"ID": "x", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]}), NO_ROLE),
    ("another key for the bucket", call("s3", "put_bucket_encryption", Bucket="{bucket}", ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}), NO_ROLE),
    ("the bucket open to the public", call("s3", "delete_public_access_block", Bucket="{bucket}"), NO_ROLE),
    ("pages that may ask", call("s3", "put_bucket_cors", Bucket="{bucket}", CORSConfiguration={"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}), NO_ROLE),
    ("a website of the bucket", call("s3", "put_bucket_website", Bucket="{bucket}", WebsiteConfiguration={"IndexDocument": {"Suffix": "i"}}), NO_ROLE),
    ("a summary of a run", call("s3", "put_object", Bucket="{bucket}", Key="runs/x/summary.json", Body=b"{}"), NO_ROLE),
    ("an order of a run", call("s3", "put_object", Bucket="{bucket}", Key="runs/x/order.json", Body=b"{}"), NO_ROLE),
    ("a job above all names", call("s3", "put_object", Bucket="{bucket}", Key="jobs/x.json", Body=b"{}"), NO_ROLE),
    ("a secret beside the secrets", call("ssm", "put_parameter", Name="/trainyard/secrets", Value="x", Type="SecureString"), NO_ROLE),
    ("a setting by a secret's name", call("ssm", "put_parameter", Name="/trainyard/secrets-of/x", Value="x", Type="SecureString"), NO_ROLE),
    ("the yard's settings", call("ssm", "put_parameter", Name="/trainyard/settings", Value="{}", Type="String", Overwrite=True), NO_ROLE),
    ("the yard's image", call("ssm", "put_parameter", Name="/trainyard/image", Value="ami-1", Type="String", Overwrite=True), NO_ROLE),
    ("a shell on a run's host", call("ssm", "start_session", Target=HOST), NO_ROLE),
    ("a port of a run's host", call("ssm", "start_session", Target=HOST, DocumentName="AWS-StartPortForwardingSession", Parameters={"portNumber": ["22"]}), NO_ROLE),
    ("ssh to a run's host", call("ssm", "start_session", Target=HOST, DocumentName="AWS-StartSSHSession"), NO_ROLE),
    ("ada's session", call("ssm", "resume_session", SessionId="ada-0123456789abcdef0"), NO_ROLE),
    ("the end of ada's session", call("ssm", "terminate_session", SessionId="ada-0123456789abcdef0"), NO_ROLE),
    ("an automation", call("ssm", "start_automation_execution", DocumentName="AWS-RestartEC2Instance", Parameters={"InstanceId": [HOST]}), NO_ROLE),
    ("an association", call("ssm", "create_association", Name="AWS-RunShellScript", Targets=[{"Key": "InstanceIds", "Values": [HOST]}]), NO_ROLE),
    ("an SSM document of the user", call("ssm", "create_document", Content="{}", Name="mine"), NO_ROLE),
    ("another content of the yard's SSM documents", call("ssm", "update_document", Content="{}", Name="trainyard-stop"), NO_ROLE),
    ("a rule on the bus", call("events", "put_rule", Name="mine", EventPattern='{"source": ["x"]}', EventBusName="{bus}"), NO_ROLE),
    ("other targets of patrol", call("events", "put_targets", Rule="trainyard-patrol", Targets=[{"Id": "x", "Arn": "arn:aws:sqs:us-east-1:000000000000:x"}]), NO_ROLE),
    ("events again", call("events", "start_replay", ReplayName="r", EventSourceArn="arn:aws:events:us-east-1:000000000000:archive/x", EventStartTime=1, EventEndTime=2, Destination={"Arn": "arn:aws:events:us-east-1:000000000000:event-bus/x"}), NO_ROLE),
    ("a run by a version of the workflow", call("stepfunctions", "start_execution", stateMachineArn="{train}:1", input="{}"), NO_ROLE),
    ("a run by an alias", call("stepfunctions", "start_execution", stateMachineArn="{train}:live", input="{}"), NO_ROLE),
    ("a launch by a version", call("stepfunctions", "start_execution", stateMachineArn="{dev-host}:1", input="{}"), NO_ROLE),
    ("a workflow of the user's own", call("stepfunctions", "create_state_machine", name="mine", definition="{}", roleArn="{role}/trainyard-train"), NO_ROLE),
    ("a function of the user's own", call("lambda", "create_function", FunctionName="mine", Role="{role}/trainyard-signal", Code={"ZipFile": b"x"}, Handler="x.y", Runtime="python3.11"), NO_ROLE),
    ("a function for all", call("lambda", "add_permission", FunctionName="trainyard-signal", StatementId="x", Action="lambda:InvokeFunction", Principal="*"), NO_ROLE),
    ("an address of a function", call("lambda", "create_function_url_config", FunctionName="trainyard-signal", AuthType="NONE"), NO_ROLE),
    ("the code of a function", call("lambda", "get_function", FunctionName="trainyard-signal"), NO_ROLE),
    ("the settings of a function", call("lambda", "get_function_configuration", FunctionName="trainyard-signal"), NO_ROLE),
    ("no turn for patrol", call("lambda", "put_function_concurrency", FunctionName="trainyard-patrol", ReservedConcurrentExecutions=0), NO_ROLE),
    ("a host protected from its end", call("ec2", "modify_instance_attribute", InstanceId=HOST, DisableApiTermination={"Value": True}), NO_ROLE),
    ("metadata of version 1", call("ec2", "modify_instance_metadata_options", InstanceId=HOST, HttpTokens="optional"), NO_ROLE),
    ("a disk of a host", call("ec2", "attach_volume", InstanceId=HOST, VolumeId="vol-0123456789abcdef0", Device="/dev/sdf"), NO_ROLE),
    ("the console of a host", call("ec2", "get_console_output", InstanceId=HOST), NO_ROLE),
    ("the yard's image taken away", call("ec2", "deregister_image", ImageId=AMI), NO_ROLE),
    ("the yard's image for another account", call("ec2", "modify_image_attribute", ImageId=AMI, LaunchPermission={"Add": [{"UserId": "111111111111"}]}), NO_ROLE),
    ("an image as the user's own", call("ec2", "create_tags", Resources=[AMI], Tags=[{"Key": "trainyard:submitter", "Value": "mal-user"}]), NO_ROLE),
    ("another launch template", call("ec2", "create_launch_template_version", LaunchTemplateId="lt-0123456789abcdef0", LaunchTemplateData={"UserData": "aWQ="}), NO_ROLE),
    ("spot hosts of the user's own", call("ec2", "request_spot_instances", InstanceCount=1, LaunchSpecification={"ImageId": AMI, "InstanceType": "g5.xlarge"}), NO_ROLE),
    ("a door in the network", call("ec2", "authorize_security_group_ingress", GroupId="sg-0123456789abcdef0", IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="0.0.0.0/0"), NO_ROLE),
    ("the role of dev hosts", call("sts", "assume_role", RoleArn="{role}/trainyard-dev", RoleSessionName="me"), NO_ROLE),
    ("credentials of ada", call("sts", "get_federation_token", Name="ada", Policy="{}"), NO_ROLE),
    ("a row changed", call("dynamodb", "update_item", TableName="{table}", Key={"pk": {"S": "x"}, "sk": {"S": "y"}}), NO_ROLE),
    ("a row put", call("dynamodb", "put_item", TableName="{table}", Item={"pk": {"S": "x"}, "sk": {"S": "y"}}), NO_ROLE),
    ("the ledger unprotected", call("dynamodb", "update_table", TableName="{table}", DeletionProtectionEnabled=False), NO_ROLE),
    ("the ledger's end", call("dynamodb", "delete_table", TableName="{table}"), NO_ROLE),
    ("an alarm that is quiet", call("cloudwatch", "set_alarm_state", AlarmName="trainyard-patrol-absent", StateValue="OK", StateReason="x"), NO_ROLE),
    ("an alarm less", call("cloudwatch", "delete_alarms", AlarmNames=["trainyard-patrol-absent"]), NO_ROLE),
    ("figures of the user's own", call("cloudwatch", "put_metric_data", Namespace="trainyard", MetricData=[{"MetricName": "x", "Value": 1}]), NO_ROLE),
    ("a log kept for a day", call("logs", "put_retention_policy", logGroupName="/trainyard/functions/patrol", retentionInDays=1), NO_ROLE),
    ("a log that flows elsewhere", call("logs", "put_subscription_filter", logGroupName="/trainyard/functions/patrol", filterName="x", filterPattern="", destinationArn="arn:aws:lambda:us-east-1:000000000000:function:x"), NO_ROLE),
    ("all users", call("iam", "list_users"), NO_ROLE),
    ("a policy detached", call("iam", "detach_user_policy", UserName="ada", PolicyArn="arn:aws:iam::aws:policy/ReadOnlyAccess"), NO_ROLE),
    ("a role that trusts the user", call("iam", "update_assume_role_policy", RoleName="trainyard-run", PolicyDocument="{}"), NO_ROLE),
    ("more quota", call("service-quotas", "request_service_quota_increase", ServiceCode="ec2", QuotaCode="L-DB2E81BA", DesiredValue=1.0), NO_ROLE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attack", "may"), BY_PEOPLE, ids=[name for name, _, _ in BY_PEOPLE])
def test_a_person_is_refused(people: dict[str, Yard], name: str, attack: Attack, may: frozenset[str]) -> None:
    assert {who for who, yard in people.items() if not _is_refused(attack, yard)} == may, name


def _is_refused(attack: Attack, yard: Yard) -> bool:
    """Return True after a denial. Other errors fail the test, because AWS checks permissions first."""
    try:
        attack(yard)
    except Denied:
        return True
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return True
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts of an ordinary user's local cloud have one account only")
def test_a_program_reaches_neither_kernel_nor_agent_nor_others(runs: Runs) -> None:
    """Run the fifty attacks of besieging.py with the account and credentials of a program."""
    steps = {"args": quick.UNTIL_RELEASED}
    alone = {"workers": 1, "strategy": "single"}
    victim = runs.in_mid_training(runs.job("besieged", program=steps, cluster=alone))
    host = runs.host_of(victim, "chief")
    (instance,) = [one for one in runs.yard.instances() if one["InstanceId"] == host]
    args = {
        "bucket": runs.yard.bucket.name,
        "table": runs.yard.table,
        "victim": victim.id,
        "own": "${run}",
        "address": instance["PrivateIpAddress"],
    }
    run = runs.run(script(runs, "besieging", args=args, program={"expect": ["model"]}))
    assert run.succeeded, run.why()
    program_log = run.log()
    assert "all was tried" in program_log
    tried = TRIED.findall(program_log)
    assert len(tried) >= 50
    assert [name for name, came in tried if came == "went through"] == []
    assert [key for key in run.keys if key.startswith("model/")] == ["model/mine.txt"]
    assert len(run.summary["attempts"]) == 1
    runs.let_finish(victim)
    runs.finish(victim)
    assert victim.succeeded, victim.why()
