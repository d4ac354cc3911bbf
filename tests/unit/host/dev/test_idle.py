"""The use of a dev host: the decision table, and looks at real terminals and processes."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from training.host import processes
from training.host.dev.idle import decision, terminals
from training.host.dev.idle.decision import JudgedBy, Kernel, Seen, Terminal, Unknown, outlook, use_of
from training.host.dev.idle.kernels import Server
from training.host.dev.idle.load import Load
from training.host.dev.idle.watch import Tags, Watch
from training.host.errors import HostTrouble
from training.host.paths import Paths
from training.host.processes import Process
from trainyard.core.model.yard import policy
from trainyard.core.model.yard.policy import Policy

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LONG_AGO = NOON - timedelta(hours=1)
TIOCGPTN = 0x80045430
"""Request of ioctl for the number of a pseudo-terminal's other end (ioctl_tty(2)). Python 3.13 has os.ptsname."""
TIOCSPTLCK = 0x40045431
"""Request of ioctl that locks or unlocks the other end. A new one is locked."""


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def kernel(state: str = "idle", active: datetime = LONG_AGO) -> Kernel:
    return Kernel("python3", state, active)


def terminal(runs: str = "", active: datetime = LONG_AGO, *, session: bool = False) -> Terminal:
    return Terminal("pts/0", active, runs, session)


@pytest.mark.parametrize(
    ("sentence", "kernels", "at_terminals", "told", "value"),
    [
        ("not in use without kernels and terminals", (), (), None, 0),
        ("a kernel that has idled for an hour", (kernel(),), (), None, 0),
        ("one that runs a cell, since an hour ago", (kernel("busy"),), (), None, 1),
        ("one that was used just now", (kernel("idle", ago(60)),), (), None, 1),
        ("two minutes ago", (kernel("idle", ago(120)),), (), None, 1),
        ("longer ago", (kernel("idle", ago(121)),), (), None, 0),
        ("one that is dead", (kernel("dead"),), (), None, 0),
        ("a starting kernel without a connection", (kernel("starting"),), (), None, 0),
        ("one of many", (kernel(), kernel(), kernel("busy")), (), None, 1),
        ("an unused terminal", (), (terminal(),), None, 0),
        ("one with a command that prints nothing", (), (terminal("sleep"),), None, 2),
        ("a terminal with new output", (), (terminal(active=ago(30)),), None, 2),
        ("which was our warning", (), (terminal(active=ago(30)),), ago(33), 0),
        ("and something after it", (), (terminal(active=ago(10)),), ago(33), 2),
        ("both", (kernel("busy"),), (terminal("make"),), None, 3),
        ("an open session, which patrol sees itself", (), (terminal(session=True),), None, 0),
        ("a busy terminal, where Jupyter does not tell", None, (terminal("rsync"),), None, 2),
        ("unknown if Jupyter does not answer", None, (terminal(),), None, None),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_who_is_at_it(
    sentence: str,
    kernels: tuple[Kernel, ...] | None,
    at_terminals: tuple[Terminal, ...],
    told: datetime | None,
    value: int | None,
) -> None:
    use = use_of(Seen(kernels, at_terminals, told), NOON)
    assert (None if isinstance(use, Unknown) else use.value) == value, sentence
    assert bool(value) <= bool(use.reason)


def test_what_runs_is_said() -> None:
    use = use_of(Seen((kernel("busy"),), (terminal("make"),)), NOON)
    assert use.reason == "the kernel python3 runs a cell and make runs in pts/0"


HALF_AN_HOUR = JudgedBy(timedelta(minutes=30), timedelta(minutes=15), 5, 50)
SHORT = JudgedBy(timedelta(minutes=4), timedelta(0), 5, 50)


def in_(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("sentence", "judged_by", "now", "more", "warns"),
    [
        ("just used", HALF_AN_HOUR, 0, {}, False),
        ("long before its window is over", HALF_AN_HOUR, 24, {}, False),
        ("five minutes before", HALF_AN_HOUR, 25, {}, True),
        ("after it", HALF_AN_HOUR, 32, {}, True),
        ("not while it is held", HALF_AN_HOUR, 40, {"held": in_(120)}, False),
        ("before the hold is over", HALF_AN_HOUR, 115, {"held": in_(120)}, True),
        ("a hold within its window changes nothing", HALF_AN_HOUR, 24, {"held": in_(10)}, False),
        ("not during a session", HALF_AN_HOUR, 40, {"in_session": True}, False),
        ("not while it may boot", HALF_AN_HOUR, 30, {"born": in_(25)}, False),
        ("a short window has a short notice", SHORT, 1.9, {}, False),
        ("of two looks at least", SHORT, 2, {}, True),
    ],
)
def test_when_somebody_is_warned(
    sentence: str, judged_by: JudgedBy, now: float, more: dict[str, Any], warns: bool
) -> None:
    facts = {"used": NOON, "born": NOON - timedelta(hours=1), "held": None, "in_session": False}
    assert outlook(judged_by, **{**facts, **more}, now=in_(now)).warns is warns, sentence


def test_the_agent_reads_what_patrol_writes() -> None:
    written = policy.judged_by(Policy(window_minutes=45, idle_percent=7.5, grace_minutes=1))
    assert JudgedBy.of_tag(written) == JudgedBy(timedelta(minutes=45), timedelta(minutes=1), 7.5, 50)
    for other in ("", "soon", "window_minutes=x grace_minutes=1 idle_percent=1 idle_cpu_percent=1"):
        assert JudgedBy.of_tag(other) is None


def test_the_warning_says_when_and_what_to_type() -> None:
    assert decision.warning(in_(4.6), NOON) == (
        "trainyard: this dev host is not in use, and will be stopped in about 5 min. Its disk stays. "
        "To keep it, use it or type: trainyard hold 2h"
    )
    assert "within the next minutes" in decision.warning(in_(-1), NOON)


# ---------------------------------------------------------------------------------------- real terminals, real commands
def number_of(keys: int) -> int:
    """Return the number of the terminal at the other end."""
    return int(struct.unpack("I", fcntl.ioctl(keys, TIOCGPTN, b"\0" * 4))[0])


class Shell:
    """bash at its own terminal, with input from a test."""

    def __init__(self, folder: Path) -> None:
        """Start the shell. Its terminal is the only one in `folder`."""
        pid, self.keys = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored if tests run in the background
            os.execv("/bin/bash", ["bash", "--norc", "-i"])
        self.pid = pid
        self.number = number_of(self.keys)
        self.folder = folder
        (folder / str(self.number)).symlink_to(f"/dev/pts/{self.number}")
        self.printed = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                self.printed += os.read(self.keys, 65536)
            except OSError:
                return

    def type(self, text: str) -> None:
        os.write(self.keys, text.encode())

    def seen(self) -> Terminal:
        (found,) = terminals.look(processes.find(), self.folder)
        return found

    def until(self, true: Callable[[Terminal], bool]) -> None:
        ends = time.monotonic() + 120
        while not true(self.seen()):
            assert time.monotonic() < ends, (self.seen(), self.printed)
            time.sleep(0.1)

    def until_it_asks(self) -> None:
        """Wait until the shell has printed its prompt."""
        self.until(lambda seen: b"$ " in self.printed or b"# " in self.printed)

    def end(self) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.keys)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    folder = tmp_path / "dev/pts"
    folder.mkdir(parents=True)
    begun = Shell(folder)
    yield begun
    begun.end()


def test_a_prompt_is_nothing_that_runs_and_a_command_is(shell: Shell) -> None:
    shell.until_it_asks()
    shell.until(lambda seen: seen.runs == "")
    shell.type("sleep 300\r")
    shell.until(lambda seen: seen.runs == "sleep")
    shell.type("\x1a")  # Ctrl-Z
    shell.until(lambda seen: seen.runs == "")
    shell.type("fg\r")
    shell.until(lambda seen: seen.runs == "sleep")
    shell.type("\x03")
    shell.until(lambda seen: seen.runs == "")


SITS_AT_TERMINAL = """
import fcntl, os, struct, sys, time
keys = []
while len(keys) <= int(sys.argv[1]):
    keys.append(os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY))
fcntl.ioctl(keys[-1], int(sys.argv[2]), struct.pack("i", 0))
os.setsid()
os.open("/dev/pts/" + sys.argv[1], os.O_RDWR)
print("sits", flush=True)
time.sleep(300)
"""


@pytest.fixture
def container(shell: Shell) -> Iterator[None]:
    """Run a process with terminals of its own, like a container. Its terminal has the number of the shell's."""
    own = 'mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && exec "$@"'
    sits = [sys.executable, "-c", SITS_AT_TERMINAL, str(shell.number), str(TIOCSPTLCK)]
    begun = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", own, "sh", *sits], stdout=PIPE
    )
    with begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"sits\n"
        yield
        begun.kill()


@pytest.mark.usefixtures("container")
def test_a_terminal_of_a_container_is_not_taken_for_the_hosts_of_that_number(shell: Shell) -> None:
    shell.until_it_asks()
    shell.type("sleep 300\r")
    shell.until(lambda seen: seen.runs == "sleep")
    shell.type("\x03")
    shell.until(lambda seen: seen.runs == "")


def test_what_waits_for_keys_does_not_run(shell: Shell) -> None:
    shell.until_it_asks()
    shell.type("python3 -q\r")
    shell.until(lambda seen: b">>> " in shell.printed)
    shell.until(lambda seen: seen.runs == "")
    shell.type("import time; time.sleep(300)\r")
    shell.until(lambda seen: seen.runs.startswith("python3"))


def test_something_printed_is_seen_and_a_word_to_all_comes_through(shell: Shell) -> None:
    shell.type("echo hello\r")
    shell.until(lambda seen: abs((datetime.now(UTC) - seen.active).total_seconds()) < 12)
    before = datetime.now(UTC)
    terminals.write_to_all("stopped soon", shell.folder)
    shell.until(lambda seen: b"*** stopped soon ***" in shell.printed)
    assert decision.is_echo(shell.seen(), before)


def test_a_terminal_below_a_session_is_told_as_one(tmp_path: Path) -> None:
    def process(pid: int, name: str, parent: int, terminal: int | None) -> Process:
        return Process(pid, name, parent, pid, pid, terminal, pid, 0)

    pid, keys = pty.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    number = number_of(keys)
    (tmp_path / str(number)).symlink_to(f"/dev/pts/{number}")
    for above, is_session in (("ssm-session-wor", True), ("sshd", True), ("jupyter-lab", False)):
        running = {
            1: process(1, "init", 0, None),
            5: process(5, above, 1, None),
            9: process(9, "sh", 5, number),
        }
        (found,) = terminals.look(running, tmp_path)
        assert found.session is is_session
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(keys)


def test_somebody_who_is_in_by_ssh_has_no_terminal() -> None:
    def process(pid: int, name: str, parent: int) -> Process:
        return Process(pid, name, parent, pid, pid, None, -1, 0)

    listening = {1: process(1, "init", 0), 5: process(5, "sshd", 1), 7: process(7, "bash", 1)}
    assert not terminals.has_session((terminal(),), listening)
    assert terminals.has_session((terminal(session=True),), listening)
    assert terminals.has_session((), listening | {9: process(9, "sshd-session", 5)})


def test_names_of_processes_may_hold_anything() -> None:
    line = "42 (a) (b) c) S 7 40 39 34819 41 4194304 0 0 0 0 150 50 25 25 20 0 1 0 0 0 0"
    found = processes.parse(line)
    assert (found.pid, found.name, found.parent, found.group, found.session) == (42, "a) (b) c", 7, 40, 39)
    assert (found.terminal, found.foreground, found.seconds) == (3, 41, 250 / processes.TICKS)


def test_five_minutes_of_half_a_processor_are_work_and_one_minute_is_not() -> None:
    def at(seconds: float) -> dict[int, Process]:
        return {9: Process(9, "python", 1, 9, 9, None, -1, round(seconds * processes.TICKS))}

    def busy(share: float, minutes: int) -> bool:
        load = Load()
        return [load.is_busy(at(share * 60 * n), HALF_AN_HOUR, in_(n)) for n in range(minutes + 1)][-1]

    assert busy(0.6, 5)
    assert not busy(0.4, 5)
    assert not busy(0.9, 2)


@pytest.mark.parametrize(
    ("sentence", "before", "after", "seconds"),
    [
        ("a running process", {1: 5, 9: 7}, {1: 5, 9: 10}, 3),
        ("one that has begun", {1: 5}, {1: 5, 9: 2}, 2),
        ("one that has begun and ended", {1: 5}, {1: 7}, 2),
        ("what one computed hours before it ended is none of now", {1: 5, 9: 9000}, {1: 9006}, 1),
        ("nor what a number stood for before", {1: 5, 9: 9000}, {1: 9005, 9: 2}, 2),
        ("a process without a waiting parent", {1: 5, 9: 9000}, {1: 6}, 0),
    ],
)
def test_what_was_computed_between_two_looks(
    sentence: str, before: dict[int, int], after: dict[int, int], seconds: float
) -> None:
    def look(computed: dict[int, int]) -> dict[int, Process]:
        return {
            pid: Process(pid, "python", 1, pid, pid, None, -1, each * processes.TICKS)
            for pid, each in computed.items()
        }

    assert processes.processor_seconds(look(before), look(after)) == seconds, sentence


# ------------------------------------------------------------------------------------------------------ all parts
class Answers(BaseHTTPRequestHandler):
    """A server that answers like Jupyter and accepts one token."""

    told: dict[str, Any]
    status = 200

    def do_GET(self) -> None:
        right = self.headers["Authorization"] == "token secret"
        self.send_response(self.status if right else 403)
        self.end_headers()
        self.wfile.write(json.dumps(self.told[self.path]).encode())

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def jupyter() -> Iterator[type[Answers]]:
    class Now(Answers):
        """The answers of this test."""

    Now.told = {"/api/kernels": [], "/api/terminals": []}
    server = HTTPServer(("127.0.0.1", 0), Now)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    Now.port = server.server_port  # type: ignore[attr-defined]
    yield Now
    server.shutdown()
    server.server_close()


def server_at(port: int, folder: Path, token: str = "secret\n") -> Server:
    (folder / "token").write_text(token)
    return Server("127.0.0.1", port, folder / "token")


def test_what_jupyter_tells_is_read(jupyter: Any, tmp_path: Path) -> None:
    jupyter.told = {
        "/api/kernels": [
            {
                "id": "0123456789",
                "name": "python3",
                "last_activity": "2026-11-20T11:59:00.000000Z",
                "execution_state": "busy",
                "connections": 1,
            }
        ],
        "/api/terminals": [{"name": "1", "last_activity": "2026-11-20T11:58:00.000000Z"}],
    }
    kernels, its_terminals = server_at(jupyter.port, tmp_path).look()
    assert kernels == (Kernel("python3 01234567", "busy", ago(60)),)
    assert its_terminals == (Terminal("Jupyter's terminal 1", ago(120)),)


def test_no_jupyter_has_no_kernels_and_one_that_does_not_tell_is_trouble(
    jupyter: Any, tmp_path: Path
) -> None:
    assert Server("127.0.0.1", jupyter.port, tmp_path / "nothing").look() == ((), ())
    assert server_at(1, tmp_path).look() == ((), ())
    with pytest.raises(HostTrouble, match="HTTP 403"):
        server_at(jupyter.port, tmp_path, "another").look()
    jupyter.status = 500
    with pytest.raises(HostTrouble, match="HTTP 500"):
        server_at(jupyter.port, tmp_path).look()
    jupyter.status, jupyter.told = 200, {"/api/kernels": [{"id": 1}], "/api/terminals": []}
    with pytest.raises(HostTrouble, match="cannot be read"):
        server_at(jupyter.port, tmp_path).look()


class CloudWatch:
    """A CloudWatch that accepts every metric."""

    def __init__(self) -> None:
        self.put: list[dict[str, Any]] = []

    def put_metric_data(self, **request: Any) -> None:
        assert request["Namespace"] == "Trainyard"
        self.put += request["MetricData"]


@pytest.fixture
def told() -> CloudWatch:
    return CloudWatch()


@pytest.fixture
def watch(told: CloudWatch, jupyter: Any, tmp_path: Path, shell: Shell) -> Watch:
    """Return the watch of a host that booted an hour before noon and has one unused terminal."""
    server, tags = server_at(jupyter.port, tmp_path), Tags(HALF_AN_HOUR, None, None)
    shell.until_it_asks()
    os.utime(f"/dev/pts/{shell.number}", (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    return Watch(told, "i-1", Paths(tmp_path), server, lambda: tags, born=in_(-60))


def ends(folder: Path) -> str | None:
    """Return the time that the file for JupyterLab has."""
    found: str | None = json.loads(Paths(folder).idle.read_text())["ends"]
    return found


def running(state: str, active: datetime) -> dict[str, Any]:
    return {"id": "1", "name": "python3", "execution_state": state, "last_activity": active.isoformat()}


def test_each_look_is_told_and_who_leaves_is_warned_once_before_the_window_is_over(
    watch: Watch, told: CloudWatch, jupyter: Any, tmp_path: Path, shell: Shell
) -> None:
    jupyter.told["/api/kernels"] = [running("busy", LONG_AGO)]
    watch.turn(NOON)
    jupyter.told["/api/kernels"] = [running("idle", NOON)]
    for minute in range(1, 28):
        watch.turn(in_(minute))
        if minute == 26:
            assert ends(tmp_path) is None
    assert [datum["Value"] for datum in told.put] == [1.0] * 3 + [0.0] * 25
    assert [datum["Timestamp"] for datum in told.put] == [in_(minute) for minute in range(28)]
    datum = told.put[0]
    assert (datum["MetricName"], datum["Dimensions"]) == ("InUse", [{"Name": "InstanceId", "Value": "i-1"}])
    assert ends(tmp_path) == "2026-11-20T12:32:00.000Z"
    watch.turn(in_(28))
    shell.until(lambda seen: b"will be stopped in about 5 min" in shell.printed)
    assert shell.printed.count(b"***") == 2


def test_the_warning_goes_when_somebody_is_there_again(watch: Watch, jupyter: Any, tmp_path: Path) -> None:
    watch.turn(NOON)
    assert ends(tmp_path)
    jupyter.told["/api/kernels"] = [running("busy", NOON)]
    watch.turn(in_(1))
    assert ends(tmp_path) is None


def test_what_nobody_knows_is_not_told_and_warns_nobody(
    watch: Watch, told: CloudWatch, jupyter: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jupyter.status = 500
    for minute in range(3):
        watch.turn(in_(minute))
    assert (told.put, ends(tmp_path)) == ([], None)
    assert caplog.text.count("Jupyter answers GET /api/kernels with HTTP 500") == 1


def test_tags_are_read_as_they_are_written() -> None:
    written = {
        "trainyard:judged-by": policy.judged_by(Policy()),
        "trainyard:ready": "2026-11-20T12:00:00.000Z",
        "trainyard:hold": "2026-11-20T12:00Z",
    }
    assert Tags.read(written.get) == Tags(HALF_AN_HOUR, NOON, NOON)
    assert Tags.read({"trainyard:hold": "for ever"}.get) == Tags(None, None, None)
