"""Requests of any protocol, parsed into the names and types of botocore's models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import cbor2
from ministack import app
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException

MODELS = {"states": "stepfunctions", "monitoring": "cloudwatch"}
"""botocore's names of services whose names in ministack differ."""
MOST_BODY = 1 << 16
"""The longest body of an S3 request that is parsed. Objects are longer; lists of keys and parts may be, too."""
CBOR = "application/cbor"


def parse(
    service: str, method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]] | None:
    """Return the operation's model and the parameters; None for a request that no model describes."""
    name = MODELS.get(service, service)
    if headers.get("content-type", "") == CBOR:
        operation = get_service_model(name).operation_model(path.rpartition("/")[2])
        return operation, cbor2.loads(body) if body else {}
    if service == "s3":
        bucket = app._extract_s3_vhost_bucket(headers.get("host", ""))
        path = f"/{bucket}{path}" if bucket else path
        body = body if method == "POST" or (query and len(body) <= MOST_BODY) else b""
    url = f"http://localhost{quote(path, safe='/:$')}?{urlencode(query, doseq=True)}"
    kept = {key: value for key, value in headers.items() if key not in ("host", "content-length")}
    request = Request.from_primitives(method, url, kept, body)
    try:
        operation, in_path = get_service_router(name).match(request)
        protocol = determine_request_protocol(get_service_model(name), request.content_type)
        parsed = PROTOCOL_PARSERS[protocol](operation).parse(
            {
                "method": request.method,
                "values": request.values,
                "headers": request.headers,
                "body": body,
                "url_path": request.path,
                "url_params": in_path,
            }
        )
    except (HTTPException, ValueError, KeyError, AttributeError, TypeError, NotImplementedError, SyntaxError):
        return None  # ministack answers what cannot be parsed
    return operation, {key: value for key, value in parsed.items() if value is not None}
