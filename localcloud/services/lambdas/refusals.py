"""Refusals of Lambda's API that ministack lacks or words differently."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import lambda_svc, s3
from moto.core.utils import get_service_model

from localcloud.base.refusals import Refusal, Request, Rule
from localcloud.services.iam.roles import trusts
from localcloud.services.lambdas.concurrency import refuse_reservation

NAME = re.compile(
    r"(?:arn:[^:]+:lambda:(?P<region>[^:]+):(?P<account>\d+):|\d+:)?(?:function:)?(?P<name>[\w-]+)(?::(?P<qualifier>[^:]+))?"
)
SUPPORTED = (
    "nodejs20.x, python3.14, provided.al2023, python3.12, python3.13, nodejs24.x, nodejs22.x, java25, python3.10, "
    "python3.11, java21, ruby3.3, ruby3.4, ruby3.2, python3.8, python3.9, java17, nodejs16.x, dotnet10, dotnet8, "
    "java11, dotnet6, nodejs18.x, provided.al2, java8.al2"
)
"""Runtimes, in AWS's order."""
MOST_ENVIRONMENT, MOST_TAGS, LONGEST_NAME, MOST_LAYERS = 4096, 50, 64, 5
MOST_UNZIPPED = 262_144_000
MOST_REQUEST_BYTES = 6_291_456
DESTINATIONS = ("lambda", "sqs", "sns", "events", "s3")
LAYER = re.compile(
    r"arn:[^:]+:lambda:(?P<region>[^:]+):\d+:layer:(?P<name>[\w-]+):(?P<version>\d+)", re.ASCII
)
PRINCIPAL = re.compile(r"\*|\d{12}|arn:.*|[\w.-]+\.amazonaws\.com(\.cn)?")
ALIAS = re.compile(r"(?!\d+$)[\w-]+", re.ASCII)
LATEST = "$LATEST"
MISMATCH = "The derived qualifier from the function name does not match the specified qualifier."
OTHER_REVISION = (
    "The Revision Id provided does not match the latest Revision Id. Call the GetFunction/GetAlias API to retrieve "
    "the latest Revision Id"
)
VERSION_TAGS = "Tags on function aliases and versions are not supported. Please specify a function ARN."


@dataclass(frozen=True)
class Target:
    """The function, version or alias that a request names."""

    name: str
    qualifier: str | None

    @property
    def arn(self) -> str:
        return f"arn:aws:lambda:{get_region()}:{get_account_id()}:function:{self.name}"

    @property
    def qualified(self) -> str:
        return f"{self.arn}:{self.qualifier or LATEST}"

    @property
    def function(self) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = lambda_svc._functions.get(self.name)
        return found

    @property
    def exists(self) -> bool:
        """Return True if the function has the named version or alias."""
        function = self.function
        return function is not None and (
            self.qualifier in (None, LATEST)
            or self.qualifier in function["versions"]
            or self.qualifier in function["aliases"]
        )


def invalid(message: str) -> Refusal:
    return Refusal("InvalidParameterValueException", message)


def not_found(message: str) -> Refusal:
    return Refusal("ResourceNotFoundException", message, 404)


def _for(check: Callable[[Target, Request], Refusal | None]) -> Rule:
    """Return the rule that checks the function's name first."""

    def rule(request: Request) -> Refusal | None:
        found = NAME.fullmatch(str(request.get("FunctionName", "")))
        if found is None:
            return None
        given, named = request.get("Qualifier"), found["qualifier"]
        if found["region"] and found["region"] != get_region():
            here = f"are not reachable in this region ('{get_region()}')"
            return not_found(f"Functions from '{found['region']}' {here}")
        if found["account"] and found["account"] != get_account_id():
            return Refusal("AccessDeniedException", "", 403)
        if given and named and given != named:
            return invalid(MISMATCH)
        return check(Target(found["name"], given or named), request)

    return rule


def _existing(target: Target, request: Request) -> Refusal | None:
    if target.exists:
        return None
    suffix = f":{target.qualifier}" if target.qualifier else ""
    return not_found(f"Function not found: {target.arn}{suffix}")


def _delete(target: Target, request: Request) -> Refusal | None:
    if target.function is None:
        return not_found(f"Function not found: {target.arn}")
    if target.qualifier == LATEST:
        return invalid("$LATEST version cannot be deleted without deleting the function.")
    return None


def _policy(target: Target, request: Request) -> Refusal | None:
    return None if target.exists else not_found("The resource you requested does not exist.")


def _add_permission(target: Target, request: Request) -> Refusal | None:
    if target.qualifier == LATEST:
        return invalid("We currently do not support adding policies for $LATEST.")
    if not PRINCIPAL.fullmatch(str(request.get("Principal", ""))):
        return invalid("The provided principal was invalid. Please check the principal and try again.")
    if target.function is None:
        return not_found(f"Function not found: {target.arn}")
    return _qualified(target)


def _qualified(target: Target) -> Refusal | None:
    if target.exists:
        return None
    is_alias = ALIAS.fullmatch(str(target.qualifier))
    return not_found(f"{'Cannot find alias arn' if is_alias else 'Function not found'}: {target.qualified}")


def _remove_permission(target: Target, request: Request) -> Refusal | None:
    if target.function is None:
        return not_found(f"No policy found for: {target.arn}")
    if wrong := _qualified(target):
        return wrong
    sids = [each["Sid"] for each in target.function["policy"]["Statement"]]
    if not sids:
        return not_found("No policy is associated with the given resource.")
    sid = request.get("StatementId")
    return None if sid in sids else not_found(f"Statement {sid} is not found in resource policy.")


def _put_concurrency(target: Target, request: Request) -> Refusal | None:
    if target.qualifier:
        return invalid(
            "This operation is permitted on Lambda functions only. Aliases and versions do not support this operation. "
            "Please specify either a function name or an unqualified function ARN."
        )
    if target.function is None:
        return not_found(f"Function not found: {target.qualified}")
    return refuse_reservation(target.name, int(request.get("ReservedConcurrentExecutions", 0)))


def _invoke(target: Target, request: Request) -> Refusal | None:
    if len(request.get("Payload") or b"") > MOST_REQUEST_BYTES:
        said = f"Request must be smaller than {MOST_REQUEST_BYTES} bytes for the InvokeFunction operation"
        return Refusal("RequestEntityTooLargeException", said, 413)
    return _existing(target, request)


def _put_retries(target: Target, request: Request) -> Refusal | None:
    chosen = request.get("DestinationConfig") or {}
    if not chosen and not {"MaximumRetryAttempts", "MaximumEventAgeInSeconds"} & set(request):
        return invalid("You must specify at least one of error handling or destination setting.")
    for each in chosen.values():
        arn = str(each.get("Destination", ""))
        if arn and arn.split(":")[2] not in DESTINATIONS:
            return invalid(f"The provided destination config {_described(chosen)} is invalid.")
        if ":function:" in arn and arn.rpartition(":")[2] == target.name:
            return invalid("You can't specify the function as a destination for itself.")
        if ":function:" in arn and arn.split(":function:")[1].partition(":")[0] not in lambda_svc._functions:
            return invalid(f"The destination ARN {arn} is invalid.")
    return None if target.exists else not_found("The function doesn't exist.")


def _described(config: Mapping[str, Mapping[str, Any]]) -> str:
    """Write a DestinationConfig as AWS's Java code does."""
    parts = {
        name: f"{name}(destination={config[name]['Destination']})" if config.get(name) else "null"
        for name in ("OnSuccess", "OnFailure")
    }
    return f"DestinationConfig(onSuccess={parts['OnSuccess']}, onFailure={parts['OnFailure']})"


def _retries(target: Target, request: Request) -> Refusal | None:
    function = target.function
    if function and lambda_svc._event_invoke_config(function, target.qualifier):
        return None
    return not_found(f"The function {target.qualified} doesn't have an EventInvokeConfig")


def _list_retries(target: Target, request: Request) -> Refusal | None:
    return None if target.function else not_found("The function doesn't exist.")


def _publish(target: Target, request: Request) -> Refusal | None:
    config = (target.function or {}).get("config", {})
    current = config.get("CodeSha256")
    if request.get("RevisionId", config.get("RevisionId")) != config.get("RevisionId"):
        return Refusal("PreconditionFailedException", OTHER_REVISION, 412)
    given = request.get("CodeSha256")
    if not given or current in (None, given):
        return _existing(target, request)
    return invalid(
        f"CodeSHA256 ({given}) is different from current CodeSHA256 in $LATEST ({current}). "
        "Please try again with the CodeSHA256 in $LATEST."
    )


def _alias(target: Target, request: Request) -> Refusal | None:
    name = request.get("Name")
    if target.function and name in target.function["aliases"]:
        return None
    return not_found(f"Cannot find alias arn: {target.arn}:{name}")


def _create_alias(target: Target, request: Request) -> Refusal | None:
    version = request.get("FunctionVersion")
    return _existing(Target(target.name, str(version) if version else None), request)


def _create(request: Request) -> Refusal | None:
    name = str(request.get("FunctionName", ""))
    if len(name) > LONGEST_NAME and ":" not in name:
        bound = f"Member must have length less than or equal to {LONGEST_NAME}"
        where = f"Value '{name}' at 'functionName' failed to satisfy constraint"
        return invalid(f"1 validation error detected: {where}: {bound}")
    if len(request.get("Tags") or ()) > MOST_TAGS:
        return invalid("Number of tags exceeds resource tag limit.")
    return _configured(request) or _code(request.get("Code") or {}) or _role(request)


def _role(request: Request) -> Refusal | None:
    """Refuse a role that Lambda does not trust, or does not know yet."""
    arn = request.get("Role")
    if arn is None or trusts(str(arn), "lambda.amazonaws.com", account=get_account_id(), region=get_region()):
        return None
    return invalid("The role defined for the function cannot be assumed by Lambda.")


def _configured(request: Request) -> Refusal | None:
    runtime = request.get("Runtime")
    if runtime and runtime not in SUPPORTED.split(", "):
        known = get_service_model("lambda").shape_for("Runtime").enum
        if runtime not in known:
            return invalid(
                f"Value {runtime} at 'runtime' failed to satisfy constraint: Member must satisfy enum value set: "
                f"[{SUPPORTED}] or be a valid ARN"
            )
        support, purpose = "no longer supported", "creating or updating AWS Lambda functions"
        return invalid(
            f"The runtime parameter of {runtime} is {support} for {purpose}. "
            "We recommend you use a supported runtime while creating or updating functions."
        )
    variables = (request.get("Environment") or {}).get("Variables") or {}
    measured = json.dumps(variables, separators=(",", ":"))
    if len(measured.encode()) > MOST_ENVIRONMENT:
        return invalid(
            "Lambda was unable to configure your environment variables because the environment variables you have "
            f"provided exceeded the 4KB limit. String measured: {measured}"
        )
    return _layers(request.get("Layers") or ())


def _layers(arns: Sequence[str]) -> Refusal | None:
    if len(arns) > MOST_LAYERS:
        return invalid(f"Cannot reference more than {MOST_LAYERS} layers.")
    seen: dict[str, str] = {}
    for arn in arns:
        found = LAYER.fullmatch(arn)
        if found is None:
            continue
        if found["region"] != get_region():
            expected = f"Layers are expected to be in region {get_region()}."
            return invalid(f"Layers are not in the same region as the function. {expected}")
        if wrong := _layer(found["name"], int(found["version"])):
            return invalid(wrong.message)
        if other := seen.get(found["name"]):
            twice = "Two different versions of the same layer are not allowed to be referenced in the same function."
            return invalid(f"{twice} {other} and {arn} are versions of the same layer.")
        seen[found["name"]] = arn
    return None


def _layer(name: str, version: int) -> Refusal | None:
    known = (lambda_svc._layers.get(name) or {}).get("versions") or ()
    if any(each["Version"] == version for each in known):
        return None
    arn = f"arn:aws:lambda:{get_region()}:{get_account_id()}:layer:{name}:{version}"
    return not_found(f"Layer version {arn} does not exist.")


def _layer_version(request: Request) -> Refusal | None:
    version = int(request.get("VersionNumber", 0))
    return invalid("Layer Version Cannot be less than 1") if version < 1 else None


def _layer_policy(request: Request) -> Refusal | None:
    name = str(request.get("LayerName", "")).rpartition(":")[2]
    return _layer_version(request) or _layer(name, int(request["VersionNumber"]))


def _code(code: Mapping[str, Any]) -> Refusal | None:
    if "S3Bucket" in code:
        bucket = s3._buckets.get(code["S3Bucket"])
        if bucket is None:
            return _unread("NoSuchBucket", "The specified bucket does not exist")
        if code.get("S3Key") not in bucket["objects"] and not code.get("S3ObjectVersion"):
            return _unread("NoSuchKey", "The specified key does not exist.")
    archive = code.get("ZipFile")
    data = base64.b64decode(archive) if isinstance(archive, str) else archive
    if data is not None and not zipfile.is_zipfile(io.BytesIO(data)):
        return invalid("Could not unzip uploaded file. Please check your file, then try to upload again.")
    if data is not None and _unzipped(data) >= MOST_UNZIPPED:
        return invalid(f"Unzipped size must be smaller than {MOST_UNZIPPED} bytes")
    return None


def _unzipped(data: bytes) -> int:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return sum(each.file_size for each in archive.infolist())


def _unread(code: str, words: str) -> Refusal:
    return invalid(f"Error occurred while GetObject. S3 Error Code: {code}. S3 Error Message: {words}")


def _update_code(target: Target, request: Request) -> Refusal | None:
    if wrong := _existing(target, request):
        return wrong
    kind = (target.function or {})["config"].get("PackageType", "Zip")
    if kind == "Zip" and "ImageUri" in request:
        return invalid("Please don't provide ImageUri when updating a function with packageType Zip.")
    if kind == "Image" and "ImageUri" not in request:
        return invalid("Please provide ImageUri when updating a function with packageType Image.")
    return _code(request)


def _update_configuration(target: Target, request: Request) -> Refusal | None:
    return _existing(target, request) or _configured(request) or _role(request)


def _tags(request: Request) -> Refusal | None:
    found = NAME.fullmatch(str(request.get("Resource", "")))
    if found is None or ":layer:" in str(request["Resource"]):
        return None
    target = Target(found["name"], found["qualifier"])
    if target.qualifier:
        return invalid(VERSION_TAGS)
    if target.function is None:
        return not_found(f"Function not found: {target.arn}")
    if "Tags" not in request:
        return None
    if not request["Tags"]:
        return invalid("An error occurred and the request cannot be processed.")
    tags = {**(target.function.get("tags") or {}), **request["Tags"]}
    return invalid("Number of tags exceeds resource tag limit.") if len(tags) > MOST_TAGS else None


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("GetFunction", "GetFunctionConfiguration", "GetFunctionConcurrency"), _for(_existing)),
    "Invoke": _for(_invoke),
    "DeleteFunction": _for(_delete),
    "GetPolicy": _for(_policy),
    "AddPermission": _for(_add_permission),
    "RemovePermission": _for(_remove_permission),
    "PutFunctionConcurrency": _for(_put_concurrency),
    "PutFunctionEventInvokeConfig": _for(_put_retries),
    "UpdateFunctionEventInvokeConfig": _for(_retries),
    "GetFunctionEventInvokeConfig": _for(_retries),
    "DeleteFunctionEventInvokeConfig": _for(_retries),
    "ListFunctionEventInvokeConfigs": _for(_list_retries),
    "PublishVersion": _for(_publish),
    "GetAlias": _for(_alias),
    "CreateAlias": _for(_create_alias),
    "CreateFunction": _create,
    **dict.fromkeys(("GetLayerVersion", "DeleteLayerVersion"), _layer_version),
    **dict.fromkeys(
        ("GetLayerVersionPolicy", "AddLayerVersionPermission", "RemoveLayerVersionPermission"), _layer_policy
    ),
    "UpdateFunctionCode": _for(_update_code),
    "UpdateFunctionConfiguration": _for(_update_configuration),
    **dict.fromkeys(("TagResource", "UntagResource", "ListTags"), _tags),
}
