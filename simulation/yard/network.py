"""The network between functions and AWS: every request of a function, and the faults injected into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from greenlet import GreenletExit

from lambdas.aws.clients import THROTTLED
from simulation.aws.door.api import REGION, Answer, Caller, ServiceError
from simulation.aws.door.gateway import Broken, Gateway, Unreachable
from simulation.aws.dynamodb.writes import CONFLICT, cancelled
from simulation.aws.functions import Functions, Invocation
from simulation.faults import ONE_AFTER_ANOTHER, READS, Fault, Kind, Passed, Plan, RequestFault
from simulation.world.world import World

REQUEST_SECONDS = (0.008, 0.06)
"""Seconds that a request takes in AWS's network."""
SLOW_SECONDS = 45.0


class Network:
    """Sends requests of functions, and injects faults.

    `delete_all_rows` deletes the rows of all runs, which is one of the faults.
    """

    takes_short_way = True
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
            name: {**facts.environment, "AWS_REGION": REGION, "AWS_LAMBDA_FUNCTION_NAME": name}
            for name, facts in functions.facts.items()
        }
        """The environments of the templates with the variables that Lambda adds."""
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
            invocation.asks.append(f"{service}.{operation}")
        place = _place(invocation, invocation.requests, service, operation)
        found = self._struck_at(place, invocation) if self._is_new(invocation, place) else ()
        faults = [RequestFault(fault.what) for fault in found]
        caller = Caller(invocation.name, invocation.function.role)
        if self._refused:
            refused, self._refused = self._refused, None
            raise refused
        for fault in faults:
            self._strike_before(fault, invocation, tries, operation)
        self.world.sleep(self._chance.uniform(*REQUEST_SECONDS))
        try:
            answer = self.gateway.answer(caller, service, operation, request)
        except ServiceError:
            self._strike_after(faults, invocation, tries)  # a refusal may not arrive either
            raise
        self._strike_after(faults, invocation, tries)
        return answer

    def answer_at_once(self, service: str, operation: str, request: Mapping[str, Any]) -> Answer | None:
        """Answer a request without HTTP. Return None if a fault, a throttle or a server error needs HTTP and
        botocore's retries."""
        invocation = self._current()
        place = _place(invocation, invocation.requests + 1, service, operation)
        if not self.takes_short_way or (
            self._is_new(invocation, place) and self._struck_at(place, invocation)
        ):
            return None
        invocation.requests += 1
        invocation.asks.append(f"{service}.{operation}")
        self.world.sleep(self._chance.uniform(*REQUEST_SECONDS))
        caller = Caller(invocation.name, invocation.function.role)
        try:
            return self.gateway.answer(caller, service, operation, request)
        except ServiceError as refused:
            if refused.status < 500 and refused.code not in THROTTLED:
                raise
            self._refused = refused
        invocation.requests -= 1
        invocation.asks.pop()
        return None

    def _struck_at(self, place: str, invocation: Invocation) -> Sequence[Fault]:
        return self.plan.at(Kind.REQUEST, place, self.passed(invocation, place.partition("/")[2]))

    def passed(self, invocation: Invocation, request: str = "") -> Passed:
        """Return the circumstances of a fault point in this invocation."""
        about = f"{invocation.function.name} {invocation.heard or invocation.about} {request}"
        return Passed(invocation.during, about, invocation.asks)

    def _is_new(self, invocation: Invocation, place: str) -> bool:
        """Return True unless ONE_AFTER_ANOTHER similar invocations have already sent this request.

        Reads count as the same wherever they stand in the invocation; writes only at the same position.
        """
        request = place.partition("/")[2]
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

    def _strike_before(self, fault: RequestFault, invocation: Invocation, tries: int, operation: str) -> None:
        if tries == 0:
            self.world.note(invocation.name, f"meets a fault: {fault}", operation=operation)
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
                raise ServiceError(
                    "AccessDeniedException",
                    f"User: {invocation.function.role} is not authorized to perform: {operation}",
                    status=403,
                )
            case RequestFault.CONFLICT if tries == 0:
                raise cancelled([CONFLICT])
            case RequestFault.CONFLICTS if tries < 20:
                raise cancelled([CONFLICT])
            case RequestFault.ROWS_DELETED if tries == 0:
                self.delete_all_rows()
            case RequestFault.SLOW if tries == 0:
                self.world.sleep(SLOW_SECONDS)
            case RequestFault.KILLED_BEFORE:
                self.functions.kill(invocation)
                raise GreenletExit

    def _strike_after(self, faults: Sequence[RequestFault], invocation: Invocation, tries: int) -> None:
        if RequestFault.LOST_AFTER in faults and tries == 0:
            raise Broken
        if RequestFault.KILLED_AFTER in faults:
            self.functions.kill(invocation)
            raise GreenletExit


def _place(invocation: Invocation, request: int, service: str, operation: str) -> str:
    """Return the fault point: the function, the invocation, and the number of the request."""
    return f"{invocation.name}/{request} {service}.{operation}"
