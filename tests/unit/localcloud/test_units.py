"""Parsing of systemd's unit files."""

import pytest

from localcloud.machine.guest.processes import signal_number
from localcloud.machine.guest.systemctl import is_command, options
from localcloud.machine.guest.units import expand, fill_in, full_name, parse_unit, seconds

TEXT = r"""
# comment
[Unit]
Description=One\
  line
After=a.service b.service
After=c.service

[Service]
ExecStart=/bin/false
ExecStart=
ExecStart=/bin/sh -c 'echo %i'
RemainAfterExit=yes
"""


def test_keys_repeat_and_an_empty_value_forgets() -> None:
    unit = parse_unit("job@7.service", TEXT)
    assert unit.get("Unit", "Description") == "One line"
    assert unit.words("Unit", "After") == ["a.service", "b.service", "c.service"]
    assert unit.all("Service", "ExecStart") == ["/bin/sh -c 'echo 7'"]
    assert unit.flag("Service", "RemainAfterExit")
    assert unit.get("Service", "Restart", "no") == "no"


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("5min", 300), ("1min 30s", 90), ("200ms", 0.2), ("1h", 3600), ("infinity", float("inf"))],
)
def test_time_spans(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("value", "name", "filled"),
    [
        ("%i %n %p", "job@7.service", "7 job@7.service job"),
        ("%N 100%%", "plain.service", "plain 100%"),
        ("%t/x %S/x", "plain.service", "/run/x /var/lib/x"),
    ],
)
def test_specifiers(value: str, name: str, filled: str) -> None:
    assert fill_in(value, name) == filled


def test_variables_are_words_when_they_stand_alone() -> None:
    env = {"A": "two words", "B": "x"}
    assert expand(["run", "$A", "${A}", "p${B}s", "$$C", "$NONE"], env) == [
        "run", "two", "words", "two words", "pxs", "$C",
    ]  # fmt: skip


def test_names_and_signals() -> None:
    assert [full_name(name) for name in ("a", "a.timer", "a@1.5")] == [
        "a.service",
        "a.timer",
        "a@1.5.service",
    ]
    assert [signal_number(name) for name in ("SIGTERM", "TERM", "15")] == [15, 15, 15]


def test_options_may_take_a_value_in_three_ways() -> None:
    flags, words = options(["--unit", "a", "--unit=b", "-uc", "x", "--", "--no"], {"--unit", "-u"})
    assert (flags["--unit"], flags["-u"], words) == (["a", "b"], ["c"], ["x", "--no"])


def test_a_command_begins_after_the_options_and_their_values() -> None:
    arguments = ["--unit", "job", "--wait", "python", "-m", "x"]
    assert [is_command(arguments, i, {"--unit"}) for i in range(4)] == [False, False, False, True]
