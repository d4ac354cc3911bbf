"""botocore's validator accepts everything that `fits` accepts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from simulation.aws.endpoint.shapes import fits

LOADER = Loader()
KEY = {"pk": {"S": "run#two"}, "sk": {"S": "run"}}
PUT = {
    "Put": {
        "TableName": "yard",
        "Item": {**KEY, "n": {"N": "1"}, "in": {"M": {"l": {"L": [{"BOOL": True}]}}}},
    }
}


def shape(service: str, operation: str) -> Any:
    model = ServiceModel(LOADER.load_service_model(service, "service-2"), service)
    return model.operation_model(operation).input_shape


def is_taken(of: Any, request: dict[str, Any]) -> bool:
    return not ParamValidator().validate(request, of).has_errors()


@pytest.mark.parametrize(
    ("service", "operation", "request_"),
    [
        ("dynamodb", "TransactWriteItems", {"TransactItems": [PUT], "ClientRequestToken": "a"}),
        ("dynamodb", "GetItem", {"TableName": "yard", "Key": KEY, "ConsistentRead": True}),
        ("ec2", "DescribeInstances", {"Filters": [{"Name": "tag:a", "Values": ["b"]}], "MaxResults": 5}),
        ("ec2", "CreateFleet", {
            "Type": "instant",
            "LaunchTemplateConfigs": [{"Overrides": [{"InstanceType": "g6.xlarge"}]}],
            "TargetCapacitySpecification": {"TotalTargetCapacity": 2},
        }),
        ("s3", "PutObject", {"Bucket": "bucket", "Key": "a/b", "Body": b"words", "Metadata": {"a": "b"}}),
        ("cloudwatch", "GetMetricData", {
            "MetricDataQueries": [{"Id": "a", "Period": 60}],
            "StartTime": datetime(2026, 1, 1, tzinfo=UTC),
            "EndTime": datetime(2026, 1, 2, tzinfo=UTC),
        }),
        ("sts", "AssumeRole", {"RoleArn": "arn:aws:iam::123456789012:role/a", "RoleSessionName": "ab"}),
    ],
)  # fmt: skip
def test_valid_parameters_fit(service: str, operation: str, request_: dict[str, Any]) -> None:
    of = shape(service, operation)
    assert is_taken(of, request_)
    assert fits(of, request_)


@pytest.mark.parametrize(
    ("service", "operation", "request_"),
    [
        ("dynamodb", "GetItem", {"TableName": "yard"}),
        ("dynamodb", "GetItem", {"TableName": "yard", "Key": KEY, "Kye": KEY}),
        ("dynamodb", "GetItem", {"TableName": "", "Key": KEY}),
        ("dynamodb", "GetItem", {"TableName": "yard", "Key": {"pk": {"S": 1}}}),
        ("dynamodb", "GetItem", {"TableName": "yard", "Key": {1: {"S": "a"}}}),
        ("dynamodb", "GetItem", {"TableName": "yard", "Key": [("pk", "a")]}),
        ("dynamodb", "TransactWriteItems", {"TransactItems": []}),
        ("dynamodb", "TransactWriteItems", {"TransactItems": PUT}),
        ("dynamodb", "Query", {"TableName": "yard", "Limit": 0}),
        ("dynamodb", "Query", {"TableName": "yard", "Limit": "5"}),
        ("ec2", "DescribeInstances", {"Filters": [{"Name": "tag:a", "Values": [7]}]}),
        ("ec2", "DescribeInstances", {"MaxResults": 5.0}),
        ("s3", "PutObject", {"Bucket": "bucket", "Key": ""}),
        ("s3", "PutObject", {"Bucket": "bucket", "Key": "a", "Body": 7}),
        ("sts", "AssumeRole", {"RoleArn": "arn:aws:iam::123456789012:role/a", "RoleSessionName": "a"}),
    ],
)  # fmt: skip
def test_invalid_parameters_do_not_fit(service: str, operation: str, request_: dict[str, Any]) -> None:
    of = shape(service, operation)
    assert not is_taken(of, request_)
    assert not fits(of, request_)


def test_unsupported_shapes_do_not_fit() -> None:
    """A timestamp as text: botocore accepts it, so `fits` leaves the decision to botocore."""
    asked = {"MetricDataQueries": [], "StartTime": "2026-01-01", "EndTime": "2026-01-02"}
    of = shape("cloudwatch", "GetMetricData")
    assert is_taken(of, asked)
    assert not fits(of, asked)
