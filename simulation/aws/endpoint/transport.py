"""The transport of botocore's clients: HTTP requests go to the gateway of the current world.

botocore validates and completes parameters as usual. The answer is written in the protocol of the service (XML
by moto's serializers), so that botocore parses it and retries as on AWS. Requests are not signed.

Most requests succeed, and HTTP changes nothing then. These take a short path from validated parameters to a
parsed answer, without botocore's endpoints, serializers and headers. Event handlers for parameters and answers
are called on both paths. A test checks that both paths give the same world.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import boto3
import botocore
import botocore.endpoint
import botocore.retries.quota
import botocore.useragent
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.client import BaseClient
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError
from botocore.hooks import first_non_none_response
from botocore.regions import EndpointRulesetResolver
from botocore.validate import ParamValidator
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model

from lambdas.aws import clients
from simulation.aws.endpoint.api import REGION, Answer, Request, ServiceError, Structure
from simulation.aws.endpoint.gateway import Broken, Unreachable
from simulation.aws.endpoint.shapes import fits

Send = Callable[[str, str, Mapping[str, Any], int], Answer]
"""(service, operation, request, number of retries) -> answer; raises ServiceError or Broken."""


JSON = {"Content-Type": "application/x-amz-json-1.1"}
Short = Callable[[str, str, Mapping[str, Any]], Answer | None]
"""(service, operation, request) -> answer, or None if the request needs HTTP. Raises ServiceError for errors that
botocore does not retry."""
Call = Callable[[BaseClient, str, Request], Any]
"""(client, operation, parameters) -> the result of botocore's method."""


class Transport:
    """The transport of this process. The product caches clients, so all worlds share them."""

    def __init__(self) -> None:
        self.send: Send = _no_world
        self.short: Short = _no_world
        self.sleep: Callable[[float], None] = _no_sleep
        self._requests: dict[int, tuple[Any, Mapping[str, Any], int]] = {}
        self._before: dict[Any, dict[str, Any]] = {}
        """The original attributes of botocore, by their owner."""
        self._serializers: dict[tuple[str, str], Any] = {}
        self._operations: dict[tuple[Any, str], _Operation] = {}

    def install(self) -> None:
        """Direct all clients of boto3's default session to this transport, and let botocore sleep in virtual time."""
        boto3.setup_default_session(
            region_name=REGION,
            aws_access_key_id="simulated",
            aws_secret_access_key="simulated",  # noqa: S106 - never checked
        )
        session = boto3.DEFAULT_SESSION
        assert session is not None
        session.events.register("before-parameter-build", self._remember)
        session.events.register("before-call", self._begin)
        session.events.register("before-send", self._answer)
        session.events.register("choose-signer", lambda **_: botocore.UNSIGNED)
        self._put(BaseClient, "get_paginator", functools.cache(BaseClient.get_paginator))
        self._put(BaseClient, "_make_api_call", self._wrap(BaseClient._make_api_call))  # noqa: SLF001
        self._put(EndpointRulesetResolver, "construct_endpoint", _cache_endpoints())
        self._put(botocore.useragent.UserAgentString, "to_string", lambda _: "simulated")
        # The limit of about 100 retries is meant for one function, but here all functions share the clients.
        self._put(botocore.retries.quota.RetryQuota, "acquire", lambda *_: True)
        self._put(botocore.endpoint, "time", SimpleNamespace(sleep=lambda seconds: self.sleep(seconds)))

    def remove(self) -> None:
        """Restore botocore, so that new clients call AWS."""
        boto3.DEFAULT_SESSION = None
        clients.client.cache_clear()
        for owner, stock in self._before.items():
            for name, value in stock.items():
                setattr(owner, name, value)
        self._before.clear()
        self._operations.clear()
        self.send, self.short, self.sleep = _no_world, _no_world, _no_sleep

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._before.setdefault(owner, {}).setdefault(name, getattr(owner, name))
        setattr(owner, name, value)

    def serve(self, send: Send, short: Short, sleep: Callable[[float], None], *, seed: int) -> None:
        """Let a world answer from now on. Its seed determines the jitter of botocore."""
        self.send, self.short, self.sleep = send, short, sleep
        self._requests.clear()
        random.seed(seed)

    def _wrap(self, stock: Call) -> Call:
        """Return the method that sends requests: by the short path if possible, otherwise with botocore."""

        def call(client: BaseClient, operation: str, given: Request) -> Any:
            way = self._operations.get((client, operation))
            if way is None:
                way = self._operations[client, operation] = _Operation.of(client, operation)
            context = {"client_region": client.meta.region_name, "client_config": client.meta.config}
            parameters = way.parameters(dict(given), context)
            if way.takes(parameters):
                try:
                    answer = self.short(way.service, way.name, parameters)
                except ServiceError as refused:
                    error = {"Code": refused.code, "Message": refused.message}
                    return way.finish(context, refused.status, {"Error": error, **refused.more})
                if answer is not None:
                    return way.finish(context, 200, answer)
            return stock(client, operation, given)

        return call

    def _remember(self, params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["parameters"] = params

    def _begin(self, model: Any, context: dict[str, Any], params: Request, **_: Any) -> None:
        params["headers"]["X-Simulated"] = str(id(context))
        self._requests[id(context)] = (model, context["parameters"], 0)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        key = int(request.headers["X-Simulated"])
        model, parameters, tries = self._requests[key]
        self._requests[key] = (model, parameters, tries + 1)
        service = model.service_model.service_name
        try:
            answer = self.send(service, xform_name(model.name), parameters, tries)
        except Unreachable as unreachable:
            raise EndpointConnectionError(endpoint_url=request.url) from unreachable
        except Broken as broken:
            raise ConnectionClosedError(endpoint_url=request.url) from broken
        except ServiceError as refused:
            return _response(request, *self._refusal(model, refused))
        return _response(request, *self._serialized(model, answer))

    def _serialized(self, model: Any, answer: Any) -> tuple[int, Mapping[str, str], bytes]:
        service = model.service_model
        if "json" in service.resolved_protocol and not isinstance(answer, Exception):
            failed = {"X-Amz-Function-Error": answer["FunctionError"]} if "FunctionError" in answer else {}
            body = answer.pop("Payload") if "Payload" in answer else json.dumps(answer, default=_as_json)
            return 200, JSON | failed, body.encode() if isinstance(body, str) else body
        key = (service.service_name, model.name)
        if key not in self._serializers:
            kind = get_serializer_class(service.service_name, service.resolved_protocol)
            shown = get_service_model(service.service_name).operation_model(model.name)
            self._serializers[key] = kind(operation_model=shown)
        written = self._serializers[key].serialize(answer)
        body = written["body"]
        return written["status_code"], written["headers"], body.encode() if isinstance(body, str) else body

    def _refusal(self, model: Any, refused: ServiceError) -> tuple[int, Mapping[str, str], bytes]:
        error = type(
            "Refusal", (Exception,), {"code": refused.code, "message": refused.message, **refused.more}
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # moto warns about error codes that the service's model lacks
            _, headers, body = self._serialized(model, error(refused.message))
        return refused.status, headers, body


@dataclass
class _Operation:
    """The short path of one operation of a client, with the effects of botocore that are visible outside."""

    client: BaseClient
    model: Any
    service: str
    name: str
    events: tuple[str, str, str]
    """Names of botocore's events for given parameters, complete parameters, and the answer."""

    @classmethod
    def of(cls, client: BaseClient, operation: str) -> _Operation:
        service = client.meta.service_model
        model = service.operation_model(operation)
        get_service_model(service.service_name)  # cached before forks read it
        about = f"{service.service_id.hyphenize()}.{operation}"
        events = (f"provide-client-params.{about}", f"before-parameter-build.{about}", f"after-call.{about}")
        return cls(client, model, service.service_name, xform_name(operation), events)

    def parameters(self, given: Request, context: Structure) -> Request:
        """Return the parameters as botocore would send them."""
        emit, (provided, built, _) = self.client.meta.events.emit, self.events
        responses = emit(provided, params=given, model=self.model, context=context)
        parameters: Request = first_non_none_response(responses, default=given)
        emit(built, params=parameters, model=self.model, context=context)
        return parameters

    def takes(self, parameters: Request) -> bool:
        """Return True if botocore accepts the parameters."""
        shape = self.model.input_shape
        if shape is None or fits(shape, parameters):
            return True
        return not ParamValidator().validate(parameters, shape).has_errors()

    def finish(self, context: dict[str, Any], status: int, answer: Answer) -> Answer:
        """Return the answer as botocore parses it. Raises the exceptions of botocore."""
        for streamed in ("Body", "Payload"):
            if isinstance(answer.get(streamed), bytes):
                answer[streamed] = _Body(answer[streamed])
        about = {"HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0}
        parsed = answer | {"ResponseMetadata": about}
        http = SimpleNamespace(status_code=status, headers={})
        emit = self.client.meta.events.emit
        emit(self.events[2], http_response=http, parsed=parsed, model=self.model, context=context)
        if status < 300:
            return parsed
        raise self.client.exceptions.from_code(parsed["Error"]["Code"])(parsed, self.model.name)


def _cache_endpoints() -> Callable[..., Any]:
    """Return a cached version of botocore's endpoint resolution, which depends only on operation and bucket."""
    stock, found = EndpointRulesetResolver.construct_endpoint, {}

    def construct_endpoint(
        self: EndpointRulesetResolver,
        operation_model: Any,
        call_args: Mapping[str, Any],
        request_context: Any,
    ) -> Any:
        key = operation_model.service_model.service_name, operation_model.name, call_args.get("Bucket")
        if key not in found:
            found[key] = stock(self, operation_model, call_args, request_context)
        return found[key]

    return construct_endpoint


def _response(request: Any, status: int, headers: Mapping[str, str], body: bytes) -> AWSResponse:
    return AWSResponse(request.url, status, {str(k): str(v) for k, v in headers.items()}, _Body(body))


def _as_json(value: Any) -> Any:
    """Serialize instants and bytes as JSON protocols do."""
    return value.timestamp() if isinstance(value, datetime) else base64.b64encode(value).decode()


class _Body(io.BytesIO):
    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()

    def iter_chunks(self, *_: Any) -> Iterator[bytes]:
        yield self.read()


def _no_world(*_: Any) -> Answer:
    raise RuntimeError("no simulated world is running")


def _no_sleep(_: float) -> None:
    raise RuntimeError("no simulated world is running")


TRANSPORT = Transport()
