"""ECR's API where ministack differs: passwords by caller, addresses and sizes of layers, and the registry of another
account."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.core.router import extract_access_key_id
from ministack.services import ecr

from localcloud.patches import MINISTACK
from localcloud.services.ecr.access import HOURS, USER, Access
from localcloud.services.ecr.registry import Registry

Answer = tuple[int, dict[str, str], bytes]


def install(given: Access, registry: Registry) -> None:
    """Wrap ministack's handler of ECR's API."""
    stock = MINISTACK.stock("app:SERVICE_HANDLERS")["ecr"]

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Answer:
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        asked = json.loads(body or b"{}")
        if operation == "GetAuthorizationToken":
            key = extract_access_key_id(dict(headers), dict(query_params))
            return _authorization(given.password(key, time.time()))
        with request_scope(str(asked.get("registryId") or get_account_id()), get_region()):
            answer: Answer = await stock(method, path, headers, body, query_params)
            return _corrected(operation, asked, answer, registry)

    MINISTACK.extend("app:SERVICE_HANDLERS", {"ecr": handle})


def _authorization(password: str) -> Answer:
    found = {
        "authorizationToken": base64.b64encode(f"{USER}:{password}".encode()).decode(),
        "expiresAt": int(time.time()) + HOURS * 3600,
        "proxyEndpoint": f"https://{_own()}",
    }
    return _as_json({"authorizationData": [found]})


def _corrected(operation: str, asked: Mapping[str, Any], answer: Answer, registry: Registry) -> Answer:
    if answer[0] != 200:
        return answer
    name, found = str(asked.get("repositoryName", "")), json.loads(answer[2])
    if operation == "GetDownloadUrlForLayer":
        digest = str(asked.get("layerDigest", ""))
        if digest not in ecr._layer_blobs.get(name, {}):
            message = (
                f"The layer with digest '{digest}' does not exist within the repository with name '{name}'"
            )
            error = {"__type": "LayersNotFoundException", "message": message}
            return 400, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(error).encode()
        return _as_json({**found, "downloadUrl": registry.layer_url(_own(), name, digest)})
    if operation == "DescribeImages":
        manifests = {image["imageDigest"]: image["imageManifest"] for image in ecr._images.get(name, [])}
        for detail in found["imageDetails"]:
            layers = json.loads(manifests[detail["imageDigest"]]).get("layers", ())
            detail["imageSizeInBytes"] = sum(layer["size"] for layer in layers)
        return _as_json(found)
    return answer


def _own() -> str:
    return f"{get_account_id()}.dkr.ecr.{get_region()}.amazonaws.com"


def _as_json(found: Mapping[str, Any]) -> Answer:
    return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(found).encode()
