"""program.progress: hosts can match every admitted pattern, in a short time for every line."""

import pytest
import re2

from trainyard.core.model.progress import EXAMPLE, problem_with

ADMITTED = [
    EXAMPLE,
    r"Epoch (?P<epoch>\d+)/\d+|loss: (?P<loss>[\d.eE+-]+) - accuracy: (?P<accuracy>[\d.]+)",
    r"^\[(?P<step>\d+)/(?P<steps>\d+)\]\s+loss=(?P<loss>\S+)$",
    r"(?i)step\s*=\s*(?P<step>[\d,]{1,12}?)\b",
    r"(?P<step>(?:a+)+)b",
    r"step (?P<step>\d+) val_f1 (?P<val_f1>[\d.]+)",
    r"[]\[(?=](?P<step>\d)\(\?=",

]  # fmt: skip


@pytest.mark.parametrize("pattern", ADMITTED)
def test_what_is_admitted_is_taken_by_re2(pattern: str) -> None:
    assert problem_with(pattern) is None
    re2.compile(pattern)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "has no group for the step"),
        (r"loss (?P<loss>\d+)", "a group named step or epoch is required"),
        (r"(?P<step>\d+", "is not a regular expression: missing ), unterminated subpattern"),
        ("".join(rf"(?P<step{n}>\d)" for n in range(17)), "has 17 named groups; up to 16 are allowed"),
        (r"(?P<step>\d+)" + " " * 500, "has 513 characters; up to 500"),
        (r"(?=x)(?P<step>\d+)", "has (?=, which RE2"),
        (r"(?<!x)(?P<step>\d+)", "has (?<!, which RE2"),
        (r"(?>x)(?P<step>\d+)", "has (?>, which RE2"),
        (r"(?P<step>\d+) (?P=step)", "has (?P=, which RE2"),
        (r"(?P<step>\d+) \1", r"has \1, which RE2"),
        (r"(?P<step>\d++)", "has ++, which RE2"),
        (r"(?P<step>\d+)\Z", r"has \Z, which RE2"),
        (r"(?x)(?P<step>\d+)", "has (?x), which RE2"),
        (r"(?P<step>\d{1,2000})", "has {1,2000}, which RE2"),
        (r"(?P<step>[\u0030-9])", r"has [\u0030-9], which RE2"),
    ],
)  # fmt: skip
def test_what_hosts_cannot_match_by_is_refused_with_the_reason(pattern: str, said: str) -> None:
    assert said in (problem_with(pattern) or "")
