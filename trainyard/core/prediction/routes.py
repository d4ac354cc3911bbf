"""Paths of TensorFlow Serving's REST interface and of Open Inference v2."""

import re
from enum import StrEnum

from trainyard.core.prediction.http import HttpRequest, RefusedError, Status
from trainyard.protocol.ledger.models import DEFAULT
from trainyard.values.lazy import dataclass

V1 = re.compile(
    r"/v1/models/(?P<model>[^/:]+)(/versions/(?P<version>[^/:]+)|/labels/(?P<label>[^/:]+))?(?P<act>/metadata|/predict|:\w+)?"
)
V2 = re.compile(r"/v2/models/(?P<model>[^/]+)(/versions/(?P<version>[^/]+))?(?P<act>/infer|/ready)?")
PATHS = (
    "/v1/models/MODEL[/versions/NUMBER|/labels/ALIAS][/metadata|:predict], "
    "/v2/models/MODEL[/versions/NUMBER][/infer|/ready], /v2/health/ready"
)
OTHER_VERBS = (":classify", ":regress")


class Act(StrEnum):
    HEALTH = "health"
    STATUS = "status"
    METADATA = "metadata"
    PREDICT = "predict"
    READY = "ready"
    DESCRIBE = "describe"
    INFER = "infer"


ACTS = {
    (1, None): Act.STATUS,
    (1, "/metadata"): Act.METADATA,
    (1, ":predict"): Act.PREDICT,
    (1, "/predict"): Act.PREDICT,  # many versions of curl sign a colon wrongly
    (2, None): Act.DESCRIBE,
    (2, "/ready"): Act.READY,
    (2, "/infer"): Act.INFER,
}
WITH_BODY = (Act.PREDICT, Act.INFER)


@dataclass(frozen=True, kw_only=True)
class Route:
    act: Act
    model: str = ""
    version: str | None = None
    """The number or the label of a version; None if an alias names it."""
    alias: str = DEFAULT


def route_of(request: HttpRequest) -> Route:
    """Return the meaning of a request's path. Raises RefusedError."""
    path = request.path
    if path in ("/v2/health/ready", "/v2/health/live"):
        return _checked(Route(act=Act.HEALTH), request)
    for protocol, pattern in ((1, V1), (2, V2)):
        if found := pattern.fullmatch(path):
            verb = found["act"]
            if verb in OTHER_VERBS:
                raise RefusedError(
                    Status.BAD_REQUEST,
                    f"{verb} works only with tensorflow_model_server; use :predict with the signature's inputs",
                )
            if (protocol, verb) not in ACTS:
                raise RefusedError(Status.NOT_FOUND, f"found {verb}; use :predict")
            alias = found.groupdict().get("label") or DEFAULT
            given = Route(
                act=ACTS[protocol, verb], model=found["model"], version=found["version"], alias=alias
            )
            return _checked(given, request)
    raise RefusedError(Status.NOT_FOUND, f"found the path {path}; wanted one of {PATHS}")


def _checked(given: Route, request: HttpRequest) -> Route:
    wanted = "POST" if given.act in WITH_BODY else "GET"
    if request.method != wanted:
        raise RefusedError(Status.BAD_REQUEST, f"{request.path}: found {request.method}; wanted {wanted}")
    return given
