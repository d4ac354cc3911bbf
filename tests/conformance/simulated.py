"""A simulated cloud with the resources that the tables of refusals name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from simulation.aws.dynamodb import DynamoDb
from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.aws.endpoint.gateway import Gateway
from simulation.aws.eventbridge import EventBridge
from simulation.aws.iam import Iam
from simulation.aws.notifications import Notifications
from simulation.aws.s3 import S3
from simulation.aws.stepfunctions import Machine, StepFunctions
from simulation.world.world import World
from tests.contract.refused import Refused, filled

CALLER = Caller("user", "root")
ENDS = {"QueryLanguage": "JSONata", "StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
ABSENT = ("KMS.",)
"""Codes of errors about resources that the simulator does not have."""


def answer(row: Refused, named: Mapping[str, Any]) -> tuple[str, int, str] | None:
    """Return the simulator's answer; None if it does not have the operation, the request or the resource."""
    models, own = _models(named)
    operation = getattr(models.get(row.service), row.operation, None)
    is_operation = operation is not None and [*inspect.signature(operation).parameters] == [
        "caller",
        "request",
    ]
    if not is_operation or row.says[0].startswith(ABSENT):
        return None
    try:
        gateway = Gateway(models["world"], models, Iam({}))
        request = filled(row.request, {**named, **own})
        if isinstance(request.get("Body"), str):
            request["Body"] = request["Body"].encode()  # as boto3 sends it
        gateway.answer(CALLER, row.service, row.operation, request)
    except ServiceError as refused:
        return None if refused.code == "NotSimulated" else (refused.code, refused.status, refused.message)
    return "", 200, ""


def _models(named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    world = World(1)
    notices, states, objects = Notifications(world), StepFunctions(world, _no_function, _no_event), S3(world)
    tables = DynamoDb(world)
    notices.create_topic(named["$TOPIC"])
    tables.create_table(named["$TABLE"])
    for bucket in (named["$BUCKET"], named["$VERSIONED"]):
        objects.create_bucket(bucket)
    written = objects.write(named["$BUCKET"], "key", b"text")
    deleted = {"Bucket": named["$VERSIONED"], "Key": "deleted"}
    gone = objects.write(named["$VERSIONED"], "deleted", b"old")
    objects.delete_object(CALLER, {**deleted, "VersionId": gone.id})
    marker = objects.delete_object(CALLER, deleted)["VersionId"]
    states.create(Machine(named["$MACHINE"], "refused", ENDS, named["$ROLE"]))
    taken = {"stateMachineArn": named["$MACHINE"], "name": "taken", "input": "0"}
    states.start_execution(CALLER, taken)
    models = {
        "world": world,
        "dynamodb": tables,
        "events": EventBridge(world, [], _no_event),
        "s3": objects,
        "sns": notices,
        "stepfunctions": states,
    }
    return models, {"$GONE": gone.id, "$MARKER": marker, "$ETAG": written.etag}


def _no_function(*_: Any) -> None:
    raise ServiceError("NotSimulated", "no function is called here")


def _no_event(*_: Any) -> None:
    pass
