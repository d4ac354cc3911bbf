"""The user's program as a process: started in a group of its own, asked to leave, ended, and found again.

A few lines of shell stand between agent and program: they pass SIGTERM on and leave the exit code on disk, so that
an agent that was restarted still learns how the program ended. Nothing of the job reaches that shell as text.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.host.cluster import Cluster, Seat
from training.host.fetch import python_for, python_path
from training.host.orders import write_whole
from training.host.places import Places

KEEPER = """
"$@" & program=$!
trap 'kill -TERM $program 2>/dev/null' TERM
wait $program; code=$?
while kill -0 $program 2>/dev/null; do wait $program; code=$?; done
printf %s $code > "$0.half" && mv "$0.half" "$0"
"""


STATE, GROUP, TIMES, BORN = 0, 2, slice(11, 15), 19
"""Where /proc/<pid>/stat has them, counted from its third field: proc(5). The times are the process's own, user and
system, and those of its children."""


def arguments(args: Mapping[str, object]) -> list[str]:
    """`program.args` as a command line: --key value; true is --key alone, false is left out."""
    line: list[str] = []
    for key, value in args.items():
        if value is True:
            line.append(f"--{key}")
        elif value is not False:
            line += [f"--{key}", str(value)]
    return line


def environment(
    cluster: Cluster, seat: Seat, places: Places, *, region: str, base: Mapping[str, str]
) -> dict[str, str]:
    """What docs/contracts.md promises a program, on top of what the agent itself was given."""
    told = {
        "TRAINYARD_RUN": cluster.run,
        "TRAINYARD_ATTEMPT": str(cluster.attempt),
        "TRAINYARD_JOB": str(places.job),
        "TRAINYARD_CHECKPOINTS": str(places.checkpoints),
        "TRAINYARD_TENSORBOARD": str(places.results / "tensorboard"),
        "TRAINYARD_MODEL": str(places.results / "model"),
        "TRAINYARD_METRICS": str(places.results / "metrics.json"),
        "TRAINYARD_PROGRESS": str(places.attempt(cluster.attempt) / "progress.jsonl"),
        "PYTHONPATH": python_path(places),
        "PYTHONUNBUFFERED": "1",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
    }
    for name in cluster.job.get("data", {}):
        told[f"TRAINYARD_DATA_{name.upper().replace('-', '_')}"] = str(places.data / name)
    tf_config = cluster.tf_config(seat)
    if tf_config:
        told["TF_CONFIG"] = tf_config
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "1"}  # TensorFlow's INFO lines would bury the program's own
    return quiet | {key: value for key, value in base.items() if key != "TF_CONFIG"} | told


@dataclass(frozen=True, slots=True)
class Program:
    """A started program. `born` tells its process id from a later one's; `keeper` is None for an earlier agent's."""

    pid: int
    born: int
    exit_file: Path
    keeper: "subprocess.Popen[bytes] | None" = field(default=None, compare=False, repr=False)

    @staticmethod
    def start(
        command: Sequence[str], *, folder: Path, env: Mapping[str, str], log: Path, exit_file: Path
    ) -> "Program":
        """Raises OSError when there is no such interpreter or no room."""
        exit_file.parent.mkdir(parents=True, exist_ok=True)
        exit_file.unlink(missing_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            keeper = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, str(exit_file), *command],
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Program(keeper.pid, _birth(keeper.pid) or 0, exit_file, keeper)

    def exit_code(self) -> int | None:
        """The program's exit code (128 + n when signal n ended it); None while it runs."""
        if self.is_alive():
            return None
        if self.exit_file.exists():
            return int(self.exit_file.read_text())
        return 128 + signal.SIGKILL  # the keeper itself was killed: nobody could write a code

    def is_alive(self) -> bool:
        alive = _birth(self.pid) == self.born
        if self.keeper and not alive:
            self.keeper.wait()  # it is over: nothing of it is left behind, and this does not wait
        return alive

    def processor_time(self) -> int:
        """What the program and everything it started have used so far, in the kernel's ticks; those that ended
        count as far as somebody waited for them."""
        stats = (_stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return sum(
            sum(int(ticks) for ticks in stat[TIMES])
            for stat in stats
            if stat and int(stat[GROUP]) == self.pid
        )

    def ask_to_leave(self) -> None:
        """SIGTERM to the program alone: what it started itself is its own to end."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End the program and everything it started, now."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended by itself

    def remember(self, path: Path) -> None:
        write_whole(path, json.dumps({"pid": self.pid, "born": self.born, "exit_file": str(self.exit_file)}))

    @staticmethod
    def recall(path: Path) -> "Program | None":
        """The program an earlier agent started; None when it started none."""
        if not path.exists():
            return None
        said = json.loads(path.read_text())
        return Program(pid=said["pid"], born=said["born"], exit_file=Path(said["exit_file"]))


def command_line(cluster: Cluster, places: Places) -> list[str]:
    program = cluster.job["program"]
    return [str(python_for(places)), "-m", program["module"], *arguments(program.get("args", {}))]


def _birth(pid: int) -> int | None:
    """When the process started, in the kernel's ticks; None when there is no such process (a zombie is none)."""
    stat = _stat(pid)
    return None if stat is None or stat[STATE] == "Z" else int(stat[BORN])


def _stat(pid: int) -> list[str] | None:
    """/proc/<pid>/stat from the third field on; None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
