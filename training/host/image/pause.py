"""Pausing: the program stands still while EC2 takes the instant of its disk; it goes on by itself if nobody says so.

The documents pause and resume call it beside the agent, which goes on: to the run a paused program is one that says
nothing for a while. Whoever asks the program to leave meanwhile wakes it too (Program.ask_to_leave).
"""

import json
import os
import subprocess

from training.host.paths import Paths
from training.host.program.process import Program

ALONE_SECONDS = 120.0
"""How long a program without peers stands still at most: far less than it may be silent."""
IN_GANG_SECONDS = 5.0
"""The same in a cluster: TensorFlow's peers give a process up that has been silent for 7 seconds."""

WAKE = '{ sleep "$1"; kill -s CONT -- "-$2"; } &'


def pause(paths: Paths) -> str:
    """Stop this host's program where it is and bring all it has written to the disk. What was done, in words.

    The disk is synced before, too, so that the program stands still as briefly as may be."""
    os.sync()
    program = running(paths)
    if program is None:
        return "no program of a run runs on this host: its disks are synced"
    seconds = patience(paths)
    _wake_later(program, seconds)
    program.freeze()
    os.sync()
    return f"the program {program.pid} stands still, for {seconds:g} s at most; the disks are synced"


def resume(paths: Paths) -> str:
    """Let this host's program go on. One that was not paused goes on as it did."""
    program = running(paths)
    if program is None:
        return "no program of a run runs on this host"
    program.thaw()
    return f"the program {program.pid} goes on"


def running(paths: Paths) -> Program | None:
    """The program that the agent has started, if one runs."""
    try:
        state = json.loads(paths.state.read_text())
    except FileNotFoundError:
        return None
    program = Program.recall(paths.process(int(state["attempt"])))
    return program if program is not None and program.is_alive() else None


def patience(paths: Paths) -> float:
    """How long the program may stand still, in seconds."""
    attempt = int(json.loads(paths.state.read_text())["attempt"])
    hosts = json.loads(paths.cluster(attempt).read_text())["hosts"]
    return ALONE_SECONDS if len(hosts) == 1 else IN_GANG_SECONDS


def _wake_later(program: Program, seconds: float) -> None:
    """The dead man's switch: a process of its own, which the end of the document does not end. To wake what goes on
    changes nothing."""
    subprocess.run(
        ["/bin/sh", "-c", WAKE, "wake", f"{seconds:g}", str(program.pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )
