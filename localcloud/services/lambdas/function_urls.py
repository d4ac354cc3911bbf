"""Function URLs: their address here, the two permissions of a caller, and the limit of a request.

AWS requires both lambda:InvokeFunctionUrl and lambda:InvokeFunction since October 2025. An address is a path of the
endpoint, because no client resolves a name below `on.aws` to this machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ministack import app
from ministack.core.responses import new_uuid
from ministack.services import lambda_svc

from localcloud.base.context import Context
from localcloud.patches import MINISTACK
from localcloud.services.iam.signatures import UNSIGNED, SignatureRefused
from localcloud.services.lambdas.refusals import MOST_REQUEST_BYTES

PATH = "/_aws/lambda-url/"
FORBIDDEN = (
    "Forbidden. For troubleshooting Function URL authorization issues, see: "
    "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
)

Answer = tuple[int, dict[str, str], bytes]


def install(context: Context) -> None:
    """Answer requests to function URLs as AWS does."""
    stock_create = MINISTACK.stock("services.lambda_svc:_create_function_url_config")
    stock_id = MINISTACK.stock("services.lambda_svc:_function_url_id")
    verify = MINISTACK.stock("app:_handle_post_body_shortcuts")

    def create(name: str, data: Mapping[str, Any], qualifier: str | None) -> Any:
        status, headers, body = stock_create(name, data, qualifier)
        if status >= 400:
            return status, headers, body
        config = lambda_svc._function_urls[lambda_svc._url_config_key(name, qualifier)]
        config["FunctionUrl"] = f"{context.endpoint}{PATH}{stock_id(config['FunctionUrl'])}/"
        return (
            status,
            headers,
            json.dumps({**json.loads(body), "FunctionUrl": config["FunctionUrl"]}).encode(),
        )

    def id_of(address: str) -> str:
        """Return the id in an address of either form."""
        _, found, rest = address.partition(PATH)
        return rest.partition("/")[0] if found else str(stock_id(address))

    async def verified(
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: Mapping[str, Any],
        request_id: str,
    ) -> Answer | None:
        refused: Answer | None = await verify(method, path, headers, body, query, request_id)
        if refused is None or app._parse_lambda_url(headers.get("host", ""), path) is None:
            return refused
        is_unsigned = isinstance(refused, SignatureRefused) and refused.code == UNSIGNED
        return _refuse(403, FORBIDDEN) if is_unsigned else refused

    MINISTACK.replace("services.lambda_svc:_create_function_url_config", create)
    MINISTACK.replace("services.lambda_svc:_function_url_id", id_of)
    MINISTACK.replace("app:_handle_post_body_shortcuts", verified)
    MINISTACK.replace("app:_handle_lambda_url_request", handle)


async def handle(
    host: str,
    path: str,
    method: str,
    headers: dict[str, str],
    body: bytes,
    query: dict[str, Any],
    source_ip: str | None = None,
) -> Answer | None:
    """Answer a request to a function URL; None for another request."""
    parsed = app._parse_lambda_url(host, path)
    if parsed is None:
        return None
    url_id, function_path = parsed
    arn, keys, resolved = app._function_url_auth_target(url_id)
    for action, known in (
        ("lambda:InvokeFunctionUrl", keys),
        ("lambda:InvokeFunction", {"lambda:InvokedViaFunctionUrl": "true"}),
    ):
        if app._enforce_data_plane(
            "lambda", action, headers, query, "", resource_arn=arn, service_context=known
        ):
            return _refuse(403, FORBIDDEN)
    if len(body) > MOST_REQUEST_BYTES:
        return _refuse(413, "Request Entity Too Large")
    answer: Answer = await lambda_svc.handle_function_url_request(
        url_id, method, function_path, headers, body, query, resolved=resolved, source_ip=source_ip
    )
    return answer


def _refuse(status: int, message: str) -> Answer:
    kinds = {403: "AccessDeniedException", 413: "RequestEntityTooLargeException"}
    headers = {
        "Content-Type": "application/json",
        "x-amzn-RequestId": new_uuid(),
        "x-amzn-ErrorType": kinds[status],
    }
    return status, headers, json.dumps({"Message": message}).encode()
