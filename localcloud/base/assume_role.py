"""Refusals of AssumeRole that STS decides before it checks permissions, in AWS's words.

Pure, because the simulator uses this module too.
docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

SHORTEST, LONGEST, CHAINED = 900, 43_200, 3_600
"""Bounds in seconds. CHAINED is the longest session for a caller that holds a session itself."""
SESSION_NAME = r"[\w+=,.@-]*"
ARN = re.compile(r"arn:[^:]+:[^:]+:[^:]*:[^:]*:.+", re.DOTALL)
SHORTEST_ARN = 20


@dataclass(frozen=True)
class Refusal:
    """An error from STS."""

    code: str
    message: str


@dataclass(frozen=True)
class AssumeRoleRequest:
    """The parts of an AssumeRole request that STS validates without looking at permissions."""

    role: str
    name: str
    seconds: str
    tags: Sequence[str] = ()
    """Tag keys."""
    transitive: Sequence[str] = ()
    """Tag keys that sessions chained from this one inherit."""


def refusal(
    request: AssumeRoleRequest, *, is_chained: bool, longest: int = CHAINED, inherited: Collection[str] = ()
) -> Refusal | None:
    """Return the first error in the request, or None.

    `longest` is the role's MaxSessionDuration. `inherited` are the transitive tags of the caller's own session.
    """
    return (
        _malformed_error(request)
        or _too_long_error(request, is_chained=is_chained, longest=longest)
        or _tags(request, inherited)
    )


def _malformed_error(request: AssumeRoleRequest) -> Refusal | None:
    if len(request.role) < SHORTEST_ARN:
        return _violated_error(
            request.role, "roleArn", f"Member must have length greater than or equal to {SHORTEST_ARN}"
        )
    if not re.fullmatch(SESSION_NAME, request.name, re.ASCII):
        return _violated_error(
            request.name, "roleSessionName", f"Member must satisfy regular expression pattern: {SESSION_NAME}"
        )
    if not 2 <= len(request.name) <= 64:
        bound = "greater than or equal to 2" if len(request.name) < 2 else "less than or equal to 64"
        return _violated_error(request.name, "roleSessionName", f"Member must have length {bound}")
    if not ARN.fullmatch(request.role):
        return Refusal("ValidationError", f"{request.role} is invalid")
    return None


def _too_long_error(request: AssumeRoleRequest, *, is_chained: bool, longest: int) -> Refusal | None:
    seconds = int(request.seconds) if request.seconds.isdigit() else 0
    if seconds < SHORTEST:
        return _violated_error(
            request.seconds, "durationSeconds", f"Member must have value greater than or equal to {SHORTEST}"
        )
    if seconds > LONGEST:
        return _violated_error(
            request.seconds, "durationSeconds", f"Member must have value less than or equal to {LONGEST}"
        )
    if is_chained and seconds > CHAINED:
        message = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining"
        return Refusal("ValidationError", message)
    if seconds > longest:
        message = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        return Refusal("ValidationError", message)
    return None


def _tags(request: AssumeRoleRequest, inherited: Collection[str]) -> Refusal | None:
    """Return the first error in the tags. Tag keys are compared without case."""
    keys = [key.lower() for key in request.tags]
    if len(set(keys)) < len(keys):
        message = "Duplicate tag keys found. Please note that Tag keys are case insensitive."
        return Refusal("InvalidParameterValue", message)
    if not {key.lower() for key in request.transitive} <= set(keys):
        message = "The specified transitive tag key must be included in the requested tags."
        return Refusal("InvalidParameterValue", message)
    if {key.lower() for key in inherited} & set(keys):
        message = (
            "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key "
            "from the calling session."
        )
        return Refusal("InvalidParameterValue", message)
    return None


def _violated_error(value: str, name: str, constraint: str) -> Refusal:
    return Refusal(
        "ValidationError",
        f"1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: {constraint}",
    )
