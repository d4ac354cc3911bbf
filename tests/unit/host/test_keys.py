import os

import pytest

from training.host.keys import NAMED_AT_MOST, LeftOut, fault_of, show_name

LATIN = os.fsdecode(b"r\xe9sum\xe9.txt")


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("model/weights.h5", None),
        ("model/läuft (1) 'a' \"b\" %2F +&=;日本語 .pt", None),
        ("model/\U0001f600.png", None),
        ("k" * 1024, None),
        ("k" * 1025, "1025 bytes"),
        ("ü" * 513, "1026 bytes"),
        (f"model/{LATIN}", "not UTF-8"),
        ("model/a\x01b", "control character"),
        ("model/a\nb", "control character"),
        ("model/a\x7fb", "control character"),
        ("model/a\x85b", "control character"),
        ("model/a\uffffb", "control character"),
    ],
)
def test_what_the_bucket_can_store(key: str, fault: str | None) -> None:
    found = fault_of(key)
    assert found is None if fault is None else fault in (found or "")


def test_a_name_is_shown_on_one_line_and_its_odd_bytes_as_escapes() -> None:
    assert show_name(LATIN) == r"r\xe9sum\xe9.txt"
    assert show_name("a\x01b\nc läuft") == r"a\x01b\nc läuft"


def test_each_file_is_left_out_with_one_line() -> None:
    lines: list[str] = []
    left = LeftOut(lines.append, "${model}")
    for _ in range(2):
        assert left.keep(["a", LATIN, "b\x01"], "runs/r/model/") == ["a"]
    assert lines == [
        r"${model}/r\xe9sum\xe9.txt is left out: its name is not UTF-8; rename it to keep it",
        r"${model}/b\x01 is left out: its name contains a control character; rename it to keep it",
    ]
    assert list(left.faults) == [LATIN, "b\x01"]


def test_thousands_of_them_do_not_fill_the_log() -> None:
    lines: list[str] = []
    left = LeftOut(lines.append, "${model}")
    assert left.keep([f"{number}\x01" for number in range(5000)], "") == []
    assert len(lines) == NAMED_AT_MOST + 1
    assert lines[-1] == "${model}/: 4980 more files are left out"
