"""IAM's delay: new, changed and removed roles and instance profiles take effect seconds later (`fault iam-delay`)."""

from __future__ import annotations

import copy
import threading
import time
from typing import Any

from ministack.core import iam_evaluator
from ministack.services import iam

from localcloud.patches import MINISTACK

Record = dict[str, Any] | None
GATHER = "core.iam_evaluator:_gather_role_policies"


class Delay:
    """The view that services have of IAM. They see a change `seconds` after the first request that follows it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seconds = 0.0
        self._seen: dict[tuple[str, str], list[tuple[float, Record]]] = {}

    def set(self, seconds: float) -> None:
        """Delay all changes from now on; 0 ends the delay."""
        with self._lock:
            self.seconds, self._seen = seconds, {}
            self._notice(float("-inf"))

    def role(self, name: str) -> Record:
        """Return the role as services see it; None if they do not know it."""
        return self._in_force("role", name)

    def profile(self, name: str) -> Record:
        """Return the instance profile as EC2 sees it; None if EC2 does not know it."""
        return self._in_force("profile", name)

    def _in_force(self, kind: str, name: str) -> Record:
        if not self.seconds:
            found: Record = _stores()[kind].get(name)
            return found
        with self._lock:
            now = time.monotonic()
            self._notice(now)
            states = self._seen.get((kind, name), [])
            return next((each for at, each in reversed(states) if at <= now - self.seconds), None)

    def _notice(self, now: float) -> None:
        """Record each role and profile that was created, changed or removed."""
        current = {(kind, name): each for kind, store in _stores().items() for name, each in store.items()}
        for key in {*current, *self._seen}:
            states = self._seen.setdefault(key, [])
            if not states or states[-1][1] != current.get(key):
                states.append((now, copy.deepcopy(current.get(key))))


delay = Delay()


def install() -> None:
    """Evaluate a role's policies as they are in force."""
    stock = MINISTACK.stock(GATHER)

    def gather(role_name: str, account_id: str) -> Any:
        return _policies(delay.role(role_name), account_id) if delay.seconds else stock(role_name, account_id)

    MINISTACK.replace(GATHER, gather)


def _policies(role: Record, account: str) -> list[Any]:
    documents = [*((role or {}).get("InlinePolicies") or {}).values()]
    for arn in (role or {}).get("AttachedPolicies") or ():
        documents.append(iam_evaluator._resolve_managed_policy_document(arn, account))
    parsed = [iam_evaluator.parse_policy_document(each) for each in documents if each]
    return [each for each in parsed if each]


def _stores() -> dict[str, Any]:
    return {"role": iam._roles, "profile": iam._instance_profiles}
