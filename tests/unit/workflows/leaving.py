"""An account whose hosts leave an attempt."""

from typing import Any

import pytest

from lambdas.aws import ssm, states
from lambdas.workflows import signal
from tests.support.recorded import CONTEXT
from tests.support.records import AT
from tests.unit.core.builders import after


class Aws:
    """The requests to Step Functions and Systems Manager."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.beats = 0
        self.asked: list[str] = []
        self.failed: list[str] = []
        self.now = after(0)
        monkeypatch.setattr(states, "heartbeat", self._beat)
        monkeypatch.setattr(states, "fail", lambda _token, trouble: self.failed.append(trouble.error))
        monkeypatch.setattr(ssm, "find_online", frozenset)
        monkeypatch.setattr(ssm, "send", self._send)
        monkeypatch.setattr(signal, "clock", lambda: self.now)

    def _beat(self, _token: str) -> bool:
        self.beats += 1
        return True

    def _send(self, _document: str, hosts: list[str], _parameters: Any, **_: Any) -> tuple[str, ...]:
        self.asked += hosts
        return ("c-1",)

    def hears(self, instance: str, word: str, *, attempt: int = 1, at: float = 0, **facts: Any) -> None:
        self.now = after(at)
        detail = {
            "run": "digits-1",
            "attempt": attempt,
            "instance": instance,
            "at": AT,
            "signal": word,
            **facts,
        }
        signal.handler(
            {"source": f"trainyard.host/AROA:{instance}", "detail-type": word, "detail": detail}, CONTEXT
        )
