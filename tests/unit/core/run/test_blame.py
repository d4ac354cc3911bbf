"""The host whose failure is the reason, if the program failed on several hosts."""

import pytest

from lambdas.core.run.conclusion.blame import Failure, choose_reason
from lambdas.core.run.recovery import Trouble

FIRST = Trouble(error="ProgramFailed", reason="worker 1 said so", tail="its lines", exit_code=1, step=7)
WORKER = Failure(host="worker-1", reason="AbortedError", tail="w", exit_code=1)
CHIEF = Failure(host="chief-0", reason="ValueError", tail="c", exit_code=3)
ADVISED = Failure(
    host="worker-2", reason="URL fetch failure; put it into data", tail="a", exit_code=1, advised=True
)
TOLD: list[tuple[str, list[Failure], str, str]] = [
    # name, failed hosts, reason, host with the last lines
    ("a single one is the reason as it is", [WORKER], "worker 1 said so", "its lines"),
    ("no host reported a failure", [], "worker 1 said so", "its lines"),
    ("the chief's before a worker's", [WORKER, CHIEF], "chief-0: ValueError\nworker-1: AbortedError", "c"),
    (
        "one with advice before the chief's",
        [WORKER, CHIEF, ADVISED],
        "worker-2: URL fetch failure; put it into data\nchief-0: ValueError\nworker-1: AbortedError",
        "a",
    ),
]


@pytest.mark.parametrize(
    ("failures", "reason", "tail"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD]
)
def test_the_failure_that_tells_most_is_the_reason(failures: list[Failure], reason: str, tail: str) -> None:
    told = choose_reason(FIRST, failures)
    assert (told.reason, told.tail, told.error, told.step) == (reason, tail, "ProgramFailed", 7)
