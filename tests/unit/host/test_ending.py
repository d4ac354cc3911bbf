import pytest

from training.host.ending import Failed, Finished, Stopped, judge, last_exception, last_lines, why

TRACEBACK = """step 3
Traceback (most recent call last):
  File "/x.py", line 1, in <module>
ValueError: the labels are strings
"""
PEER = "tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __wrapped}} Socket closed"


@pytest.mark.parametrize(
    ("sentence", "code", "asked", "killed", "tail", "gang", "answer"),
    [
        ("0 is finished", 0, None, False, "", 2, Finished()),
        ("finished although it was asked to leave", 0, "asked", False, "", 2, Finished()),
        ("75 by itself: a peer left", 75, None, False, "", 2, Stopped("peer")),
        ("75 after the notice", 75, "interrupted", False, "", 2, Stopped("interrupted")),
        ("75 after the order", 75, "asked", False, "", 2, Stopped("asked")),
        ("a program without a handler dies of our SIGTERM", 143, "asked", False, "", 1, Stopped("asked")),
        ("we had to kill it", 137, "interrupted", True, "", 1, Stopped("interrupted")),
        ("a program that is not elastic saw its peer go", 1, None, False, PEER, 2, Stopped("peer")),
        ("a peer vanished while the cluster formed", 142, None, False, "", 2, Stopped("peer")),
    ],
)
def test_what_a_programs_end_means(
    sentence: str,
    code: int,
    asked: str | None,
    killed: bool,
    tail: str,
    gang: int,
    answer: Finished | Stopped,
) -> None:
    assert judge(code, asked=asked, killed=killed, tail=tail, gang=gang) == answer, sentence


def test_the_programs_own_error_is_the_reason() -> None:
    ended = judge(1, asked=None, killed=False, tail=TRACEBACK, gang=2)
    assert ended == Failed(
        "program", "the program ended with exit code 1: ValueError: the labels are strings", 1
    )


def test_the_programs_own_error_stays_one_when_it_was_asked_to_leave() -> None:
    assert isinstance(judge(1, asked="asked", killed=False, tail=TRACEBACK, gang=2), Failed)


def test_the_same_error_on_a_single_host_is_the_programs_own() -> None:
    assert isinstance(judge(1, asked=None, killed=False, tail=PEER, gang=1), Failed)


@pytest.mark.parametrize(
    ("code", "tail", "words"),
    [
        (137, "", "memory"),
        (139, TRACEBACK, "SIGSEGV"),
        (3, "bye", "exit code 3 and showed no exception"),
        (1, "OSError: [Errno 28] No space left on device: '/x'", "disk is full"),
        (2, "usage: ...\ndigits.py: error: unrecognized arguments: --epoch", "exit code 2"),
    ],
)
def test_the_reason_says_what_happened(code: int, tail: str, words: str) -> None:
    assert words in why(code, tail)


def test_the_last_exception_wins() -> None:
    assert last_exception(TRACEBACK + "mypackage.errors.BadConfigError: no\nafterwards") == (
        "mypackage.errors.BadConfigError: no"
    )


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        (b"one\ntwo\nthree\n", 100, "one\ntwo\nthree\n"),
        (b"one\ntwo\nthree\n", 9, "three\n"),
        (b"x" * 50, 10, "x" * 10),
        (b"", 10, ""),
    ],
)
def test_the_tail_holds_whole_lines_where_it_can(text: bytes, most: int, kept: str) -> None:
    assert last_lines(text, most) == kept


def test_the_tail_never_grows_beyond_its_limit() -> None:
    assert len(last_lines(b"\xff" * 10_000, 4096).encode()) <= 4096
