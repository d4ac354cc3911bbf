"""The entrance for every request to the simulated AWS: it checks the rate and the permissions, then calls the
service.

Faults of requests are injected by yard/network.py, before and after the gateway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from localcloud.base.refusals import by_operation
from simulation.aws.endpoint.api import Answer, Caller, Check, ServiceError
from simulation.world.world import World


class Service(Protocol):
    """A simulated service. Operations are methods in snake case: `(caller, request) -> answer`."""

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]: ...


class Permissions(Protocol):
    def first_denied(self, caller: Caller, checks: list[Check]) -> Check | None: ...

    def denial(self, check: Check, caller: Caller, service: str) -> ServiceError: ...


class Broken(Exception):  # noqa: N818 - a lost connection is not an error of AWS
    """The connection was lost; botocore raises a connection error."""


class Unreachable(Broken):
    """The connection could not be opened."""


class Gateway:
    """Passes requests to the services."""

    def __init__(self, world: World, services: Mapping[str, Service], iam: Permissions) -> None:
        self.world = world
        self.services = services
        self.iam = iam
        self.calls: Counter[str] = Counter()
        self.checked: Counter[tuple[str, str]] = Counter()
        """The first permission check of each request by role: (ARN, `ec2:CreateFleet`), or `s3.delete_objects`,
        which checks later."""
        self.throttle: Callable[[Caller, str, Mapping[str, Any]], ServiceError | None] = lambda *_: None
        """(caller, operation, request) -> an error if the request exceeds a rate (rates.py)."""
        self.after: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        """Callbacks after a successful request, by operation."""
        self.throttled_until: dict[str, datetime] = {}
        """The end of a burst of throttles, by service."""

    def answer(self, caller: Caller, service: str, operation: str, request: Mapping[str, Any]) -> Answer:
        """Return the answer of AWS without faults. Raises ServiceError for AWS's errors."""
        self.calls[f"{service}.{operation}"] += 1
        if service in self.throttled_until and self.world.now < self.throttled_until[service]:
            raise ServiceError("ThrottlingException", "Rate exceeded")
        refused = self.throttle(caller, f"{service}.{operation}", request)
        if refused:
            raise refused
        model = self.services[service]
        if caller.role != "root":
            checks = model.checks(caller, operation, request)
            self.checked[caller.role, checks[0].action if checks else f"{service}.{operation}"] += 1
            denied = self.iam.first_denied(caller, checks)
            if denied:
                self.world.note(caller.name, "is denied", action=denied.action, resource=denied.resource)
                raise self.iam.denial(denied, caller, service)
        method = getattr(model, operation, None)
        if method is None:
            raise ServiceError("NotSimulated", f"{service} has no {operation} in the simulator")
        if wrong := by_operation.refusal(service, operation, request):
            raise ServiceError(wrong.code, wrong.message, status=wrong.status)
        answer: Answer = method(caller, dict(request))
        if callback := self.after.get(f"{service}.{operation}"):
            callback(request)
        return answer
