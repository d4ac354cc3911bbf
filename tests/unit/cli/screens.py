"""Output of the command about a run."""

from datetime import timedelta

from tests.unit.client.facts import HOST, NOON
from trainyard.client import Event, Execution, LogLine, RunStatus, State

EXECUTION = Execution("arn:aws:states:us-east-1:1:execution:train:digits-1", "RUNNING", NOON, None, "", "")
STATUS = RunStatus(
    at=NOON + timedelta(seconds=100),
    execution=EXECUTION,
    attempt=1,
    states=(State(NOON, "Admit"), State(NOON + timedelta(seconds=2), "Plan")),
    hosts=(HOST,),
    timeline=(Event(NOON + timedelta(seconds=5), "host", "ready", "i-1", ""),),
    progress=None,
)


def printed(second: int, text: str) -> LogLine:
    return LogLine(NOON + timedelta(seconds=second), "chief-0", "i-1", 1, text)
