"""Dispatch of HTTP requests to moto's EC2.

moto keeps the store, parses requests and serializes answers. `Ec2Response` puts our actions in front of moto's. A
request holds LOCK from start to end. Events and calls to other services happen outside the lock.
"""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

import boto3
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.config import Config
from ministack.core.responses import get_account_id, get_region, new_uuid
from moto.core.request import Request
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from localcloud.services.ec2.actions import validation
from localcloud.services.ec2.actions.addresses import AddressActions
from localcloud.services.ec2.actions.base import Ec2
from localcloud.services.ec2.actions.catalogue import CatalogueActions
from localcloud.services.ec2.actions.dependencies import DependencyActions
from localcloud.services.ec2.actions.encryption import EncryptionActions
from localcloud.services.ec2.actions.fleets import FleetActions
from localcloud.services.ec2.actions.images import ImageActions
from localcloud.services.ec2.actions.instances import InstanceActions
from localcloud.services.ec2.actions.launch import LaunchActions
from localcloud.services.ec2.actions.spot import SpotActions
from localcloud.services.ec2.store.records import LOCK

log = logging.getLogger(__name__)

Answer = tuple[int, dict[str, str], bytes]

NOT_FORWARDED = {"host", "content-length", "authorization", "content-encoding"}
"""Headers that moto must not see: ministack has checked the signature and decoded the body."""

SET = re.compile(r"\{('[^{}]*')\}")
"""Pattern of ids in moto's "not found" messages."""
NO_MESSAGE = re.compile(r"<Code>([^<]*)</Code>(\s*)<Message\s*(?:/>|>\s*</Message>)")
CHANGES_RULES = re.compile(
    r"^(?!Describe).*(SecurityGroup|NetworkInterface|Instances|InstanceAttribute|Fleet)"
)
"""Actions that may change which hosts are reachable."""
MOTOS_REQUEST_ID = b"<requestId>request-id</requestId>"

_for_a_service: contextvars.ContextVar[bool] = contextvars.ContextVar("for_a_service", default=False)
"""True while CloudFormation is the caller, which may write tags with the prefix `aws:`."""


class Ec2Response(
    LaunchActions,
    FleetActions,
    InstanceActions,
    SpotActions,
    ImageActions,
    CatalogueActions,
    DependencyActions,
    EncryptionActions,
    AddressActions,
    EC2Response,
):
    """The actions of all mixins. They take precedence over moto's."""

    def call_action(self) -> Any:
        try:
            validation.check(self._get_action(), self.params, for_a_service=_for_a_service.get())
        except EC2ClientError as refused:
            status, headers, body = self.serialized(ActionResult(refused))
            return status, headers, body
        try:
            return super().call_action()
        finally:
            if CHANGES_RULES.search(self._get_action()):
                self.ec2.hypervisor.rules_changed()


class Api:
    """Handler of every EC2 request, from the network or from inside the server."""

    def __init__(self, ec2: Ec2) -> None:
        self._responses: type[Ec2Response] = type("Ec2Response", (Ec2Response,), {"ec2": ec2})
        self._clients: dict[str, Any] = {}

    def dispatch(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, query: str = ""
    ) -> Answer:
        """Answer a request of the current account and region, always in EC2's XML, also for internal errors."""
        url = f"https://ec2.{get_region()}.amazonaws.com{path}" + (f"?{query}" if query else "")
        kept = {name: value for name, value in headers.items() if name.lower() not in NOT_FORWARDED}
        kept["x-moto-account-id"] = get_account_id()
        try:
            with LOCK:
                request = Request.from_primitives(method, url, kept, body)
                status, answer_headers, answer = self._responses.dispatch(request)
        except NotImplementedError as missing:
            return _not_implemented(missing)
        except Exception as fault:  # EC2 clients can only parse EC2's XML
            log.exception("an EC2 request failed inside the local cloud")
            return error_answer("InternalError", f"{type(fault).__name__}: {fault}", 500)
        if int(status) >= 400:
            return _error_as_aws_writes_it(int(status), answer)
        content = answer.encode() if isinstance(answer, str) else answer
        content = content.replace(MOTOS_REQUEST_ID, f"<requestId>{new_uuid()}</requestId>".encode(), 1)
        answer_headers = {name: str(value) for name, value in answer_headers.items() if name != "status"}
        return int(status), answer_headers, content

    async def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Answer:
        """Handle a request for ministack's service `ec2`."""
        pairs = [(name, value) for name, given in (query_params or {}).items() for value in _as_list(given)]
        query = urllib.parse.urlencode(pairs) if method == "GET" else ""
        return await asyncio.to_thread(self.dispatch, method, path, headers, body, query)

    def client(self) -> Any:
        """Return a boto3 client of the current region that calls `dispatch` directly, from any thread.

        It uses the account of the calling context, so one client serves all.
        """
        region = get_region()
        if region not in self._clients:
            self._clients[region] = self._make_client(region)
        return self._clients[region]

    def _make_client(self, region: str) -> Any:
        ec2 = boto3.client(
            "ec2",
            region_name=region,
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106 - nothing checks it
            config=Config(
                parameter_validation=False, ignore_configured_endpoint_urls=True, retries={"max_attempts": 1}
            ),
        )

        def send(request: AWSRequest, **_: Any) -> AWSResponse:
            headers = {k: v.decode() if isinstance(v, bytes) else v for k, v in request.headers.items()}
            before = _for_a_service.set(True)
            try:
                status, answer_headers, body = self.dispatch(request.method, "/", headers, request.body)
            finally:
                _for_a_service.reset(before)
            return AWSResponse(request.url, status, answer_headers, _Body(body))

        ec2.meta.events.register("before-send.ec2", send)
        return ec2


def error_answer(code: str, message: str, status: int = 400) -> Answer:
    """Return an EC2 error without a namespace, as AWS and Step Functions' aws-sdk integration format it."""
    document = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Response><Errors><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
        f"<RequestID>{new_uuid()}</RequestID></Response>"
    )
    return status, {"Content-Type": "text/xml"}, document.encode()


def _error_as_aws_writes_it(status: int, answer: str | bytes) -> Answer:
    text = answer.decode() if isinstance(answer, bytes) else answer
    text = SET.sub(lambda named: named.group(1).replace("'", ""), text)
    text = NO_MESSAGE.sub(r"<Code>\1</Code>\2<Message>The request was refused: \1</Message>", text)
    return (
        status,
        {"Content-Type": "text/xml"},
        re.sub(r'<Response xmlns="[^"]*">', "<Response>", text).encode(),
    )


def _not_implemented(missing: NotImplementedError) -> Answer:
    """Return AWS's error for a filter or an action that moto does not implement."""
    text = " ".join(str(part) for part in missing.args)
    named = re.search(
        r"filter (\S+) in|implemented in Moto for '([^']+)'|The filter '([^']+)'|Moto yet.*, '?([\w-]+)", text
    )
    if named is not None:
        name = next(group for group in named.groups() if group)
        return error_answer("InvalidParameterValue", f"The filter '{name}' is invalid")
    return error_answer("InvalidAction", f"The local cloud's EC2 does not support this action ({text})")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class _Body(io.BytesIO):
    """The body of an answer, as botocore reads it."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()
