"""Actions of a service under the role that it was given: executions, rules, schedules."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ministack.core import iam_evaluator
from ministack.services import sts

from localcloud.services.iam import enforcement
from localcloud.services.iam.checks import Check
from localcloud.services.iam.delay import delay

LIFETIME = 3600.0
"""Lifetime of a session in ministack's STS, in seconds. A longer use renews the session."""


class NotAllowedError(Exception):
    """The role lacks a permission. The message is AWS's."""


@dataclass(frozen=True)
class Session:
    """A role that a service (`principal`) has assumed."""

    role_arn: str
    name: str
    principal: str
    account: str
    region: str

    @property
    def arn(self) -> str:
        """Return the ARN of the assumed role session."""
        role = self.role_arn.rsplit("/", 1)[-1]
        return f"arn:aws:sts::{self.account}:assumed-role/{role}/{self.name}"

    def require(self, service: str, *checks: Check) -> None:
        """Check that the role trusts the service and passes all checks. Raise NotAllowedError otherwise."""
        if not trusts(self.role_arn, self.principal, account=self.account, region=self.region):
            raise NotAllowedError(
                f"{self.principal} is not authorized to assume the provided role {self.role_arn}"
            )
        failed = enforcement.first_denial(self._access_key(), service, self.region, checks)
        if failed is not None:
            raise NotAllowedError(failed.message(service, self.arn))

    def _access_key(self) -> str:
        """Return the session's key, after ministack's STS has stored it."""
        digest = hashlib.sha256(f"{self.role_arn}/{self.name}".encode()).hexdigest()
        key = f"ASIA{digest[:16].upper()}"
        known, now = sts._sessions.get(key), time.time()
        if known is None or known.get("Expiration", 0.0) < now + LIFETIME / 2:
            sts.register_session(
                key,
                {
                    "Arn": self.arn,
                    "UserId": f"{digest[:20].upper()}:{self.name}",
                    "SecretAccessKey": secrets.token_hex(),
                    "SessionToken": secrets.token_hex(),
                    "Expiration": now + LIFETIME,
                },
            )
        return key


def trusts(role_arn: str, principal: str, *, account: str, region: str) -> bool:
    """Return True if the role's trust policy lets this AWS service assume it for the account."""
    role = delay.role(role_arn.rsplit("/", 1)[-1])
    document = (role or {}).get("AssumeRolePolicyDocument") or "{}"
    parsed = json.loads(document) if isinstance(document, str) else document
    statements = [{**statement, "Resource": "*"} for statement in _as_list(parsed.get("Statement"))]
    asked = iam_evaluator.EvalContext(
        principal_arn=principal,
        principal_type="Service",
        principal_account=account,
        action="sts:AssumeRole",
        resource_arn=role_arn,
        region=region,
        service_context={"aws:sourceaccount": account},
    )
    answer = iam_evaluator.evaluate_resource_policy({"Statement": statements}, asked, service=principal)
    return bool(answer.decision == "Allow")


def _as_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
