"""The network between functions and AWS: every request of a function, and the faults injected into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from greenlet import GreenletExit

from lambdas.aws.clients import THROTTLED
from simulation.aws.dynamodb.writes import CONFLICT, cancelled_error
from simulation.aws.endpoint.api import REGION, Answer, Caller, ServiceError
from simulation.aws.endpoint.gateway import Broken, Gateway, Unreachable
from simulation.aws.functions import Functions, Invocation
from simulation.faults import ONE_AFTER_ANOTHER, READS, Fault, Kind, Plan, RequestFault, Visit
from simulation.world.world import World

REQUEST_SECONDS = (0.008, 0.06)
"""Seconds that a request takes in AWS's network."""
SLOW_SECONDS = 45.0
BURST, POLICY_DELAY = timedelta(minutes=1), timedelta(seconds=10)
"""The length of a burst of throttles, and the delay of IAM."""


class Network:
    """Sends requests of functions, and injects faults.

    `delete_all_rows` deletes the rows of all runs, which is one of the faults.
    """

    uses_short_path = True
    """True if requests without a fault skip HTTP."""

    def __init__(
        self,
        world: World,
        plan: Plan,
        functions: Functions,
        gateway: Gateway,
        delete_all_rows: Callable[[], None],
    ) -> None:
        self.world, self.plan, self.functions, self.gateway = world, plan, functions, gateway
        self.delete_all_rows = delete_all_rows
        self._chance = world.chance("network")
        self._environments = {
            name: {**config.environment, "AWS_REGION": REGION, "AWS_LAMBDA_FUNCTION_NAME": name}
            for name, config in functions.configs.items()
        }
        """The environments of the templates with the variables that Lambda adds."""
        self._denied_until: dict[tuple[str, str], datetime] = {}
        """The time at which a new policy takes effect, by function and operation."""
        self._denied_from: dict[tuple[str, str], datetime] = {}
        """The time until which a removed policy keeps working, by function and operation."""
        self._alike: dict[tuple[str, str], dict[int, int]] = {}
        """The numbers of invocations that sent the same request, in order."""
        self._refused: ServiceError | None = None
        """A refusal of AWS to be returned when the same request is sent through HTTP."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment of the function that runs now."""
        return self._environments[self._current().function.name]

    def move_to(self, region: str) -> None:
        """Tell functions that they run in this region."""
        for environment in self._environments.values():
            environment["AWS_REGION"] = region

    def send(self, service: str, operation: str, request: Mapping[str, Any], tries: int) -> Answer:
        """Answer one HTTP request of the current function."""
        invocation = self._current()
        if tries == 0:
            invocation.requests += 1
            invocation.operations.append(f"{service}.{operation}")
        point = _point(invocation, invocation.requests, service, operation)
        found = self._faults_at(point, invocation) if self._is_new(invocation, point) else ()
        faults = [RequestFault(fault.what) for fault in found]
        caller = Caller(invocation.name, invocation.function.role)
        if self._refused:
            refused, self._refused = self._refused, None
            raise refused
        for fault in faults:
            self._inject_before(fault, invocation, tries, service, operation)
        self._check_policy(invocation, operation)
        self.world.sleep(self._chance.uniform(*REQUEST_SECONDS))
        try:
            answer = self.gateway.answer(caller, service, operation, request)
        except ServiceError:
            self._inject_after(faults, invocation, tries)  # a refusal may not arrive either
            raise
        self._inject_after(faults, invocation, tries)
        return answer

    def answer_at_once(self, service: str, operation: str, request: Mapping[str, Any]) -> Answer | None:
        """Answer a request without HTTP. Return None if a fault, a throttle or a server error needs HTTP and
        botocore's retries."""
        invocation = self._current()
        point = _point(invocation, invocation.requests + 1, service, operation)
        if not self.uses_short_path or (
            self._is_new(invocation, point) and self._faults_at(point, invocation)
        ):
            return None
        invocation.requests += 1
        invocation.operations.append(f"{service}.{operation}")
        self.world.sleep(self._chance.uniform(*REQUEST_SECONDS))
        self._check_policy(invocation, operation)
        caller = Caller(invocation.name, invocation.function.role)
        try:
            return self.gateway.answer(caller, service, operation, request)
        except ServiceError as refused:
            if refused.status < 500 and refused.code not in THROTTLED:
                raise
            self._refused = refused
        invocation.requests -= 1
        invocation.operations.pop()
        return None

    def _faults_at(self, point: str, invocation: Invocation) -> Sequence[Fault]:
        return self.plan.at(Kind.REQUEST, point, self.visit(invocation, point.partition("/")[2]))

    def visit(self, invocation: Invocation, request: str = "") -> Visit:
        """Return the circumstances of a fault point in this invocation."""
        about = f"{invocation.function.name} {invocation.trigger or invocation.about} {request}"
        return Visit(invocation.during, about, invocation.operations)

    def _is_new(self, invocation: Invocation, point: str) -> bool:
        """Return True unless ONE_AFTER_ANOTHER similar invocations have already sent this request.

        Reads count as the same wherever they stand in the invocation; writes only at the same position.
        """
        request = point.partition("/")[2]
        operation = request.partition(".")[2]
        made_by = self._alike.setdefault(
            (invocation.about, operation if operation.startswith(READS) else request), {}
        )
        return made_by.setdefault(invocation.number, len(made_by)) < ONE_AFTER_ANOTHER

    def _current(self) -> Invocation:
        invocation = self.functions.current()
        if invocation is None:
            raise GreenletExit  # its process was killed
        return invocation

    def _check_policy(self, invocation: Invocation, operation: str) -> None:
        """Deny a request whose policy is not in force yet, or no longer."""
        key = invocation.function.name, operation
        until, begin = self._denied_until.get(key), self._denied_from.get(key)
        if (until and self.world.now < until) or (begin and self.world.now >= begin):
            raise _denial(invocation, operation)

    def _inject_before(
        self, fault: RequestFault, invocation: Invocation, tries: int, service: str, operation: str
    ) -> None:
        if tries == 0:
            self.world.note(invocation.name, f"fault: {fault}", operation=operation)
        match fault:
            case RequestFault.THROTTLED if tries == 0:
                raise ServiceError("ThrottlingException", "Rate exceeded")
            case RequestFault.THROTTLED_FOR_LONG:
                raise ServiceError("ThrottlingException", "Rate exceeded")
            case RequestFault.SERVER_ERROR if tries == 0:
                raise ServiceError("InternalError", "An internal error has occurred", status=500)
            case RequestFault.SERVER_ERRORS:
                raise ServiceError("InternalError", "An internal error has occurred", status=500)
            case RequestFault.LOST_BEFORE if tries == 0:
                raise Broken
            case RequestFault.UNREACHABLE:
                raise Unreachable
            case RequestFault.DENIED:
                raise _denial(invocation, operation)
            case RequestFault.DENIED_BRIEFLY if tries == 0:
                self._denied_until[invocation.function.name, operation] = self.world.now + POLICY_DELAY
            case RequestFault.REMOVED if tries == 0:
                self._denied_from[invocation.function.name, operation] = self.world.now + POLICY_DELAY
            case RequestFault.THROTTLED_IN_BURSTS if tries == 0:
                self.gateway.throttled_until[service] = self.world.now + BURST
            case RequestFault.CONFLICT if tries == 0:
                raise cancelled_error([CONFLICT])
            case RequestFault.CONFLICTS if tries < 20:
                raise cancelled_error([CONFLICT])
            case RequestFault.ROWS_DELETED if tries == 0:
                self.delete_all_rows()
            case RequestFault.SLOW if tries == 0:
                self.world.sleep(SLOW_SECONDS)
            case RequestFault.KILLED_BEFORE:
                self.functions.kill(invocation)
                raise GreenletExit

    def _inject_after(self, faults: Sequence[RequestFault], invocation: Invocation, tries: int) -> None:
        if RequestFault.LOST_AFTER in faults and tries == 0:
            raise Broken
        if RequestFault.KILLED_AFTER in faults:
            self.functions.kill(invocation)
            raise GreenletExit


def _denial(invocation: Invocation, operation: str) -> ServiceError:
    words = f"User: {invocation.function.role} is not authorized to perform: {operation}"
    return ServiceError("AccessDeniedException", words, status=403)


def _point(invocation: Invocation, request: int, service: str, operation: str) -> str:
    """Return the fault point: the function, the invocation, and the number of the request."""
    return f"{invocation.name}/{request} {service}.{operation}"
