"""The check of a gang's collectives before its program starts, if the setting nccl_check_seconds enables it.

It is an all-reduce by NCCL over all GPUs of the gang, in a process that ends before the program starts. Its failure is
one of the host. A host that may have failed only because of another one waits for an order to leave before it reports
that: the report of the host with an error of its own brings this order, and only that host is replaced.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from training.host import account
from training.host.agent.context import Context
from training.host.agent.life import has_gpus
from training.host.agent.preparation import LeftUnstarted
from training.host.errors import HostTrouble
from training.host.program import all_reduce, frameworks
from training.host.program.environment import NOT_GIVEN, fill, form_seconds, placeholders
from training.host.program.packages import commands_path, python_for
from training.host.program.process import Program
from training.host.reporting import gpus
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.values.quantities import format_count
from trainyard.values.text import printable

COMMAND = "all_reduce_perf"
"""The all-reduce of NVIDIA's nccl-tests, for one host."""
SIZES = ("-b", "8", "-e", "64M", "-f", "8")
PASSED_ON = ("NCCL_", "FI_")
"""The beginnings of the variables of the job that NCCL and its network plugin read."""
LOOK_SECONDS = 0.2
WAIT_FOR_OTHERS_SECONDS = 10.0
"""How long a host that may have failed because of another one waits for an order to leave."""
KILLED_SECONDS = 10.0
"""How long a killed process may take to end: a driver that hangs may hold it for ever."""
MOST_OUTPUT = 64 * 1024
MOST_SHOWN, LAST_LINES = 600, 5
ROW = re.compile(
    r"^\s*(?P<bytes>\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+(?P<rate>[\d.]+)\s+(?P<wrong>\d+|N/A)\b",
    re.MULTILINE,
)
"""A row of all_reduce_perf: the size, the count, type, operation and root, and of the all-reduce in another buffer its
time, rate, rate of the bus in GB/s, and wrong results."""
ERRORS = re.compile(
    r"^.*(?:NCCL WARN|unhandled (?:system|cuda) error|nccl\w*Error|Test (?:NCCL|CUDA) failure).*$",
    re.MULTILINE,
)
OF_OTHERS = re.compile(
    r"remote process|ncclRemoteError|closed by (?:remote )?peer|reset by peer|Connection refused|heartbeat"
    r"|UnavailableError|AbortedError|CancelledError|UNAVAILABLE|ABORTED|CANCELLED"
)
"""Words of a process that has lost another one. Its host may be healthy."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check. `rate` is the highest rate of the bus in GB/s."""

    rate: float
    wrong: int


def read_result(output: str) -> Result | None:
    """Return the result in the output of all_reduce_perf, or of all_reduce.py; None if it has no row."""
    rows = [*ROW.finditer(output)]
    if not rows:
        return None
    wrong = sum(int(row["wrong"]) for row in rows if row["wrong"].isdigit())
    return Result(max(float(row["rate"]) for row in rows), wrong)


def reason_in(output: str) -> str:
    """Return NCCL's own errors and the last lines of an output, in one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not ROW.match(line)]
    found = [line.strip() for line in ERRORS.findall(output)][-LAST_LINES:]
    kept = [*found, *(line for line in lines[-LAST_LINES:] if line not in found)]
    return printable(" / ".join(dict.fromkeys(kept)), MOST_SHOWN)


def count_ranks(cluster: Cluster, assignment: Assignment, on_host: int) -> int:
    """Return the number of GPUs that reduce together; 0 if this host takes no part in that."""
    if not cluster.strategy.has_several_hosts:
        return on_host
    takes_part = cluster.strategy.trains_in_step and assignment in cluster.trainers
    return on_host * len(cluster.trainers) if takes_part else 0


@dataclass(frozen=True, slots=True)
class Collectives:
    """The check on this host. `check_hardware` raises BrokenHardware, which is more exact than any error of NCCL."""

    context: Context
    note: Callable[[str], None]
    check_hardware: Callable[[], None]
    most_tasks: int

    def check(self) -> str | None:
        """Return the result as a sentence for the timeline; None without a check. Raises HostTrouble if the all-reduce
        fails, and LeftUnstarted if the attempt has to leave."""
        seconds, tags = self.context.job.nccl_check_seconds, self.context.identity.tags
        if not seconds or not has_gpus(tags):
            return None
        ranks = count_ranks(self.context.cluster, self.context.assignment, gpus.count_of_host(tags))
        if ranks < 2:
            return None
        began = time.monotonic()
        code = self._run(seconds, gpus.count_of_host(tags))
        output = self._output
        if code == all_reduce.WITHOUT_TENSORFLOW:
            self.note(f"the GPUs' collectives are not checked: {reason_in(output)}")
            return None
        result = read_result(output)
        if result and result.wrong:
            self._fail(f"found {format_count(result.wrong, 'wrong result')}", output, is_own=True)
        if code or result is None:
            self._fail(f"ended with exit code {code}", output, is_own=not OF_OTHERS.search(output))
        took = time.monotonic() - began
        what = f"an all-reduce over {ranks} GPUs reached {result.rate:.1f} GB/s (NCCL, {took:.0f} s)"
        self.note(what)
        return what if self.context.assignment.is_chief else None

    def _run(self, seconds: int, on_host: int) -> int:
        """Return the exit code of the process. Raises HostTrouble if it takes longer."""
        cluster, paths = self.context.cluster, self.context.paths
        folder = paths.collectives(cluster.attempt)
        folder.mkdir(parents=True, exist_ok=True)
        env = self._environment()
        own = shutil.which(COMMAND, path=env["PATH"])
        if own and len(cluster.trainers) == 1:
            words, may_wait = [own, *SIZES, "-g", str(on_host)], 0
        else:
            python = paths.python if self.context.inside else python_for(paths)
            leader = ["leader"] if self.context.assignment.is_chief else []
            words = [str(python), "-P", all_reduce.__file__, str(on_host), *leader]
            may_wait = form_seconds(self.context.job)
        process = Program.start(
            words,
            account=self.context.account,
            folder=paths.program,
            env=env,
            log=folder / "output",
            exit_file=folder / "code",
            most_tasks=self.most_tasks,
        )
        try:
            return self._await(process, seconds, may_wait)
        finally:
            process.kill()
            process.kill_remaining(self.context.account, self._mark)
            self.context.account.end_all()
            until = time.monotonic() + KILLED_SECONDS
            while process.is_alive() and time.monotonic() < until:
                time.sleep(LOOK_SECONDS)

    def _await(self, process: Program, seconds: int, may_wait: int) -> int:
        """Return the exit code. `may_wait` is how many seconds the hosts may take to find each other before the time
        limit begins."""
        until, is_formed = time.monotonic() + may_wait + seconds, not may_wait
        while (code := process.exit_code()) is None:
            self._leave_if_ordered()
            if not is_formed and all_reduce.FORMED in self._output:
                until, is_formed = time.monotonic() + seconds, True
            if time.monotonic() >= until:
                late = f"did not end within {seconds} s (nccl_check_seconds)"
                self._fail(
                    late if is_formed else f"did not begin within {may_wait + seconds} s",
                    self._output,
                    is_own=False,
                )
            time.sleep(LOOK_SECONDS)
        return code

    def _fail(self, how: str, output: str, *, is_own: bool) -> NoReturn:
        """Raise the trouble of this host. If it may be another host's, wait for an order to leave first."""
        cluster, assignment = self.context.cluster, self.context.assignment
        on_host = gpus.count_of_host(self.context.identity.tags)
        gang = f" of {len(cluster.trainers)} hosts" if len(cluster.trainers) > 1 else ""
        reason = (
            f"the all-reduce over the GPUs{gang}, which checks NCCL before the program starts, {how} on "
            f"{assignment.name} ({assignment.instance}, {on_host} GPUs): {reason_in(output) or 'it printed nothing'}"
        )
        self.note(reason)
        self.check_hardware()
        until = time.monotonic() + (0 if is_own or not gang else WAIT_FOR_OTHERS_SECONDS)
        while time.monotonic() < until:
            self._leave_if_ordered()
            time.sleep(LOOK_SECONDS)
        self.check_hardware()
        raise HostTrouble(reason)

    def _leave_if_ordered(self) -> None:
        if drain := self.context.order_to_leave():
            raise LeftUnstarted(drain)

    @property
    def _output(self) -> str:
        with (self.context.paths.collectives(self.context.cluster.attempt) / "output").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_OUTPUT))
            return file.read().decode(errors="replace")

    @property
    def _mark(self) -> str:
        """The variable that identifies the processes of the check."""
        return f"TRAINYARD_COLLECTIVES={self.context.cluster.run}/{self.context.cluster.attempt}"

    def _environment(self) -> Mapping[str, str]:
        """Return the variables of the process: this host's, and of the job's only those for NCCL. The port differs from
        the program's, because another host's program may start while this process still ends."""
        cluster, assignment, paths = self.context.cluster, self.context.assignment, self.context.paths
        known = placeholders(cluster, assignment, self.context.job, paths)
        asked = self.context.job.program.environment.items()
        config = frameworks.tf_config(replace(cluster, port=cluster.port + 1), assignment)
        name, _, value = self._mark.partition("=")
        return {
            **{each: os.environ[each] for each in os.environ if each not in (*NOT_GIVEN, "PYTHONPATH")},
            "PATH": commands_path(paths, os.environ.get("PATH", os.defpath)),
            "HOME": str(paths.home),
            "USER": account.NAME,
            "TF_CPP_MIN_LOG_LEVEL": "1",
            "NCCL_DEBUG": "WARN",
            **{each: fill(text, known) for each, text in asked if each.startswith(PASSED_ON)},
            **({"TF_CONFIG": config} if config else {}),
            name: value,
        }
