"""AWS's request limits of an account, and the errors beyond them: rates in the settings, and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.contract.conftest import REGION, Cloud, allow, free_port

RATES = """
rates:
  ec2:DescribeVpcs: [2, 0.001]
  ec2:TerminateInstances: [9, 9]
  ssm:GetParameter: [2, 0.001]
  ssm:ListCommands: [2, 0.001]
  states:ListStateMachines: [2, 0.001]
  events:ListRules: [2, 0.001]
  cloudwatch:ListMetrics: [2, 0.001]
  dynamodb:ListTables: [2, 0.001]
  servicequotas:ListServices: [2, 0.001]
  pricing:GetProducts: [2, 0.001]
  logs:DescribeLogGroups: [2, 0.001]
  lambda:ListFunctions: [2, 0.001]
  s3:ListBucket: [2, 0.001]
  sns:ListTopics: [2, 0.001]
resource_rates:
  ec2:TerminateInstances: [3, 0.001]
"""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Yield a cloud that throttles the third request of a kind."""
    state = tmp_path_factory.mktemp("limited")
    (state / "settings.yaml").write_text(RATES)
    running = Cloud(state / "state", free_port(), state / "settings.yaml")
    running.up()
    running.client("s3").create_bucket(Bucket="a-bucket")
    running.client("s3").head_bucket(Bucket="a-bucket")
    yield running
    running.down()


def refusal(call: Callable[[], Any]) -> tuple[str, int]:
    """Return code and status of the error that this call must raise."""
    with pytest.raises(ClientError) as raised:
        call()
    answer = raised.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "code", "status"),
    [
        ("ec2", "describe_vpcs", {}, "RequestLimitExceeded", 503),
        ("ssm", "list_commands", {}, "ThrottlingException", 400),
        ("stepfunctions", "list_state_machines", {}, "ThrottlingException", 400),
        ("events", "list_rules", {}, "ThrottlingException", 400),
        ("cloudwatch", "list_metrics", {}, "Throttling", 400),
        ("dynamodb", "list_tables", {}, "ThrottlingException", 400),
        ("service-quotas", "list_services", {}, "TooManyRequestsException", 429),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2"}, "ThrottlingException", 400),
        ("logs", "describe_log_groups", {}, "ThrottlingException", 400),
        ("lambda", "list_functions", {}, "TooManyRequestsException", 429),
        ("s3", "list_objects_v2", {"Bucket": "a-bucket"}, "SlowDown", 503),
        ("sns", "list_topics", {}, "Throttling", 400),
    ],
)
def test_one_request_too_many_is_refused_in_the_services_own_words(
    limited: Cloud, service: str, operation: str, parameters: dict[str, Any], code: str, status: int
) -> None:
    ask = getattr(limited.client(service), operation)
    for _ in range(1 if service == "s3" else 2):  # the bucket was read before
        ask(**parameters)
    assert refusal(lambda: ask(**parameters)) == (code, status)


def test_rates_are_the_accounts_whoever_asks_and_each_regions_own(limited: Cloud) -> None:
    ec2 = limited.client("ec2", limited.acting_as(allow("ec2:*")))
    assert refusal(lambda: [limited.client("ec2").describe_vpcs() for _ in range(3)])
    assert refusal(ec2.describe_vpcs) == ("RequestLimitExceeded", 503)
    elsewhere = boto3.client(
        "ec2",
        endpoint_url=limited.endpoint,
        region_name="us-west-2",
        aws_access_key_id=limited.root.key,
        aws_secret_access_key=limited.root.secret,
    )
    assert elsewhere.describe_vpcs()["Vpcs"]


def test_instances_are_counted_beside_requests(limited: Cloud) -> None:
    ec2 = limited.client("ec2")
    hosts = ec2.run_instances(ImageId=_image(limited), InstanceType="t3.nano", MinCount=4, MaxCount=4)[
        "Instances"
    ]
    ids = [host["InstanceId"] for host in hosts]
    ec2.terminate_instances(InstanceIds=ids[:2])
    assert refusal(lambda: ec2.terminate_instances(InstanceIds=ids[2:])) == ("RequestLimitExceeded", 503)
    ec2.terminate_instances(InstanceIds=ids[2:3])


def _image(cloud: Cloud) -> str:
    [image, *_] = cloud.client("ec2").describe_images(Owners=["amazon"])["Images"]
    return str(image["ImageId"])


def test_the_published_rates_are_on_and_a_client_that_tries_again_gets_through(limited: Cloud) -> None:
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}
    quotas = limited.client("service-quotas")
    code, _ = refusal(lambda: [quotas.get_service_quota(**asked) for _ in range(200)])
    assert code == "TooManyRequestsException"
    patient = boto3.client(
        "service-quotas",
        endpoint_url=limited.endpoint,
        region_name=REGION,
        aws_access_key_id=limited.root.key,
        aws_secret_access_key=limited.root.secret,
        config=Config(retries={"mode": "standard", "total_max_attempts": 8}),
    )
    assert patient.get_service_quota(**asked)["Quota"]["Value"]


# ------------------------------------------------------------------------------------------ faults


def test_requests_of_any_service_can_be_refused_for_a_time_or_for_some_times(cloud: Cloud) -> None:
    ssm = cloud.client("ssm")
    ssm.put_parameter(Name="/throttled", Value="v", Type="String", Overwrite=True)
    try:
        cloud.command("fault", "throttle", "ssm:GetParameter", "--times", "1")
        cloud.command("fault", "throttle", "dynamodb:ListTables", "--seconds", "3600")
        listed = cloud.command("fault", "list").stdout
        assert "ssm:GetParameter ThrottlingException: the next 1 request" in listed
        assert "dynamodb:ListTables ThrottlingException: until 2" in listed
        assert refusal(lambda: ssm.get_parameter(Name="/throttled")) == ("ThrottlingException", 400)
        ssm.get_parameter(Name="/throttled")
        for _ in range(3):
            assert refusal(cloud.client("dynamodb").list_tables) == ("ThrottlingException", 400)
    finally:
        cloud.command("fault", "clear")
    cloud.client("dynamodb").list_tables()


def test_a_whole_service_can_be_down(cloud: Cloud) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="goes-down")
    try:
        cloud.command("fault", "throttle", "s3:*", "--seconds", "3600", "--code", "ServiceUnavailable")
        assert "s3:* ServiceUnavailable: until 2" in cloud.command("fault", "list").stdout
        for call in (
            s3.list_buckets,
            lambda: s3.list_objects_v2(Bucket="goes-down"),
            lambda: s3.put_object(Bucket="goes-down", Key="k", Body=b"v"),
        ):
            assert refusal(call) == ("ServiceUnavailable", 503)
        cloud.client("dynamodb").list_tables()
    finally:
        cloud.command("fault", "clear")
    s3.put_object(Bucket="goes-down", Key="k", Body=b"v")


def test_a_state_machines_own_call_is_refused_too(cloud: Cloud) -> None:
    machine = cloud.machine(
        {
            "StartAt": "Ask",
            "States": {
                "Ask": {
                    "Type": "Task",
                    "Resource": "arn:aws:states:::aws-sdk:ssm:getParameter",
                    "Arguments": {"Name": "/throttled"},
                    "End": True,
                }
            },
        },
        allow("ssm:GetParameter"),
    )
    cloud.client("ssm").put_parameter(Name="/throttled", Value="v", Type="String", Overwrite=True)
    cloud.admin("POST", "/faults/throttle", {"action": "ssm:GetParameter", "times": 1})
    ended = cloud.run(machine)
    assert (ended["status"], ended["error"]) == ("FAILED", "Ssm.ThrottlingException")
    assert "Rate exceeded" in ended["cause"]
    assert cloud.run(machine)["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("ssm:GetParametre", "unknown ssm action 'GetParametre'; similar actions: GetParameter"),
        ("sms:GetParameter", "unknown service 'sms'; allowed: ec2, ssm, states"),
    ],
)
def test_an_action_that_there_is_not_cannot_be_refused(cloud: Cloud, action: str, said: str) -> None:
    refused = cloud.command("fault", "throttle", action, check=False)
    assert refused.returncode == 1
    assert said in refused.stderr


def test_a_call_with_a_retryable_error_is_counted_separately(cloud: Cloud) -> None:
    sns = cloud.client("sns")
    cloud.admin("POST", "/faults/throttle", {"action": "sns:ListSubscriptions", "times": 1})
    assert refusal(sns.list_subscriptions) == ("Throttling", 400)
    sns.list_subscriptions()
    name = "sns:ListSubscriptions (retryable error)"
    counts = cloud.admin("GET", "/calls").values()  # other tests of this cloud may have called it, too
    assert [of_caller[name] for of_caller in counts if name in of_caller] == [1]


# ------------------------------------------------------------------------------------------ regions


@pytest.mark.parametrize(
    ("service", "operation", "nowhere", "not_enabled"),
    [
        ("ec2", "describe_vpcs", "AuthFailure", "AuthFailure"),
        ("ssm", "list_commands", "InvalidSignatureException", "UnrecognizedClientException"),
        ("sts", "get_caller_identity", "SignatureDoesNotMatch", "InvalidClientTokenId"),
        ("s3", "list_buckets", "AuthorizationHeaderMalformed", "InvalidAccessKeyId"),
    ],
)
def test_a_region_that_there_is_not_or_that_is_not_enabled_is_refused(
    cloud: Cloud, service: str, operation: str, nowhere: str, not_enabled: str
) -> None:
    for region, code in (("mars-1", nowhere), ("af-south-1", not_enabled)):
        client = boto3.client(
            service,
            endpoint_url=cloud.endpoint,
            region_name=region,
            aws_access_key_id=cloud.root.key,
            aws_secret_access_key=cloud.root.secret,
        )
        assert refusal(getattr(client, operation))[0] == code
