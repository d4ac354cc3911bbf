"""S3, DynamoDB, parameters, SNS and logs: the behavior that the control plane relies on."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import event_row, run_row
from tests.contract.conftest import ACCOUNT, REGION, Cloud, answering, eventually, free_port
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.protocol.timeline import Entry, Source


@pytest.fixture(scope="module")
def table(cloud: Cloud) -> str:
    name = f"table-{uuid.uuid4().hex[:8]}"
    cloud.client("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


def row(pk: str, sk: str = "run", **more: Any) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}, **more}


def test_a_conditional_put_succeeds_once(cloud: Cloud, table: str) -> None:
    dynamodb = cloud.client("dynamodb")
    once = {"TableName": table, "Item": row("run#a"), "ConditionExpression": "attribute_not_exists(pk)"}
    dynamodb.put_item(**once)
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(**once)


def test_a_conditional_update_can_return_the_row_that_stood_in_its_way(cloud: Cloud, table: str) -> None:
    dynamodb = cloud.client("dynamodb")
    dynamodb.put_item(TableName=table, Item=row("run#b", state={"S": "Train"}))
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException) as refused:
        dynamodb.update_item(
            TableName=table,
            Key=row("run#b"),
            UpdateExpression="SET #s = :new",
            ConditionExpression="#s = :old",
            ExpressionAttributeNames={"#s": "state"},
            ExpressionAttributeValues={":new": {"S": "Release"}, ":old": {"S": "Launch"}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert refused.value.response["Item"]["state"] == {"S": "Train"}


def test_a_transaction_is_whole_or_not_at_all_and_says_what_failed(cloud: Cloud, table: str) -> None:
    dynamodb = cloud.client("dynamodb")
    dynamodb.put_item(TableName=table, Item=row("run#c"))
    fresh = {"Put": {"TableName": table, "Item": row("run#c", "attempt#0001")}}
    taken = {
        "Put": {
            "TableName": table,
            "Item": row("run#c"),
            "ConditionExpression": "attribute_not_exists(pk)",
        }
    }
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as cancelled:
        dynamodb.transact_write_items(TransactItems=[fresh, taken])
    reasons = [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]]
    assert reasons == ["None", "ConditionalCheckFailed"]
    assert "Item" not in dynamodb.get_item(TableName=table, Key=row("run#c", "attempt#0001"))


def test_a_transaction_with_the_same_client_token_is_made_once(cloud: Cloud, table: str) -> None:
    dynamodb = cloud.client("dynamodb")
    add = {
        "Update": {
            "TableName": table,
            "Key": row("run#d"),
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
    for _ in range(2):
        dynamodb.transact_write_items(TransactItems=[add], ClientRequestToken="the-same")
    assert dynamodb.get_item(TableName=table, Key=row("run#d"))["Item"]["n"] == {"N": "1"}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Yield a cloud with transactions that take a second."""
    state = tmp_path_factory.mktemp("slow")
    settings = state / "settings.yaml"
    settings.write_text("latencies: {transaction: 1}\nrates: null\n")
    running = Cloud(state / "state", free_port(), settings)
    running.up()
    running.ledger("ledger")
    yield running
    running.down()


def written(sk: str, pk: str = "run#x") -> dict[str, Any]:
    return {"Put": {"TableName": "ledger", "Item": row(pk, sk)}}


def meanwhile(cloud: Cloud, call: Callable[[Any], Any]) -> str:
    """Return the error code of the call during a transaction on the row run#x/run, or "" for success."""
    dynamodb = cloud.client("dynamodb")
    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(
            dynamodb.transact_write_items, TransactItems=[written("run")], ClientRequestToken="of-the-first"
        )
        time.sleep(0.3)
        try:
            call(dynamodb)
        except ClientError as refused:
            return str(refused.response["Error"]["Code"])
        finally:
            going_on.result()
    return ""


def test_of_two_transactions_on_one_row_one_is_cancelled(slow: Cloud) -> None:
    dynamodb = slow.client("dynamodb")
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(
                dynamodb.transact_write_items,
                TransactItems=[written(mine, "run#two"), written("run", "run#two")],
            )
            for mine in ("a", "b")
        ]
        errors = [each.exception() for each in both]
    [cancelled] = [error for error in errors if error is not None]
    assert isinstance(cancelled, dynamodb.exceptions.TransactionCanceledException)
    assert cancelled.response["CancellationReasons"] == [
        {"Code": "None"},
        {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"},
    ]
    found = dynamodb.query(
        TableName="ledger",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": "run#two"}},
    )
    assert found["Count"] == 2


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda d: d.put_item(TableName="ledger", Item=row("run#x")), "TransactionConflictException"),
        (lambda d: d.delete_item(TableName="ledger", Key=row("run#x")), "TransactionConflictException"),
        (
            lambda d: d.update_item(TableName="ledger", Key=row("run#x"), UpdateExpression="REMOVE a"),
            "TransactionConflictException",
        ),
        (
            lambda d: d.transact_get_items(
                TransactItems=[{"Get": {"TableName": "ledger", "Key": row("run#x")}}]
            ),
            "TransactionCanceledException",
        ),
        (
            lambda d: d.transact_write_items(
                TransactItems=[written("other")], ClientRequestToken="of-the-first"
            ),
            "TransactionInProgressException",
        ),
        (lambda d: d.put_item(TableName="ledger", Item=row("run#y")), ""),
        (lambda d: d.get_item(TableName="ledger", Key=row("run#x")), ""),
    ],
    ids=["put", "delete", "update", "read together", "the same token", "another row", "read"],
)
def test_who_writes_a_row_of_a_transaction_that_goes_on_is_refused(
    slow: Cloud, call: Callable[[Any], Any], code: str
) -> None:
    assert meanwhile(slow, call) == code


def test_two_hundred_writers_of_one_run_at_once_lose_nothing(cloud: Cloud) -> None:
    name = f"ledger-{uuid.uuid4().hex[:8]}"
    cloud.ledger(name)
    now = datetime(2026, 11, 23, tzinfo=UTC)
    with answering(cloud):
        ledger = Ledger(name)
        ledger.write(run_row("r", {"created": now}))

        def write(number: int) -> None:
            happened = Entry(at=now, source=Source.HOST, event="ready", detail={"number": number})
            while True:
                try:
                    return ledger.write(run_row("r", {"attempt": number}), event_row("r", happened))
                except ServiceUnavailable:
                    continue  # like a state's Retry

        with ThreadPoolExecutor(200) as pool:
            list(pool.map(write, range(200)))
        assert {entry.detail["number"] for entry in ledger.timeline("r")} == set(range(200))


def test_a_query_finds_rows_in_the_order_of_their_sort_keys(cloud: Cloud, table: str) -> None:
    dynamodb = cloud.client("dynamodb")
    for name in ("event#2", "event#1", "host#1", "event#3"):
        dynamodb.put_item(TableName=table, Item=row("run#e", name))
    found = dynamodb.query(
        TableName=table,
        KeyConditionExpression="pk = :pk AND begins_with(sk, :sk)",
        ExpressionAttributeValues={":pk": {"S": "run#e"}, ":sk": {"S": "event#"}},
        Limit=2,
    )
    assert [item["sk"]["S"] for item in found["Items"]] == ["event#1", "event#2"]
    assert found["LastEvaluatedKey"] == row("run#e", "event#2")


def test_an_index_has_the_rows_that_have_its_key_with_what_is_projected(cloud: Cloud) -> None:
    """Test an index like the one for lists of runs. An index supports no consistent read."""
    name = f"table-{uuid.uuid4().hex[:8]}"
    dynamodb = cloud.client("dynamodb")
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk", "month", "created")
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "month",
                "KeySchema": [
                    {"AttributeName": "month", "KeyType": "HASH"},
                    {"AttributeName": "created", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["state", "waiting"]},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    for number in range(3):
        item = row(f"run#{number}", month={"S": "2026-11"}, created={"S": f"2026-11-0{number + 1}"})
        dynamodb.put_item(TableName=name, Item=item | {"state": {"S": "Plan"}, "job": {"S": "long"}})
    dynamodb.put_item(TableName=name, Item=row("run#0", "plan", created={"S": "2026-11-01"}))
    waits = {
        "TableName": name,
        "Key": row("run#2"),
        "ExpressionAttributeNames": {"#w": "waiting", "#s": "state"},
    }
    told = {"ExpressionAttributeValues": {":w": {"M": {}}, ":s": {"S": "Launch"}}}
    dynamodb.update_item(**waits, **told, UpdateExpression="SET #w = :w, #s = :s")
    asked = {
        "TableName": name,
        "IndexName": "month",
        "KeyConditionExpression": "#m = :month AND created >= :since",
        "ExpressionAttributeNames": {"#m": "month"},
        "ExpressionAttributeValues": {":month": {"S": "2026-11"}, ":since": {"S": "2026-11-02"}},
        "ScanIndexForward": False,
        "Limit": 1,
    }

    def newest(**more: Any) -> dict[str, Any]:
        """Return a page with the newest row, once the index has it."""
        page: dict[str, Any] = dynamodb.query(**asked, **more)
        return page

    eventually(lambda: "waiting" in newest()["Items"][0])
    first = newest()
    assert set(first["Items"][0]) == {"pk", "sk", "month", "created", "state", "waiting"}
    assert set(first["LastEvaluatedKey"]) == {"pk", "sk", "month", "created"}
    second = newest(ExclusiveStartKey=first["LastEvaluatedKey"])
    assert [each["pk"]["S"] for page in (first, second) for each in page["Items"]] == ["run#2", "run#1"]
    told = {"ExpressionAttributeValues": {":s": {"S": "Train"}}}
    dynamodb.update_item(**waits, **told, UpdateExpression="SET #s = :s REMOVE #w")
    eventually(lambda: "waiting" not in newest()["Items"][0])
    with pytest.raises(ClientError, match="Consistent reads are not supported on global secondary indexes"):
        dynamodb.query(**asked, ConsistentRead=True)


def test_who_may_query_an_index_may_not_query_the_table(cloud: Cloud, table: str) -> None:
    """Test separate permissions for the index and the table."""
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"
    asked: dict[str, Any] = {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "run#a"}},
    }
    for resource, more in ((arn, {"IndexName": "month"}), (f"{arn}/index/month", {})):
        who = cloud.acting_as({"Effect": "Allow", "Action": "dynamodb:Query", "Resource": resource})
        with pytest.raises(ClientError, match="AccessDenied"):
            cloud.client("dynamodb", who).query(**asked, **more)


def test_a_versioned_object_keeps_what_it_was(cloud: Cloud) -> None:
    s3, bucket = cloud.client("s3"), f"versions-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"second")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=first)["Body"].read() == b"first"
    s3.delete_object(Bucket=bucket, Key="k")
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=bucket, Key="k")
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=first)["Body"].read() == b"first"


def test_versions_are_listed_to_the_last_one_while_they_are_deleted(cloud: Cloud) -> None:
    """Test the way `aws s3api` and boto3 empty a bucket: page by page, including a page's last version."""
    s3, bucket = cloud.client("s3"), f"emptied-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("a", "a/b", "b"):
        for content in range(7):
            s3.put_object(Bucket=bucket, Key=key, Body=str(content).encode())
        s3.delete_object(Bucket=bucket, Key=key)
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 5})
    for page in pages:
        for each in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
            s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
    s3.delete_bucket(Bucket=bucket)


def test_a_put_that_must_not_overwrite_does_not(cloud: Cloud) -> None:
    s3, bucket = cloud.client("s3"), f"once-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    assert refused.value.response["Error"]["Code"] == "PreconditionFailed"


def test_a_big_object_goes_up_in_parts_and_comes_down_whole(cloud: Cloud, tmp_path: Any) -> None:
    s3, bucket = cloud.client("s3"), f"parts-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=bucket)
    big = tmp_path / "big"
    big.write_bytes(bytes(range(256)) * 4 * 1024 * 10)
    s3.upload_file(str(big), bucket, "big")
    s3.download_file(bucket, "big", str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == big.read_bytes()


def test_listing_is_paged_and_grouped(cloud: Cloud) -> None:
    s3, bucket = cloud.client("s3"), f"list-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=bucket)
    for key in ("runs/a/1", "runs/a/2", "runs/b/1", "jobs/x"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    grouped = s3.list_objects_v2(Bucket=bucket, Prefix="runs/", Delimiter="/")
    assert [group["Prefix"] for group in grouped["CommonPrefixes"]] == ["runs/a/", "runs/b/"]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
    assert [len(page["Contents"]) for page in pages] == [3, 1]


def test_a_parameter_has_versions_and_is_not_overwritten_by_accident(cloud: Cloud) -> None:
    ssm, name = cloud.client("ssm"), f"/p/{uuid.uuid4().hex[:8]}"
    ssm.put_parameter(Name=name, Value="none", Type="String")
    with pytest.raises(ssm.exceptions.ParameterAlreadyExists):
        ssm.put_parameter(Name=name, Value="ami-1", Type="String")
    assert ssm.put_parameter(Name=name, Value="ami-1", Type="String", Overwrite=True)["Version"] == 2
    assert ssm.get_parameter(Name=name)["Parameter"]["Value"] == "ami-1"
    with pytest.raises(ssm.exceptions.ParameterNotFound):
        ssm.get_parameter(Name=name + "x")


POLICY = {"Type": "Expiration", "Version": "1.0", "Attributes": {"Timestamp": "2030-12-02T21:34:33.000Z"}}


def test_a_parameter_with_a_policy_can_be_described(cloud: Cloud) -> None:
    ssm, name = cloud.client("ssm"), f"/policies/{uuid.uuid4().hex[:8]}"
    ssm.put_parameter(Name=name, Value="v", Type="String", Tier="Advanced", Policies=json.dumps([POLICY]))
    [shown] = ssm.describe_parameters(ParameterFilters=[{"Key": "Name", "Values": [name]}])["Parameters"]
    assert [policy["PolicyType"] for policy in shown["Policies"]] == ["Expiration"]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"Value": ""}, "ValidationException"),
        ({"Type": "Number"}, "ValidationException"),
        ({"Tier": "Free"}, "ValidationException"),
        ({"Name": "/with a blank"}, "ValidationException"),
        ({"Name": "not/from/the/root"}, "ValidationException"),
        ({"Name": "/a" * 16}, "HierarchyLevelLimitExceededException"),
        ({"Value": "v" * 4097}, "ValidationException"),
        ({"Value": "v" * 8193, "Tier": "Advanced"}, "ValidationException"),
        ({"Policies": json.dumps([POLICY])}, "ValidationException"),
        ({"Policies": "nonsense", "Tier": "Advanced"}, "InvalidPolicyAttributeException"),
        (
            {"Policies": json.dumps([{**POLICY, "Type": "Never"}]), "Tier": "Advanced"},
            "InvalidPolicyTypeException",
        ),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(cloud: Cloud, given: dict[str, Any], code: str) -> None:
    wanted = {"Name": f"/refused/{uuid.uuid4().hex[:8]}", "Value": "v", "Type": "String", **given}
    with pytest.raises(ClientError) as refused:
        cloud.client("ssm").put_parameter(**wanted)
    assert refused.value.response["Error"]["Code"] == code


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"Key": "bogus", "Values": ["x"]}, "InvalidFilterKey"),
        ({"Key": "Name", "Option": "Like", "Values": ["x"]}, "InvalidFilterOption"),
    ],
)
def test_a_filter_of_parameters_that_there_is_not_is_refused(cloud: Cloud, given: Any, code: str) -> None:
    with pytest.raises(ClientError) as refused:
        cloud.client("ssm").describe_parameters(ParameterFilters=[given])
    assert refused.value.response["Error"]["Code"] == code


def test_a_notice_reaches_the_queue_that_subscribed(cloud: Cloud) -> None:
    sns, sqs = cloud.client("sns"), cloud.client("sqs")
    name = f"notice-{uuid.uuid4().hex[:8]}"
    topic = sns.create_topic(Name=name)["TopicArn"]
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}",
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    queue = sqs.create_queue(QueueName=name, Attributes={"Policy": policy})["QueueUrl"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
    sns.publish(TopicArn=topic, Subject="run failed", Message="why")
    body = eventually(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))[0]["Body"]
    assert '"Subject": "run failed"' in body


def test_log_lines_are_found_by_what_they_say(cloud: Cloud) -> None:
    logs, group = cloud.client("logs"), f"/test/{uuid.uuid4().hex[:8]}"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="one")
    now = int(time.time() * 1000)
    lines = [{"timestamp": now + i, "message": text} for i, text in enumerate(("loss 0.5", "ERROR no room"))]
    logs.put_log_events(logGroupName=group, logStreamName="one", logEvents=lines)
    found = logs.filter_log_events(logGroupName=group, filterPattern="ERROR")["events"]
    assert [event["message"] for event in found] == ["ERROR no room"]


def test_logs_are_counted_by_what_is_in_them_and_an_unknown_query_is_malformed(cloud: Cloud) -> None:
    logs, group = cloud.client("logs"), f"/query/{uuid.uuid4().hex[:8]}"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    at = int(time.time() * 1000)
    events = [{"timestamp": at, "message": json.dumps({"run": run})} for run in ("a", "b", "a")]
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=events)
    span = {"logGroupName": group, "startTime": at // 1000 - 60, "endTime": at // 1000 + 60}
    started = logs.start_query(**span, queryString="stats count(*) as n by run | sort n desc")
    found = logs.get_query_results(queryId=started["queryId"])
    shown = [{each["field"]: each["value"] for each in row} for row in found["results"]]
    assert (found["status"], shown) == ("Complete", [{"run": "a", "n": "2"}, {"run": "b", "n": "1"}])
    with pytest.raises(logs.exceptions.MalformedQueryException):
        logs.start_query(**span, queryString="counts by run")


def test_a_metric_comes_back(cloud: Cloud) -> None:
    cloudwatch, now = cloud.client("cloudwatch"), time.time()
    cloudwatch.put_metric_data(
        Namespace="Test",
        MetricData=[{"MetricName": "gpu", "Value": 40.0}, {"MetricName": "gpu", "Value": 60.0}],
    )
    found = cloudwatch.get_metric_statistics(
        Namespace="Test",
        MetricName="gpu",
        StartTime=now - 300,
        EndTime=now + 300,
        Period=600,
        Statistics=["Average"],
    )
    assert found["Datapoints"][0]["Average"] == 50.0
