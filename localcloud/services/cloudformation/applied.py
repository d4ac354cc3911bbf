"""Resource properties that ministack's CloudFormation ignores, applied through ministack's services.

Each function receives a resource's physical id, its old properties ({} for a new resource) and its new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import botocore.session
from botocore.serialize import create_serializer
from ministack.core.responses import get_account_id, get_region
from ministack.services import cloudwatch, dynamodb, iam, lambda_svc, s3, sns

from localcloud.base.refusals import by_operation
from localcloud.services.iam import keys

Properties = Mapping[str, Any]
OF_THE_API = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
"""Properties of a table that CreateTable has in the same form, so that its model limits them."""


def bucket(name: str, old: Properties, new: Properties) -> None:
    if new.get("AccessControl", "Private") != "Private":
        raise ValueError("The local cloud supports only Private as AccessControl of AWS::S3::Bucket.")
    s3._bucket_tags[name] = _tags(new)
    if not s3._bucket_tags[name]:
        s3._bucket_tags.pop(name, None)
    for key, operation, put, delete in (
        ("LifecycleConfiguration", _lifecycle, s3._put_bucket_lifecycle, s3._delete_bucket_lifecycle),
        ("BucketEncryption", _encryption, s3._put_bucket_encryption, s3._delete_bucket_encryption),
        (
            "OwnershipControls",
            _ownership,
            s3._put_bucket_ownership_controls,
            s3._delete_bucket_ownership_controls,
        ),
    ):
        if key in new:
            _require_success(put(name, operation(new[key])))
        elif key in old:
            delete(name)


def table(name: str, old: Properties, new: Properties) -> None:
    """Raise ValueError for what CreateTable refuses, such as an index with more than 20 attributes."""
    request = {"TableName": name, **{key: new[key] for key in OF_THE_API if key in new}}
    if wrong := by_operation.refusal("dynamodb", "create_table", request):
        raise ValueError(wrong.message)
    if "SSESpecification" in new:
        dynamodb._tables[name]["SSEDescription"] = dynamodb._sse_description_from_spec(
            {"Enabled": new["SSESpecification"].get("SSEEnabled"), **new["SSESpecification"]}
        )
    lives = new.get("TimeToLiveSpecification") or old.get("TimeToLiveSpecification")
    if lives:
        enabled = "TimeToLiveSpecification" in new and lives.get("Enabled", True)
        request = {"TableName": name, "TimeToLiveSpecification": {**lives, "Enabled": _is_true(enabled)}}
        _require_success(dynamodb._update_ttl(request))
    recovery = (new.get("PointInTimeRecoverySpecification") or {}).get("PointInTimeRecoveryEnabled", False)
    specification = {"PointInTimeRecoveryEnabled": _is_true(recovery)}
    request = {"TableName": name, "PointInTimeRecoverySpecification": specification}
    _require_success(dynamodb._update_continuous_backups(request))


def function(name: str, old: Properties, new: Properties) -> None:
    made, queue = lambda_svc._functions.get(name), new.get("DeadLetterConfig")
    if made is None:
        return
    if queue:
        made["config"]["DeadLetterConfig"] = queue
    concurrency = _number(new.get("ReservedConcurrentExecutions"))
    if concurrency is None:
        lambda_svc._delete_function_concurrency(name)
    else:
        _require_success(
            lambda_svc._put_function_concurrency(name, {"ReservedConcurrentExecutions": concurrency})
        )


def role(name: str, old: Properties, new: Properties) -> None:
    """Set the role's permissions boundary, which IAM evaluates."""
    iam._roles[name]["PermissionsBoundary"] = new.get("PermissionsBoundary")


def topic(arn: str, old: Properties, new: Properties) -> None:
    attributes = sns._topics[arn]["attributes"]
    attributes.pop("KmsMasterKeyId", None)
    if new.get("KmsMasterKeyId"):
        attributes["KmsMasterKeyId"] = new["KmsMasterKeyId"]


def log_group(name: str, old: Properties, new: Properties) -> None:
    """Encrypt a log group if the key's own policy allows CloudWatch Logs."""
    key, service = new.get("KmsKeyId"), f"logs.{get_region()}.amazonaws.com"
    if key and not (keys.customers(key) and keys.allows_service(key, service, "kms:GenerateDataKey")):
        raise ValueError(
            "The specified KMS Key Id does not exist or is not allowed to be used with Arn "
            f"'arn:aws:logs:{get_region()}:{get_account_id()}:log-group:{name}' "
            "(Service: CloudWatchLogs, Status Code: 400)"
        )


def dashboard(name: str, old: Properties, new: Properties) -> None:
    cloudwatch._resource_tags[f"arn:aws:cloudwatch::{get_account_id()}:dashboard/{name}"] = _tags(new)


APPLIED: Mapping[str, Callable[[str, Properties, Properties], None]] = {
    "AWS::S3::Bucket": bucket,
    "AWS::DynamoDB::Table": table,
    "AWS::Lambda::Function": function,
    "AWS::IAM::Role": role,
    "AWS::CloudWatch::Dashboard": dashboard,
    "AWS::SNS::Topic": topic,
    "AWS::Logs::LogGroup": log_group,
}


def _tags(properties: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in properties.get("Tags") or []}


def _is_true(value: Any) -> bool:
    """Return True for `true` as a boolean or a string."""
    return str(value).lower() == "true"


def _require_success(answer: tuple[int, Any, Any]) -> None:
    status, _, body = answer
    if status >= 400:
        raise ValueError(body.decode() if isinstance(body, bytes) else str(body))


def _xml(operation: str, **given: Any) -> bytes:
    """Return the XML body of a request to S3, as botocore serializes it."""
    model = botocore.session.get_session().get_service_model("s3").operation_model(operation)
    body = create_serializer("rest-xml").serialize_to_request({"Bucket": "bucket", **given}, model)["body"]
    return body if isinstance(body, bytes) else bytes(body)


def _encryption(given: Properties) -> bytes:
    rules = [
        {
            "ApplyServerSideEncryptionByDefault": rule.get("ServerSideEncryptionByDefault", {}),
            "BucketKeyEnabled": _is_true(rule.get("BucketKeyEnabled", False)),
        }
        for rule in given["ServerSideEncryptionConfiguration"]
    ]
    return _xml("PutBucketEncryption", ServerSideEncryptionConfiguration={"Rules": rules})


def _ownership(given: Properties) -> bytes:
    return _xml("PutBucketOwnershipControls", OwnershipControls=dict(given))


def _lifecycle(given: Properties) -> bytes:
    rules = [_rule(rule) for rule in given["Rules"]]
    return _xml("PutBucketLifecycleConfiguration", LifecycleConfiguration={"Rules": rules})


def _rule(given: Properties) -> dict[str, Any]:
    """Return a rule with the API's names for properties that templates name differently."""
    days, marker = given.get("ExpirationInDays"), given.get("ExpiredObjectDeleteMarker")
    expires = {
        "Days": _number(days),
        "Date": given.get("ExpirationDate"),
        "ExpiredObjectDeleteMarker": marker,
    }
    older = given.get("NoncurrentVersionExpiration") or {}
    older = {"NoncurrentDays": given.get("NoncurrentVersionExpirationInDays"), **older}
    moves = [*given.get("Transitions", []), *filter(None, [given.get("Transition")])]
    older_moves = [
        *given.get("NoncurrentVersionTransitions", []),
        *filter(None, [given.get("NoncurrentVersionTransition")]),
    ]
    unfinished = given.get("AbortIncompleteMultipartUpload") or {}
    rule = {
        "ID": given.get("Id"),
        "Status": given["Status"],
        "Filter": _filter(given),
        "Expiration": _present(expires),
        "NoncurrentVersionExpiration": {key: int(value) for key, value in _present(older).items()},
        "Transitions": [_move(each, "Days") for each in moves],
        "NoncurrentVersionTransitions": [_move(each, "NoncurrentDays") for each in older_moves],
        "AbortIncompleteMultipartUpload": {key: int(value) for key, value in unfinished.items()},
    }
    return {key: value for key, value in rule.items() if value not in (None, {}, [])} | {
        "Filter": rule["Filter"]
    }


def _filter(given: Properties) -> dict[str, Any]:
    sizes = {key: _number(given.get(key)) for key in ("ObjectSizeGreaterThan", "ObjectSizeLessThan")}
    conditions = _present({"Prefix": given.get("Prefix"), "Tags": given.get("TagFilters"), **sizes})
    if set(conditions) <= {"Prefix"}:
        return {"Prefix": conditions.get("Prefix", "")}
    return {"And": conditions}


def _move(given: Properties, days: str) -> dict[str, Any]:
    return _present(
        {
            days: _number(given.get("TransitionInDays")),
            "Date": given.get("TransitionDate"),
            "NewerNoncurrentVersions": _number(given.get("NewerNoncurrentVersions")),
            "StorageClass": given["StorageClass"],
        }
    )


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}
