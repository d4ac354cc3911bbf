"""STS: sessions of roles, restricted by a policy, that expire in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from localcloud.base.assume_role import AssumeRoleRequest, refusal
from simulation.aws.endpoint.api import Answer, Caller, Check, Request, ServiceError
from simulation.aws.endpoint.parameters import only
from simulation.aws.iam import Iam
from simulation.world.world import World

LONGEST_POLICY = 2048


@dataclass(frozen=True)
class Session:
    caller: Caller
    until: datetime


class Sts:
    def __init__(self, world: World, iam: Iam) -> None:
        self.world = world
        self._iam = iam
        self.expired = 0
        """The number of requests with expired credentials."""
        self._sessions: dict[str, Session] = {}

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        return [Check("sts:AssumeRole", str(request["RoleArn"]))]

    def assume_role(self, caller: Caller, request: Request) -> Answer:
        only(request, ("RoleArn", "RoleSessionName", "Policy", "DurationSeconds"), "AssumeRole")
        role, name, policy = request["RoleArn"], request["RoleSessionName"], request["Policy"]
        assumption = AssumeRoleRequest(role, name, str(request["DurationSeconds"]))
        wrong = refusal(assumption, is_chained=True)  # all callers have credentials of a role
        if wrong:
            raise ServiceError(wrong.code, wrong.message)
        if not self._iam.trusts_role(role, caller.role):
            raise self._iam.denial(Check("sts:AssumeRole", role), caller, "sts")
        if len(policy) > LONGEST_POLICY:
            raise ServiceError("ValidationError", "Member must have length less than or equal to 2048")
        until = self.world.now + timedelta(seconds=request["DurationSeconds"])
        key = f"ASIA{len(self._sessions) + 1:016d}"
        self._sessions[key] = Session(Caller(name, role, session=policy), until)
        return {
            "Credentials": {
                "AccessKeyId": key,
                "SecretAccessKey": "simulated",
                "SessionToken": "simulated",
                "Expiration": until,
            },
            "AssumedRoleUser": {"AssumedRoleId": f"AROA:{name}", "Arn": f"{role}/{name}"},
        }

    def caller(self, access_key: str) -> Caller:
        """Return the caller with these credentials. Raises ServiceError once they have expired."""
        session = self._sessions[access_key]
        if self.world.now >= session.until:
            self.expired += 1
            raise ServiceError("ExpiredToken", "The provided token has expired.")
        return session.caller
