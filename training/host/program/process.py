"""The user's program as a process: start it in its own process group, ask it to leave, end it, and find it again.

A short shell script runs between agent and program. It passes SIGTERM on and writes the exit code to the disk, so that
a restarted agent still finds out how the program ended. The script runs as the agent's account. Therefore it gets
neither text nor variables of the job; the program has another account (account.py)."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from training.host import processes
from training.host.account import Account
from training.host.container import enter
from training.host.container.enter import Entrance
from training.host.orders import write_whole

KEEPER = """
exec 3<&0 </dev/null
"$@" <&3 3<&- & program=$!
exec 3<&- 2>/dev/null
trap 'kill -TERM $program 2>/dev/null' TERM
wait $program; code=$?
while kill -0 $program 2>/dev/null; do wait $program; code=$?; done
printf %s $code > "$0.half" && mv "$0.half" "$0"
exit $code
"""


KERNEL_COUNTERS = Path("/proc/vmstat")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
SHELLS = ("sh", "bash", "dash")
SHELLS_NAME = "program.shell"
"""The name under which bash runs the lines of program.shell (environment.py)."""
HELPERS = re.compile(r"resource_tracker|forkserver|compile_worker|wandb|tensorboard")
"""Processes that libraries leave behind and that do not train."""
MOST_COMMAND_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Program:
    """A started program."""

    pid: int
    """The process id of the keeper, the shell between agent and program."""
    born: int
    """The keeper's start, which distinguishes it from a later process with the same id."""
    exit_file: Path
    keeper: "subprocess.Popen[bytes] | None" = field(default=None, compare=False, repr=False)
    """None if an earlier agent has started the program."""

    @staticmethod
    def start(
        command: Sequence[str],
        *,
        account: Account,
        folder: Path,
        env: Mapping[str, str],
        log: Path,
        exit_file: Path,
        most_tasks: int,
        entrance: Entrance | None = None,
    ) -> "Program":
        """Start a program as this account, with at most `most_tasks` processes and threads, in a container if it has an
        entrance. The account may write into `log`. Raises OSError if the disk is full."""
        exit_file.parent.mkdir(parents=True, exist_ok=True)
        exit_file.unlink(missing_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        launch = (
            enter_command(entrance, command)
            if entrance
            else account.command(command, python=Path(sys.executable), most_tasks=most_tasks)
        )
        with log.open("ab") as output, handed_over(env) as environment:
            account.give(log)
            keeper = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, str(exit_file), *launch],
                cwd=folder,
                env={"PATH": os.defpath},
                stdin=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Program(keeper.pid, _birth(keeper.pid) or 0, exit_file, keeper)

    def exit_code(self) -> int | None:
        """Return the program's exit code (128 + n if signal n ended it); None while it runs."""
        if self.is_alive():
            return None
        if self.exit_file.exists():
            return int(self.exit_file.read_text())
        if self.keeper and self.keeper.returncode >= 0:
            return self.keeper.returncode  # the disk was too full to write it down
        return 128 + signal.SIGKILL  # the keeper itself was killed

    def was_killed_whole(self) -> bool:
        """Return True if the keeper has not written the exit code: it was killed, too, or the power failed."""
        return not self.exit_file.exists() and not (self.keeper and self.keeper.returncode >= 0)

    def is_alive(self) -> bool:
        alive = _birth(self.pid) == self.born
        if self.keeper and not alive:
            self.keeper.wait()  # removes the zombie; does not block, because the process has ended
        return alive

    def itself(self) -> int | None:
        """Return the id of the program's own process; None if it has ended and its keeper still writes the exit
        code."""
        mine = (each for each in processes.find().values() if each.parent == self.pid)
        return next((each.pid for each in mine if each.state != processes.ZOMBIE), None)

    def _workers(self) -> list[int]:
        """Return the processes that do the program's work: its own, or the children of a shell that has no trap for
        SIGTERM."""
        found = processes.find()
        waiting = [pid] if (pid := self.itself()) else []
        workers = []
        while waiting:
            pid = waiting.pop()
            below = [
                each.pid for each in found.values() if each.parent == pid and each.state != processes.ZOMBIE
            ]
            is_shell = (
                pid in found
                and found[pid].name in SHELLS
                and (not _handles_sigterm(pid) or _runs_our_lines(pid))
            )
            if is_shell and below:
                waiting += below
            else:
                workers.append(pid)
        return workers

    def find_running(self, account: Account, mark: str) -> tuple[str, ...]:
        """Return the command lines of the program's processes that still run, the busiest first. `mark` is a variable,
        as NAME=VALUE, that only the program's processes have in their environment."""
        mine = sorted(self._find_remaining(account, mark), key=lambda each: -each.ticks)
        lines = (_command_line(each.pid) for each in mine)
        return tuple(line[:MOST_COMMAND_CHARACTERS] for line in lines if line and not HELPERS.search(line))

    def kill_remaining(self, account: Account, mark: str) -> None:
        """Kill processes that the program has left running in other sessions."""
        for each in self._find_remaining(account, mark):
            _signal(each.pid, signal.SIGKILL)

    def _find_remaining(self, account: Account, mark: str) -> list[processes.Process]:
        """Return the processes that the program has left. A process in another session is found by its account, or by
        its environment if the program has no account of its own."""
        return [
            each
            for each in processes.find().values()
            if each.state != processes.ZOMBIE
            and each.pid != self.pid
            and (
                self.pid in (each.group, each.session)
                or (_owner(each.pid) == account.uid if account.is_another else _has_variable(each.pid, mark))
            )
        ]

    def count_tasks(self, account: Account, mark: str) -> int:
        """Return how many processes and threads the program runs, as RLIMIT_NPROC counts them."""
        return sum(each.threads for each in self._find_remaining(account, mark))

    def runs(self) -> bool:
        return self.itself() is not None

    def processor_time(self) -> int:
        """Return the processor time of the program and its processes, in ticks. Processes that have ended count if
        their parent waited for them. Kernels of notebooks have their own process group."""
        return sum(each.ticks for each in self._find_own())

    def find_pids(self) -> tuple[int, ...]:
        """Return the ids of the program's processes."""
        return tuple(each.pid for each in self._find_own())

    def _find_own(self) -> list[processes.Process]:
        found = processes.find()
        return [
            each
            for each in found.values()
            if each.group == self.pid
            or any(above.pid == self.pid for above in processes.ancestors(each, found))
        ]

    def handles_sigterm(self) -> bool:
        """Return True if the program handles or ignores SIGTERM instead of ending by it. For a shell, its children
        count."""
        workers = self._workers()
        return not workers or any(map(_handles_sigterm, workers))

    def ask_to_leave(self) -> None:
        """Send SIGTERM only to the program, which has to end its own children. A shell does not pass a signal on, so
        its children get it, and the shell itself only if none of them handles it. Resume a frozen program, so that it
        can handle the signal."""
        if not self.is_alive():
            return
        itself = self.itself()
        below = [pid for pid in self._workers() if pid != itself]
        handling = [pid for pid in below if _handles_sigterm(pid)]
        is_ours = _runs_our_lines(itself)
        if (
            is_ours
        ):  # bash first: its trap waits for the running command, and then it must not begin the next line
            for pid in (itself, *(handling or below)):
                _signal(pid)
        elif handling:
            for pid in handling:
                _signal(pid)
        else:
            os.kill(self.pid, signal.SIGTERM)
        self.thaw()

    def freeze(self) -> None:
        """Stop the program and all its processes (SIGSTOP)."""
        if self.is_alive():
            os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the program and all its processes (SIGCONT)."""
        if self.is_alive():
            os.killpg(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the program and its process group at once."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended by itself

    def remember(self, path: Path) -> None:
        write_whole(path, json.dumps({"pid": self.pid, "born": self.born, "exit_file": str(self.exit_file)}))

    @staticmethod
    def recall(path: Path) -> "Program | None":
        """Return the program that an earlier agent has started, or None."""
        if not path.exists():
            return None
        noted = json.loads(path.read_text())
        return Program(pid=noted["pid"], born=noted["born"], exit_file=Path(noted["exit_file"]))


def enter_command(entrance: Entrance, command: Sequence[str]) -> list[str]:
    """Return the command that enters a container and becomes the program."""
    return [sys.executable, "-I", "-S", enter.__file__, entrance.to_json(), *command]


@contextmanager
def handed_over(env: Mapping[str, str]) -> Iterator[IO[bytes]]:
    """Yield a file in memory with the environment, in the format of /proc, at its beginning."""
    with os.fdopen(os.memfd_create("environment"), "w+b") as file:
        file.write(b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in env.items()))
        file.seek(0)
        yield file


def _birth(pid: int) -> int | None:
    """Return when the process started, in ticks since the boot; None if it does not exist or is a zombie."""
    found = processes.one(pid)
    return None if found is None or found.state == processes.ZOMBIE else found.born


def _signal(pid: int | None, number: signal.Signals = signal.SIGTERM) -> None:
    if pid is None:
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended by itself


def _handles_sigterm(pid: int) -> bool:
    """Return True if the process handles or ignores SIGTERM, or has just ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    masks = re.findall(r"^Sig(?:Ign|Cgt):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks)


def _runs_our_lines(pid: int | None) -> bool:
    """Return True for the bash of program.shell, whose trap ends it after the running command."""
    return pid is not None and SHELLS_NAME.encode() in _arguments(pid)


def _has_variable(pid: int, mark: str) -> bool:
    """Return True if the process was started with this variable, as NAME=VALUE."""
    try:
        return os.fsencode(mark) in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def _command_line(pid: int) -> str:
    return b" ".join(_arguments(pid)).decode(errors="replace").strip()


def _owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def killed_for_memory() -> int | None:
    """Return how many processes the kernel has killed for lack of memory, in this agent's control group or else on the
    machine since its boot; None if the kernel does not report it."""
    for counters in (_control_group() / "memory.events", KERNEL_COUNTERS):
        try:
            found = re.search(r"^oom_kill (\d+)$", counters.read_text(), re.MULTILINE)
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


def _control_group() -> Path:
    """Return the folder of the control group (version 2) of this agent and its program."""
    try:
        found = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return CONTROL_GROUPS / (found[1] if found else "")
