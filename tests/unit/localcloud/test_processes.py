"""Processes that a host's init starts."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

SIGNAL_AT_ONCE = """
import os, signal, socket
from localcloud.machine.guest.processes import spawn

ear, voice = socket.socketpair()
ear.setblocking(False)
voice.setblocking(False)
signal.set_wakeup_fd(voice.fileno())
signal.signal(signal.SIGTERM, lambda *_: None)
for _ in range(20):
    child = spawn(["/bin/sleep", "2"], {}, stdout=1, stderr=2)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    print("init heard", ear.recv(100))
except BlockingIOError:
    print("init heard nothing")
"""


def test_a_signal_right_after_the_start_ends_the_program_and_not_its_init() -> None:
    argv = [sys.executable, "-c", SIGNAL_AT_ONCE]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    assert done.stdout.split("\n") == ["-15"] * 20 + ["init heard nothing", ""]


STARTED_WITH_NOHUP = """
import os, signal
from localcloud.machine.guest.processes import spawn

signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = spawn(["/bin/sh", "-c", "kill -HUP $$; exit 7"], {}, stdout=1, stderr=2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_program_hears_what_whoever_has_started_the_local_cloud_does_not() -> None:
    """Test the signals that a program handles. Otherwise programs outlive the terminal of the local cloud."""
    argv = [sys.executable, "-c", STARTED_WITH_NOHUP]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    assert done.stdout == "-1\n"
