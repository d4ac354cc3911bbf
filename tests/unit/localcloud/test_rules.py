"""Rules for requests that AWS refuses, and AWS's words for them."""

from __future__ import annotations

from typing import Any

import pytest
from moto.core.utils import get_service_model

from localcloud.base import constraints
from localcloud.base.refusals import objects, publications, state_machines
from localcloud.server import requests
from localcloud.services.cloudformation import templates

TOPIC = {"Type": "AWS::SNS::Topic"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"x-amz-target": "TrentService.DescribeKey", "content-type": "application/x-amz-json-1.1"}


def resources(**properties: Any) -> dict[str, Any]:
    return {"Resources": {"A": {**TOPIC, "Properties": properties}}}


@pytest.mark.parametrize(
    "template",
    [
        resources(Name={"Fn::Sub": "${AWS::StackName}-${!Literal}"}),
        resources(Name={"Fn::Sub": ["${X}", {"X": "a"}]}),
        resources(Name={"Fn::Select": [0, {"Fn::GetAZs": ""}]}),
        resources(Name={"Fn::Select": ["1", ["a", "b"]]}),
        {"Parameters": {"P": {"Type": "String"}}, **resources(Name={"Ref": "P"})},
        {"Mappings": {"M": {"K": {"V": "a"}}}, **resources(Name={"Fn::FindInMap": ["M", "K", "V"]})},
        {
            "Mappings": {"M": {"K": {"V": "a"}}},
            **resources(Name={"Fn::FindInMap": ["M", {"Ref": "AWS::Region"}, "V"]}),
        },
        {"Conditions": {"C": {"Fn::Equals": ["a", "b"]}}, **resources(Name={"Fn::If": ["C", "a", "b"]})},
        {
            "Resources": {"A": TOPIC, "B": {**TOPIC, "DependsOn": ["A"]}},
            "Outputs": {"O": {"Value": {"Fn::GetAtt": "A.Arn"}}},
        },
        {"Transform": "AWS::LanguageExtensions", "Resources": {}},
    ],
)
def test_a_sound_template_is_accepted(template: dict[str, Any]) -> None:
    assert templates.fault(template) is None


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({}, "At least one Resources member"),
        ({"Resources": []}, "At least one Resources member"),
        ({"Resources": {"A": "text"}}, "Any Resources member must be an object"),
        (resources(Name={"Fn::Sub": "${Missing.Arn}"}), "dependencies \\[Missing\\] in the Resources block"),
        (resources(Name={"Fn::GetAtt": ["Missing", "Arn"]}), "dependencies \\[Missing\\]"),
        (resources(Name={"Fn::Split": ["a"]}), "every Fn::Split object requires"),
        (resources(Name={"Fn::Select": [2, ["a", "b"]]}), "Fn::Select requires a list argument"),
        ({**resources(), "Mappings": {"M": {"K": "a"}}}, "Every Mappings member K must be a map"),
        (
            {**resources(), "Mappings": {"M": {"K": {"V": {}}}}},
            "Every Mappings attribute must be a String or a List",
        ),
    ],
)
def test_a_faulty_template_is_refused_in_cloudformations_words(template: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        raise ValueError(templates.fault(template))


@pytest.mark.parametrize(
    ("service", "operation", "request_", "words"),
    [
        (
            "events",
            "PutEvents",
            {"Entries": [{"Source": "a"}] * 11},
            "source=a, resources=null, detailType=null",
        ),
        ("kms", "Encrypt", {"KeyId": "a", "Plaintext": b"x" * 4097}, "Value at 'plaintext' failed"),
        ("lambda", "CreateFunction", {"Architectures": ["a", "b"]}, r"Value '\[a, b\]' at 'architectures'"),
        (
            "events",
            "PutTargets",
            {"Rule": "a", "Targets": [{"Id": "!", "Arn": "a"}]},
            "'targets.1.member.id'",
        ),
    ],
)
def test_values_are_shown_as_aws_shows_them(
    service: str, operation: str, request_: dict[str, Any], words: str
) -> None:
    shape = get_service_model(service).operation_model(operation).input_shape
    assert shape is not None
    with pytest.raises(ValueError, match=words):
        raise ValueError(constraints.refusal(shape, request_))


@pytest.mark.parametrize(
    ("rule", "request_"),
    [
        (
            objects.RULES["PutObject"],
            {"Body": b"a", "ChecksumCRC32": "6Le+Qw==", "IfNoneMatch": "*", "Tagging": "a=1&b=2"},
        ),
        (
            objects.RULES["CopyObject"],
            {"Bucket": "a", "Key": "k", "CopySource": "a/k", "MetadataDirective": "REPLACE"},
        ),
        (objects.RULES["CopyObject"], {"Bucket": "a", "Key": "k", "CopySource": "/a/k?versionId=v"}),
        (
            objects.RULES["CompleteMultipartUpload"],
            {"MultipartUpload": {"Parts": [{"PartNumber": 2}, {"PartNumber": 5}]}},
        ),
        (objects.RULES["GetObject"], {"VersionId": "null", "ExpectedBucketOwner": "123456789012"}),
        (
            state_machines.RULES["StartExecution"],
            {"stateMachineArn": "arn:aws:states:a", "name": "a-b_c.d+e=f@g"},
        ),
        (state_machines.RULES["ListExecutions"], {"stateMachineArn": "arn:aws:states:a", "maxResults": 1000}),
    ],
)
def test_sound_parameters_pass(rule: Any, request_: dict[str, Any]) -> None:
    assert rule(request_) is None


def test_a_publication_with_attributes_passes() -> None:
    attributes = {
        "a.b-c_1": {"DataType": "String.Array", "StringValue": "[1]"},
        "n": {"DataType": "Number", "StringValue": "1"},
        "b": {"DataType": "Binary", "BinaryValue": b"1"},
    }
    sent = {
        "TopicArn": "arn:aws:sns:us-east-1:123456789012:a",
        "Message": "a",
        "MessageAttributes": attributes,
    }
    assert publications.refusal(sent, "us-east-1") is None


@pytest.mark.parametrize(
    ("service", "method", "path", "headers", "body", "query", "operation", "name", "value"),
    [
        ("s3", "PUT", "/b/folder/a b", {"x-amz-tagging": "a=1"}, b"text", {}, "PutObject", "Key", "folder/a b"),
        ("s3", "GET", "/b/k", {}, b"", {"partNumber": ["2"]}, "GetObject", "PartNumber", 2),
        ("s3", "GET", "/b", {}, b"", {"list-type": ["2"]}, "ListObjectsV2", "Bucket", "b"),
        ("lambda", "POST", "/2015-03-31/functions/f/invocations", {}, b"{}", {}, "Invoke", "FunctionName", "f"),
        ("sns", "POST", "/", FORM, b"Action=Publish&Message=a", {}, "Publish", "Message", "a"),
        ("kms", "POST", "/", JSON, b'{"KeyId": "a"}', {}, "DescribeKey", "KeyId", "a"),
    ],
)  # fmt: skip
def test_a_request_of_each_protocol_is_parsed(
    service: str,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    query: dict[str, Any],
    operation: str,
    name: str,
    value: Any,
) -> None:
    found = requests.parse(service, method, path, headers, body, query)
    assert found is not None
    assert (found[0].name, found[1][name]) == (operation, value)


def test_a_request_that_no_model_describes_is_left_to_ministack() -> None:
    assert requests.parse("lambda", "GET", "/no/such/path", {}, b"", {}) is None
    assert requests.parse("kms", "POST", "/", {"x-amz-target": "TrentService.None"}, b"{}", {}) is None
