"""The resources that the requests of the tables of refusals name."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

Client = Callable[[str], Any]
"""Returns a service's client."""
MACHINE = json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
DIGESTS = {"SHA256": "mC2ePrmW9VnmM/TRlN7zdh2Qn1o7ZH0ahR/q1nwyydE=", "CRC64NVME": "rCixvM1b9Xc="}
"""Digests of the bytes `text`. boto3 cannot compute CRC64NVME."""
TEMPLATE = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})


def named_by(client: Client) -> dict[str, Any]:
    """Create the resources, and return them by the names of the tables."""
    name, now = f"refused-{uuid.uuid4().hex[:8]}", datetime.now(UTC)
    role = _role(client, name, {"AWS": "*"})
    with suppress(client("iam").exceptions.InvalidInputException):  # an account has it once
        client("iam").create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    named = {
        **dict.fromkeys(("$BUCKET", "$TABLE", "$GROUP", "$RULE", "$FUNCTION", "$STACK"), name),
        "$BARE_FUNCTION": f"bare-{name}",
        "$LAYER": f"layer-{name}",
        "$PROTECTED_STACK": f"protected-{name}",
        "$VERSIONED": f"versions-{name}",
        "$MACHINE_NAME": name,
        "$TOPIC_NAME": name,
        "$ROLE_NAME": name,
        "$ROLE": role,
        "$FUNCTION_ROLE": _role(client, f"functions-{name}", {"Service": "lambda.amazonaws.com"}),
        "$QUEUE": f"arn:aws:sqs:us-east-1:123456789012:{name}",
        "$LARGE": json.dumps({"text": "x" * 262_144}),
        "$X4097": "x" * 4097,
        "$X1025": "x" * 1025,
        "$X3097": "x" * 3097,
        "$TEMPLATE": TEMPLATE,
        "$NOW": int(time.time() * 1000),
        "$BEFORE": int(time.time() * 1000) - 60_000,
        "$NOW_TIME": now,
        "$DAY_BEFORE": now - timedelta(days=1),
    }
    for make in (_functions, _keys, _objects, _messages, _machines, _stacks, _roles, _network):
        named |= make(client, named)
    return named


def _role(client: Client, name: str, principal: dict[str, str]) -> str:
    trust = {"Effect": "Allow", "Principal": principal, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    return str(client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"])


def _functions(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    packed, functions = io.BytesIO(), client("lambda")
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("code.py", "def handler(event, context): return event")
    about = {"Runtime": "python3.12", "Handler": "code.handler", "Role": named["$FUNCTION_ROLE"]}
    for name in (named["$BARE_FUNCTION"], named["$FUNCTION"]):
        made = functions.create_function(FunctionName=name, Code={"ZipFile": packed.getvalue()}, **about)
    functions.add_permission(
        FunctionName=named["$FUNCTION"],
        StatementId="s3",
        Action="lambda:InvokeFunction",
        Principal="s3.amazonaws.com",
    )
    for _ in range(2):
        functions.publish_layer_version(LayerName=named["$LAYER"], Content={"ZipFile": packed.getvalue()})
    large = io.BytesIO()
    with zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("code.py", bytes(262_144_000))
    return {"$ZIP": packed.getvalue(), "$LARGE_ZIP": large.getvalue(), "$CODE_SHA": made["CodeSha256"]}


def _keys(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    sign = {"KeyUsage": "SIGN_VERIFY", "KeySpec": "RSA_2048"}
    for name, about in (
        ("KEY", {}),
        ("OTHER_KEY", {}),
        ("DISABLED_KEY", {}),
        ("DOOMED_KEY", {}),
        ("SIGN_KEY", sign),
    ):
        key = client("kms").create_key(**about)["KeyMetadata"]
        found |= {f"${name}": key["KeyId"], f"${name}_ARN": key["Arn"]}
    encrypted = client("kms").encrypt(
        KeyId=found["$KEY"], Plaintext=b"text", EncryptionContext={"purpose": "test"}
    )
    return {**found, "$CIPHERTEXT": encrypted["CiphertextBlob"]}


def _objects(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    bucket, versioned, objects = named["$BUCKET"], named["$VERSIONED"], client("s3")
    objects.create_bucket(Bucket=bucket)
    written = objects.put_object(Bucket=bucket, Key="key", Body=b"text")
    for name, key in (("locked", "$DISABLED_KEY_ARN"), ("doomed", "$DOOMED_KEY_ARN")):
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": named[key]}
        objects.put_object(Bucket=bucket, Key=name, Body=b"text", **encryption)
    client("kms").disable_key(KeyId=named["$DISABLED_KEY"])
    client("kms").schedule_key_deletion(KeyId=named["$DOOMED_KEY"])
    upload = {"Bucket": bucket, "Key": "large"}
    upload |= {"UploadId": objects.create_multipart_upload(**upload)["UploadId"]}
    parts = [objects.upload_part(**upload, PartNumber=number, Body=b"text")["ETag"] for number in (1, 2)]
    summed, sum_of_part = _upload(objects, bucket, "summed", "SHA256")
    whole, whole_part = _upload(objects, bucket, "whole", "CRC64NVME")
    objects.create_bucket(Bucket=versioned)
    objects.delete_bucket_ownership_controls(Bucket=versioned)
    objects.delete_public_access_block(Bucket=versioned)
    objects.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Enabled"})
    deleted = {"Bucket": versioned, "Key": "deleted"}
    gone = objects.put_object(**deleted, Body=b"old")["VersionId"]
    objects.put_object(**deleted, Body=b"new")
    objects.delete_object(**deleted, VersionId=gone)
    return {
        "$ETAG": written["ETag"],
        "$UPLOAD": upload["UploadId"],
        "$PART_1": parts[0],
        "$PART_2": parts[1],
        "$SUMMED_UPLOAD": summed,
        "$SUMMED_PART": sum_of_part,
        "$WHOLE_UPLOAD": whole,
        "$WHOLE_PART": whole_part,
        "$GONE": gone,
        "$MARKER": objects.delete_object(**deleted)["VersionId"],
    }


def _upload(objects: Any, bucket: str, key: str, algorithm: str) -> tuple[str, str]:
    """Begin an upload with a checksum and one part. Return its ID and the part's ETag."""
    at = {"Bucket": bucket, "Key": key}
    upload = objects.create_multipart_upload(**at, ChecksumAlgorithm=algorithm)["UploadId"]
    digest = {f"Checksum{algorithm}": DIGESTS[algorithm]}
    part = objects.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"text", **digest)
    return upload, part["ETag"]


def _messages(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    name, topics = named["$TOPIC_NAME"], client("sns")
    topic = topics.create_topic(Name=name)["TopicArn"]
    topics.add_permission(TopicArn=topic, Label="once", AWSAccountId=["123456789012"], ActionName=["Publish"])
    client("sqs").create_queue(QueueName=name)
    subscription = topics.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=named["$QUEUE"], ReturnSubscriptionArn=True
    )
    client("events").put_rule(Name=name, EventPattern='{"source": ["none"]}')
    client("events").put_targets(Rule=name, Targets=[{"Id": "0", "Arn": named["$QUEUE"]}])
    client("logs").create_log_group(logGroupName=name)
    client("logs").create_log_stream(logGroupName=name, logStreamName="stream")
    return {
        "$TOPIC": topic,
        "$SUBSCRIPTION": subscription["SubscriptionArn"],
        "$NO_SUBSCRIPTION": f"{topic}:00000000-0000-4000-8000-000000000000",
    }


def _machines(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    states = client("stepfunctions")
    made = states.create_state_machine(
        name=named["$MACHINE_NAME"], definition=MACHINE, roleArn=named["$ROLE"]
    )
    arn = made["stateMachineArn"]
    taken = states.start_execution(stateMachineArn=arn, name="taken", input="0")
    return {"$MACHINE": arn, "$EXECUTION": taken["executionArn"]}


def _stacks(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    client("dynamodb").create_table(
        TableName=named["$TABLE"],
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    stacks = client("cloudformation")
    stacks.create_stack(StackName=named["$STACK"], TemplateBody=TEMPLATE)
    stacks.create_stack(
        StackName=named["$PROTECTED_STACK"], TemplateBody=TEMPLATE, EnableTerminationProtection=True
    )
    waiter = stacks.get_waiter("stack_create_complete")
    waiter.wait(StackName=named["$STACK"], WaiterConfig={"Delay": 1})
    deleted = stacks.create_stack(StackName=f"deleted-{named['$STACK']}", TemplateBody=TEMPLATE)["StackId"]
    waiter.wait(StackName=deleted, WaiterConfig={"Delay": 1})
    stacks.delete_stack(StackName=deleted)
    stacks.get_waiter("stack_delete_complete").wait(StackName=deleted, WaiterConfig={"Delay": 1})
    return {"$DELETED_STACK": deleted}


def _roles(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    """Create three roles that something uses."""
    iam, service = client("iam"), {"Service": "ec2.amazonaws.com"}
    names = {
        f"${kind.upper()}_ROLE": f"{kind}-{named['$ROLE_NAME']}" for kind in ("policy", "managed", "profile")
    }
    for name in names.values():
        _role(client, name, service)
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=names["$POLICY_ROLE"], PolicyName="a", PolicyDocument=document)
    policy = iam.create_policy(PolicyName=named["$ROLE_NAME"], PolicyDocument=document)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=names["$MANAGED_ROLE"], PolicyArn=policy)
    iam.create_instance_profile(InstanceProfileName=named["$ROLE_NAME"])
    iam.add_role_to_instance_profile(InstanceProfileName=named["$ROLE_NAME"], RoleName=names["$PROFILE_ROLE"])
    return {**names, "$POLICY": policy, "$PROFILE": named["$ROLE_NAME"]}


def _network(client: Client, named: dict[str, Any]) -> dict[str, Any]:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.99.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.0.0/24")["Subnet"]["SubnetId"]
    ec2.create_network_interface(SubnetId=subnet)
    return {"$USED_SUBNET": subnet}
