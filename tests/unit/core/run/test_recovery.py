"""The step after a failed attempt: another attempt and its hosts, or the end."""
# ruff: noqa: E501 - one line a row

import json

import pytest

from lambdas.core.capacity.retained_hosts import RetainedHosts
from lambdas.core.run import recovery
from lambdas.core.run.recovery import EndRun, Retry, Trouble
from tests.unit.core.builders import NOON, after
from trainyard.core.model import errors


def decide(
    trouble: Trouble, attempt: int = 1, restarts: int = 3, seconds_left: float = 3600
) -> Retry | EndRun:
    return recovery.decide(
        trouble, attempt=attempt, restarts=restarts, now=NOON, deadline=after(seconds_left)
    )


ONE = ("i-1",)
AGAIN = [
    # name, trouble, attempt, seconds, keep
    (
        "an interruption is answered at once",
        Trouble(error="Interrupted", lost=ONE),
        1,
        0,
        RetainedHosts.REMAINING,
    ),
    ("an interruption never pauses", Trouble(error="Interrupted", lost=ONE), 3, 0, RetainedHosts.REMAINING),
    ("healthy hosts continue", Trouble(error="Interrupted", all_well=True), 1, 0, RetainedHosts.REMAINING),
    ("their state is unknown", Trouble(error="Interrupted"), 1, 0, RetainedHosts.NONE),
    ("a lost host is replaced at once", Trouble(error="HostLost", lost=ONE), 1, 0, RetainedHosts.REMAINING),
    ("another waits", Trouble(error="HostLost", lost=ONE), 2, 10, RetainedHosts.REMAINING),
    ("longer each time", Trouble(error="HostLost", lost=ONE), 3, 20, RetainedHosts.REMAINING),
    (
        "a failed start is tried with another host",
        Trouble(error="StartFailed", lost=ONE),
        1,
        10,
        RetainedHosts.REMAINING,
    ),
    ("so is one that cannot upload", Trouble(error="UploadFailed", lost=ONE), 1, 10, RetainedHosts.REMAINING),
    (
        "who is not ready in time is replaced",
        Trouble(error="HostsNotReady", lost=ONE),
        1,
        10,
        RetainedHosts.REMAINING,
    ),
    (
        "silence says nothing of who is well",
        Trouble(error="States.HeartbeatTimeout"),
        1,
        10,
        RetainedHosts.NONE,
    ),
    ("nor does a timeout", Trouble(error="States.Timeout"), 2, 20, RetainedHosts.NONE),
    ("a loss without names replaces all", Trouble(error="HostLost"), 1, 0, RetainedHosts.NONE),
    (
        "a program that hung is started on the same hosts",
        Trouble(error="ProgramHangs", all_well=True),
        1,
        10,
        RetainedHosts.REMAINING,
    ),
    ("on hosts that may be at fault it is not", Trouble(error="ProgramHangs"), 2, 20, RetainedHosts.NONE),
    (
        "one that is gone meanwhile is replaced",
        Trouble(error="ProgramHangs", lost=ONE),
        1,
        10,
        RetainedHosts.REMAINING,
    ),
    (
        "a function that AWS failed to run is tried again",
        Trouble(error="Lambda.Unknown"),
        1,
        10,
        RetainedHosts.NONE,
    ),
    ("so is a sandbox that timed out", Trouble(error="Sandbox.Timedout"), 1, 10, RetainedHosts.NONE),
    ("and one whose process died", Trouble(error="Runtime.ExitError"), 1, 10, RetainedHosts.NONE),
    ("or had no memory left", Trouble(error="Runtime.OutOfMemory"), 1, 10, RetainedHosts.NONE),
]


@pytest.mark.parametrize(
    ("trouble", "attempt", "seconds", "keep"), [r[1:] for r in AGAIN], ids=[r[0] for r in AGAIN]
)
def test_a_new_attempt_follows(trouble: Trouble, attempt: int, seconds: int, keep: RetainedHosts) -> None:
    found = decide(trouble, attempt)
    assert isinstance(found, Retry)
    assert (found.seconds, found.keep, found.lost) == (seconds, keep, trouble.lost)
    assert f"Attempt {attempt} failed" in found.reason
    assert f"Attempt {attempt + 1} of at most 4 follows" in found.reason


STOP = [
    # name, trouble, attempt, restarts, seconds left, error, part of the reason
    ("a program's own error", Trouble(error="ProgramFailed", exit_code=1), 1, 3, 99, "ProgramFailed", "(exit code 1)"),
    ("a missing permission", Trouble(error="AccessDenied", reason="s3:GetObject"), 1, 3, 99, "AccessDenied", "s3:GetObject. A permission is missing"),
    ("a wrong setting", Trouble(error="Misconfigured"), 1, 3, 99, "Misconfigured", "deploy or bake again"),
    ("a refused job", Trouble(error="JobRefused"), 1, 3, 99, "JobRefused", "correct it, and submit it again"),
    ("no candidate is left", Trouble(error="NoCapacity"), 1, 3, 99, "NoCapacity", "No capacity pool is left to try"),
    ("a quota is full", Trouble(error="QuotaExceeded"), 1, 3, 99, "QuotaExceeded", "No capacity pool is left to try"),
    ("the limits are used up", Trouble(error="LimitReached"), 1, 3, 99, "LimitReached", "raise them to continue"),
    ("a finished training without its model", Trouble(error="UploadFailed", final=True), 1, 3, 99, "UploadFailed", "not repeated"),
    ("a host says it is final", Trouble(error="StartFailed", final=True), 1, 3, 99, "StartFailed", "end the same way"),
    ("the limit of restarts", Trouble(error="HostLost", lost=ONE), 4, 3, 99, "HostLost", "limits.restarts is 3"),
    ("a program that hangs every time", Trouble(error="ProgramHangs", all_well=True), 4, 3, 99, "ProgramHangs", "limits.restarts is 3"),
    ("no restarts allowed", Trouble(error="Interrupted", lost=ONE), 1, 0, 99, "Interrupted", "limits.restarts is 0"),
    ("the deadline passed", Trouble(error="States.Timeout"), 1, 3, 0, "LimitReached", "limits.hours, limits.dollars"),
    ("the pause would end after the deadline", Trouble(error="StartFailed"), 1, 3, 10, "LimitReached", "used up"),
    ("a bug of ours", Trouble(error="KeyError", reason="'x'"), 1, 3, 99, "KeyError", "is unknown to Trainyard"),
    ("a broken workflow", Trouble(error="States.Runtime"), 1, 3, 99, "States.Runtime", "is unknown to Trainyard"),
    ("a missing package", Trouble(error="Runtime.ImportModuleError"), 1, 3, 99, "Runtime.ImportModuleError", "log"),
    ("an empty word", Trouble(error=""), 1, 3, 99, "", "is unknown to Trainyard"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("trouble", "attempt", "restarts", "left", "error", "said"),
    [r[1:] for r in STOP],
    ids=[r[0] for r in STOP],
)
def test_the_run_ends(
    trouble: Trouble, attempt: int, restarts: int, left: float, error: str, said: str
) -> None:
    found = decide(trouble, attempt, restarts, left)
    assert isinstance(found, EndRun)
    assert found.error == error
    assert said in found.reason


def test_a_run_without_restarts_promises_no_checkpoint_that_it_may_not_have() -> None:
    found = decide(Trouble(error="HostLost", lost=ONE), 4, 3, 99)
    assert isinstance(found, EndRun)
    assert "The logs are in the bucket, and any checkpoint that was saved" in found.reason
    assert "Checkpoints" not in found.reason


def test_a_run_that_stops_at_its_cap_says_so_and_nothing_else() -> None:
    cap = "stopped at its cap of $20.00 (limits.dollars) after step 1,840; resume with checkpoints.resume: digits-1"
    found = decide(Trouble(error="LimitReached", reason=cap, step=1840, final=True))
    assert isinstance(found, EndRun)
    assert (found.error, found.reason) == ("LimitReached", f"{cap}.")


@pytest.mark.parametrize("word", errors.WORDS)
def test_every_word_of_the_error_tree_is_decided(word: str) -> None:
    found = decide(Trouble(error=word))
    assert isinstance(found, Retry) is errors.WORDS[word].retry_can_help
    assert found.reason.endswith((".", "s"))


def test_a_programs_last_lines_are_part_of_the_reason() -> None:
    trouble = Trouble(
        error="ProgramFailed", reason="it raised", step=30, tail="...\nZeroDivisionError: division by zero\n"
    )
    found = decide(trouble)
    assert isinstance(found, EndRun)
    assert found.reason.startswith("Attempt 1 failed at step 30: ProgramFailed: it raised.")
    assert found.reason.endswith("The program's last lines:\n...\nZeroDivisionError: division by zero")


def test_trouble_travels_through_a_cause_and_back() -> None:
    trouble = Trouble(
        error="HostLost",
        reason="gone \u2620",
        lost=("i-1", "i-2"),
        step=7,
        tail="x",
        exit_code=137,
        final=True,
    )
    assert Trouble.caught("HostLost", trouble.to_cause()) == trouble


CAUSES = [
    ("", ""),
    ("State timed out", "State timed out"),
    ('{"errorMessage": "boom", "errorType": "KeyError", "stackTrace": []}', "boom"),
    ("[1, 2]", "[1, 2]"),
    ("null", "null"),
    ('{"other": 1}', '{"other": 1}'),
    (
        '{"__type": "TooManyRequestsException", "message": "Rate Exceeded"}',
        '{"__type": "TooManyRequestsException", "message": "Rate Exceeded"}',
    ),
]


@pytest.mark.parametrize(("cause", "reason"), CAUSES)
def test_any_cause_can_be_read(cause: str, reason: str) -> None:
    assert Trouble.caught("X", cause) == Trouble(error="X", reason=reason)


def test_a_cause_fits_step_functions() -> None:
    trouble = Trouble(
        error="ProgramFailed",
        reason="\u00e4" * 50_000,
        tail="\n" * 50_000,
        lost=("i-0123456789abcdef0",) * 50,
    )
    cause = trouble.to_cause()
    assert len(cause) < 32_768
    assert json.loads(cause)["tail"]
    assert len(decide(trouble).reason) < 32_768


def test_an_attempt_that_ended_to_grow_takes_no_restart() -> None:
    grows = Trouble(error="Resized", all_well=True, reason="3 hosts in place of 2", step=40)
    first = recovery.decide(grows, attempt=1, restarts=0, now=NOON, deadline=after(3600))
    assert isinstance(first, Retry)
    assert (first.attempt, first.resized, first.seconds, first.keep) == (2, 1, 0, RetainedHosts.REMAINING)
    again = recovery.decide(grows, attempt=2, restarts=0, resized=1, now=NOON, deadline=after(3600))
    assert isinstance(again, Retry)
    assert again.resized == 2


@pytest.mark.parametrize(("resized", "ends"), [(0, True), (1, False)])
def test_what_failed_is_counted_without_what_grew(resized: int, ends: bool) -> None:
    lost = Trouble(error="Interrupted", lost=ONE)
    found = recovery.decide(
        lost, attempt=2, restarts=1, resized=resized, now=NOON, deadline=after(3600), elastic=True
    )
    assert isinstance(found, EndRun) == ends
    assert found.resized == resized
