"""Sessions of users on a host: access, data in both directions, and patrol's verdict."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from scripts.local_yard import ROOT
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.terminals import ACCOUNT, PROMPT, Terminal, active
from tests.e2e.users import done, person, words
from tests.e2e.watch import (
    SHORT_POLICY,
    act_on,
    ec2,
    launched,
    passes,
    set_tags,
    shell,
    state,
    until_it_is,
)

SERVER = "systemd-run --unit pages -- python3 -m http.server 8123 --bind 127.0.0.1 --directory /etc"


@pytest.fixture
def notebook(runs: Runs) -> Iterator[str]:
    """Launch a host for sessions."""
    made = launched(
        runs, image=runs.yard.image(), instance_types=["g6.xlarge"], market="on_demand", hours=2
    ).summary
    host = str(made["instance"])
    assert made["connect"] == f"trainyard shell {host}"
    set_tags(runs, host, window_minutes=60)
    shell(runs, host, SERVER)
    yield host
    ec2(runs).terminate_instances(InstanceIds=[host])
    until_it_is(runs, host, "terminated")


def people_on_a_host(runs: Runs, notebook: str) -> None:
    with person(runs, "operator", "ann") as ann:
        window = Terminal(ann, "shell", notebook)
        window.until(PROMPT)
        assert window.is_raw
        window.resize(33, 111)
        window.type("id -un; stty size; cat /proc/$$/comm\r")
        window.until(f"{ACCOUNT}\r\n33 111\r\nbash")
        window.type("sh -c \"echo star''ted; exec sleep 1000\"\r")
        window.until("started")
        window.type("\x03")
        window.until("^C")
        window.type("echo interrup''ted $?\r")
        window.until("interrupted 130")
        window.type("exit\r")
        assert window.ended() == 0
        runs.until("the session is over", lambda: not active(runs, notebook))

        hung = Terminal(ann, "shell", notebook)
        hung.until(PROMPT)
        (one,) = active(runs, notebook)
        assert one["SessionId"].startswith("ann-")
        os.kill(hung.pid, signal.SIGTERM)
        assert hung.ended() == 130
        runs.until("nothing of it is left", lambda: not active(runs, notebook))

        left = Terminal(ann, "shell", notebook)
        left.until(PROMPT)
        left.type("\r~.")
        assert left.ended() == 0
        runs.until("that one, too", lambda: not active(runs, notebook))

        code, out, err = done(
            ann, "shell", notebook, "--", "sh", "-c", 'echo "$1"; echo wrong >&2; exit 7', "sh", "it's fine"
        )
        assert (code, out, err) == (7, "it's fine\n", "wrong\n")
        code, out, _ = done(ann, "shell", notebook, "--", "seq 100000 | tail -1")
        assert (code, out) == (0, "100000\n")

        with forwarding(ann, notebook, "8123:0") as port:
            with socket.create_connection(("127.0.0.1", port), 10) as page:
                page.sendall(b"GET /hostname HTTP/1.0\r\n\r\n")
                received = b""
                while data := page.recv(65536):
                    received += data
            assert received.startswith(b"HTTP/1.0 200")
            assert received.endswith(b"\n")
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                used = taken.getsockname()[1]
                code, _, err = done(ann, "forward", notebook, f"8123:{used}")
                assert code == 3
                assert f"port {used} of this computer is not free" in err
        runs.until("no session is left", lambda: not active(runs, notebook))

        code, out, err = done(ann, "sessions", notebook, "-o", "json")
        assert code == 0, err
        assert [each["what"] for each in json.loads(out)] == [
            "port",
            "command",
            "command",
            "shell",
            "shell",
            "shell",
        ]
        assert {(each["who"], each["host"], bool(each["ended"])) for each in json.loads(out)} == {
            ("ann", notebook, True)
        }

        code, _, err = done(ann, "shell", "i-0123456789abcdef0")
        assert code == 4
        assert "has no host i-0123456789abcdef0" in err
    for who in ("viewer", "user"):
        with person(runs, who, f"a-{who}") as other:
            for given in (
                ("shell", notebook),
                ("forward", notebook, "8123:0"),
                ("shell", notebook, "--", "id"),
            ):
                code, _, err = done(other, *given)
                assert code == 5, err
                assert "ssm:StartSession was denied" in err
                assert "operator" in err


@contextmanager
def forwarding(environment: Mapping[str, str], *given: str) -> Iterator[int]:
    process = subprocess.Popen(
        words("forward", *given, "-q"),
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        yield int(line.split(" to port ")[0].rpartition(":")[2])
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (130, ""), err


def two_people_do_not_take_each_others_sessions(runs: Runs, notebook: str) -> None:
    with person(runs, "operator", "bob") as bob, person(runs, "operator", "bob-two") as other:
        window = Terminal(bob, "shell", notebook)
        window.until(PROMPT)
        (session,) = active(runs, notebook)
        for verb in ("resume-session", "terminate-session"):
            asked = [ROOT / ".tools/bin/aws", "ssm", verb, "--session-id", session["SessionId"]]
            received = subprocess.run(asked, env=dict(other), capture_output=True, text=True, check=False)
            assert "AccessDenied" in received.stderr, received
        window.type("exit\r")
        assert window.ended() == 0


def patrol_leaves_a_host_alone_on_which_somebody_is(runs: Runs, notebook: str) -> None:
    with person(runs, "operator", "carol") as carol:
        window = Terminal(carol, "shell", notebook)
        window.until(PROMPT)
        set_tags(runs, notebook, **SHORT_POLICY)
        seen = len(passes(runs))
        runs.until("patrol looks for longer than its window", lambda: len(passes(runs)) >= seen + 4)
        assert state(runs, notebook) == "running"
        window.type("exit\r")
        assert window.ended() == 0
    until_it_is(runs, notebook, "stopped")
    assert act_on(runs, notebook)["verdict"] == "stop-idle"
    with person(runs, "operator", "dave") as dave:
        code, _, err = done(dave, "shell", notebook)
        assert code == 3
        assert f"{notebook} is stopped" in err


def test_people_on_a_host(runs: Runs, notebook: str) -> None:
    """Run the scenarios one after another on one host, which patrol stops at the end."""
    people_on_a_host(runs, notebook)
    two_people_do_not_take_each_others_sessions(runs, notebook)
    patrol_leaves_a_host_alone_on_which_somebody_is(runs, notebook)
