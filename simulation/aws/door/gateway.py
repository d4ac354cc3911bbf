"""Every request to the simulated AWS passes here: whoever asks, its permission, its answer.

What goes wrong with a request is a RequestFault: yard/network.py deals with it, before the gateway is asked or after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from simulation.aws.door.api import Answer, Caller, Check, ServiceError
from simulation.world.world import World


class Service(Protocol):
    """Operations are methods in snake case: `(caller, request) -> answer`."""

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]: ...


class Permissions(Protocol):
    def first_denied(self, caller: Caller, checks: list[Check]) -> Check | None: ...

    def denial(self, check: Check, caller: Caller, service: str) -> ServiceError: ...


class Broken(Exception):  # noqa: N818 - no answer at all, which is no error of AWS
    """The connection broke: botocore sees a connection error."""


class Unreachable(Broken):
    """There was none to begin with."""


class Gateway:
    """See the module."""

    def __init__(self, world: World, services: Mapping[str, Service], iam: Permissions) -> None:
        self.world = world
        self.services = services
        self.iam = iam
        self.calls: Counter[str] = Counter()
        self.asked: Counter[tuple[str, str]] = Counter()
        """The first checks of IAM, by role: (ARN, `ec2:CreateFleet`); `s3.delete_objects` where it is asked later."""
        self.throttle: Callable[[Caller, str, Mapping[str, Any]], ServiceError | None] = lambda *_: None
        """(caller, operation, request): token buckets (rates.py), where the world has any."""
        self.after: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        """The action of the world after such a request was answered."""

    def answer(self, caller: Caller, service: str, operation: str, request: Mapping[str, Any]) -> Answer:
        """The answer of a healthy AWS. Raises ServiceError, AWS's no."""
        self.calls[f"{service}.{operation}"] += 1
        refused = self.throttle(caller, f"{service}.{operation}", request)
        if refused:
            raise refused
        asked = self.services[service]
        if caller.role != "root":
            checks = asked.checks(caller, operation, request)
            self.asked[caller.role, checks[0].action if checks else f"{service}.{operation}"] += 1
            denied = self.iam.first_denied(caller, checks)
            if denied:
                self.world.note(caller.name, "is denied", action=denied.action, resource=denied.resource)
                raise self.iam.denial(denied, caller, service)
        method = getattr(asked, operation, None)
        if method is None:
            raise ServiceError("NotSimulated", f"{service} has no {operation} in the simulator")
        answered: Answer = method(caller, dict(request))
        if told := self.after.get(f"{service}.{operation}"):
            told(request)
        return answered
