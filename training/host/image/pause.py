"""Pause a program while EC2 captures its disk. The program resumes by itself if no order does that.

The SSM documents pause and resume call this while the agent still runs. To the run, a paused program is silent for a
while. An order to leave wakes the program, too (Program.ask_to_leave).
"""

import json
import os
import subprocess

from training.host.paths import Paths
from training.host.program.process import Program

ALONE_SECONDS = 120.0
"""Longest pause of a program without peers: far less than a program may be silent."""
IN_GANG_SECONDS = 5.0
"""Longest pause of a program in a cluster: TensorFlow's peers give up a process that has been silent for 7 s."""

WAKE = '{ sleep "$1"; kill -s CONT -- "-$2"; } &'


def pause(paths: Paths) -> str:
    """Freeze this host's program and sync the disks. Return a sentence about it.

    The disks are synced before, too, so that the pause is short."""
    os.sync()
    program = running(paths)
    if program is None:
        return "no program of a run runs on this host: its disks are synced"
    seconds = patience(paths)
    _wake_later(program, seconds)
    program.freeze()
    os.sync()
    return f"the program {program.pid} is paused for at most {seconds:g} s; the disks are synced"


def resume(paths: Paths) -> str:
    """Resume this host's program. A program that was not paused is not affected."""
    program = running(paths)
    if program is None:
        return "no program of a run runs on this host"
    program.thaw()
    return f"the program {program.pid} continues"


def running(paths: Paths) -> Program | None:
    """Return the running program of the agent, or None."""
    try:
        state = json.loads(paths.state.read_text())
    except FileNotFoundError:
        return None
    program = Program.recall(paths.process(int(state["attempt"])))
    return program if program is not None and program.is_alive() else None


def patience(paths: Paths) -> float:
    """Return the longest pause of the program in seconds."""
    attempt = int(json.loads(paths.state.read_text())["attempt"])
    hosts = json.loads(paths.cluster(attempt).read_text())["hosts"]
    return ALONE_SECONDS if len(hosts) == 1 else IN_GANG_SECONDS


def _wake_later(program: Program, seconds: float) -> None:
    """Start a process that resumes the program later, even after the SSM document has ended. Waking a running program
    changes nothing."""
    subprocess.run(
        ["/bin/sh", "-c", WAKE, "wake", f"{seconds:g}", str(program.pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )
