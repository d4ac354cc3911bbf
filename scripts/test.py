"""All tests, in parallel jobs. A free slot takes the next job.

Jobs with whole runs get a copy of a yard each (tests/e2e/conftest.py), and jobs with real training run in TensorFlow's
environment. With arguments, a single pytest runs with them: `make test ARGS='tests/unit -k offers'`.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS, TENSORFLOW = ROOT / ".venv/bin/python", ROOT / ".venv-host/bin/python"
SIDE_BY_SIDE = 5
OPEN_FILES = 1024
"""Number of files that an ordinary login may open. A higher limit would hide a test that needs more."""
LONGEST_MINUTES = 80
"""Minutes after which the remaining jobs are stopped, so that a hanging test is named before a limit of 90 minutes."""


@dataclass(frozen=True)
class Job:
    """A pytest run with these paths or patterns, except those in `beside`."""

    name: str
    paths: tuple[str, ...]
    beside: tuple[str, ...] = ()
    python: Path = OURS

    @property
    def log(self) -> Path:
        return ROOT / "build" / f"test-{self.name}.log"

    @property
    def command(self) -> list[str]:
        found = [str(path) for pattern in self.paths for path in sorted(ROOT.glob(pattern))]
        return [str(self.python), "-m", "pytest", *found, *(f"--ignore={path}" for path in self.beside)]


SEPARATE_CLOUDS = ("tests/contract/ec2", "tests/contract/hosts")
"""Jobs with a separate local cloud."""
JOBS = (
    Job("patrol", ("tests/e2e/patrol",)),
    Job("runs-a", ("tests/e2e/test_[a-d]*.py",)),
    Job("runs-k", ("tests/e2e/test_[k-r]*.py",)),
    Job("training", ("tests/training",), python=TENSORFLOW),
    Job("contract", ("tests/contract",), beside=SEPARATE_CLOUDS),
    Job("runs-e", ("tests/e2e/test_[e-h]*.py",)),
    Job("runs-s", ("tests/e2e/test_[s-z]*.py",)),
    Job("docs", ("tests/e2e/own_cloud",)),
    Job("contract-hosts", SEPARATE_CLOUDS),
    Job("runs-i", ("tests/e2e/test_[i-j]*.py",)),
    Job("simulation", ("tests/simulation",)),
    Job("jupyter", ("tests/jupyter",)),
    Job("infrastructure", ("tests/infrastructure",)),
    Job("unit", ("tests/unit",)),
)
"""Longest jobs first, so that none remains at the end; jobs without waiting times last."""


@dataclass
class Bench:
    """Runner of the jobs. After `stop` it starts no more jobs and interrupts the running ones."""

    environment: dict[str, str]
    began: float = field(default_factory=time.monotonic)
    running: dict[Job, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    ended: int = 0
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, job: Job) -> int:
        """Run a job and return its exit code. Its output goes to its log."""
        with job.log.open("wb") as log, self.lock:
            if self.stopped:
                return 1
            process = subprocess.Popen(
                job.command, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
            self.running[job] = process
        code = process.wait()
        with self.lock:
            del self.running[job]
            self.ended += 1
            minutes = (time.monotonic() - self.began) / 60
            log_text = job.log.read_text(errors="replace")
            print(
                f"{minutes:4.1f} min, {self.ended} of {len(JOBS)}: {job.name}: {summary(log_text)}",
                flush=True,
            )
            if code:
                print(failures(log_text), flush=True)
        return code

    def stop(self) -> None:
        """Send SIGTERM to the running jobs. pytest handles it like Ctrl-C (tests/conftest.py) and ends its fixtures."""
        with self.lock:
            self.stopped = True
            for process in self.running.values():
                os.killpg(process.pid, signal.SIGTERM)

    def end_late_jobs(self) -> None:
        """Print the state of each running job, and stop them all."""
        for job in list(self.running):
            end = "\n".join(job.log.read_text(errors="replace").splitlines()[-5:])
            print(f"still running after {LONGEST_MINUTES} min, ended: {job.name}\n{end}", flush=True)
        self.stop()


def failures(log: str) -> str:
    """Return the failed tests in pytest's summary, or the end of the log without a summary."""
    named = re.findall(r"^(?:FAILED|ERROR) .*", log, re.MULTILINE)
    return "\n".join(f"    {line}" for line in named or log.splitlines()[-30:])


def summary(log: str) -> str:
    """Return pytest's last line, after which a leftover thread may write, or else the log's last line."""
    outcomes = re.findall(r"^=+ (.* in [\d.]+s.*?) =+$", log, re.MULTILINE)
    return outcomes[-1] if outcomes else log.rstrip().rpartition("\n")[2]


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]
    os.environ["PYTHONNOUSERSITE"] = "1"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if arguments:
        return subprocess.run([OURS, "-m", "pytest", *arguments], check=False).returncode
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for log in (ROOT / "build").glob("test-*.log"):
        log.unlink()
    JOBS[0].log.parent.mkdir(exist_ok=True)
    yard = tempfile.mkdtemp()
    bench = Bench({**os.environ, "TRAINYARD_E2E_YARD": yard})
    limit = threading.Timer(LONGEST_MINUTES * 60, bench.end_late_jobs)
    limit.daemon = True
    limit.start()
    try:
        codes = all_codes(bench)
    finally:
        limit.cancel()
        subprocess.run(["rm", "-rf", yard], check=False)  # 100,000 files, for which rmtree takes a minute
    if codes is None:
        return 128 + signal.SIGINT
    for job in JOBS:
        print(job.log.read_text(errors="replace"), flush=True)
    return int(any(codes))


def all_codes(bench: Bench) -> list[int] | None:
    """Return the exit codes of all jobs, or None if they were stopped."""
    print(f"{len(JOBS)} jobs, {SIDE_BY_SIDE} side by side; output in build/test-*.log", flush=True)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as slots:
        try:
            return list(slots.map(bench.run, JOBS))
        except KeyboardInterrupt:
            bench.stop()
            return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
