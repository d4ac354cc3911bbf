"""Mount and unmount file systems by the commands that their makers maintain.

Mount points are folders of root, because root would follow a link that a program puts at a path of its own home.
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.host.account import remove_tree
from training.host.errors import HostTrouble, Unreachable
from training.host.paths import Paths

MOUNT_SECONDS, END_SECONDS, LOOK_SECONDS = 60.0, 10.0, 0.1
OCTAL = re.compile(r"\\([0-7]{3})")
PASSING = re.compile(
    r"HTTP 5\d\d|Throttled|SlowDown|ServiceUnavailable|timed? ?out|Connection (refused|reset)", re.I
)
"""Messages about a service that may answer soon."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A mount for a moment, which shows whether the file system answers."""

    command: Sequence[str]
    seconds: float
    silence: str
    """The reason of a failed start if it does not answer: what must be open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file system that the agent mounts for one data entry."""

    label: str
    """The key of the entry: data.NAME."""
    source: str
    """Its source in the job file."""
    path: Path
    """The mount point."""
    command: Sequence[str]
    """The words that mount it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[Path] = ()
    """Folders of root that the command needs."""
    probe: Probe | None = None
    """A mount to try first, for file systems that would wait for ever."""
    is_written: bool = False
    """True if programs may write."""
    remedy: str = "bake an image with this yard's version"
    """The next step if the image lacks the command."""


def mount(wanted: Mount) -> None:
    """Mount the file system, unless it is mounted and answers. Raises HostTrouble with the command's last line, or
    Unreachable if a service does not answer."""
    if is_mounted(wanted.path):
        if answers(wanted.path):
            return
        unmount(wanted.path)
    for folder in (wanted.path, *wanted.folders):
        folder.mkdir(parents=True, exist_ok=True)
    for folder in wanted.folders:
        folder.chmod(0o700)
    if shutil.which(wanted.command[0]) is None:
        raise HostTrouble(
            f"{wanted.label}: this host's image has no {wanted.command[0]}, which mounts {wanted.source}: "
            f"{wanted.remedy}",
            final=True,
        )
    if wanted.probe:
        _try(wanted, wanted.probe)
    try:
        done = subprocess.run(
            list(wanted.command),
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MOUNT_SECONDS,
            env=os.environ | dict(wanted.environment),
        )
    except subprocess.TimeoutExpired as error:
        raise Unreachable(
            f"{wanted.label}: {wanted.source} could not be mounted within {MOUNT_SECONDS:g} s"
        ) from error
    if done.returncode or not is_mounted(wanted.path):
        line = last_line(done.stderr or done.stdout) or f"{wanted.command[0]} ended with {done.returncode}"
        said = f"{wanted.label}: {wanted.source} could not be mounted: {line}"
        raise Unreachable(said) if PASSING.search(line) else HostTrouble(said)
    logger.info("%s: %s is mounted at %s", wanted.label, wanted.source, wanted.path)


def _try(wanted: Mount, probe: Probe) -> None:
    """Mount for a moment. Raises HostTrouble if the file system does not answer in time, or refuses."""
    process = subprocess.Popen(
        list(probe.command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | dict(wanted.environment),
        start_new_session=True,  # the commands of makers start others, which must end, too
    )
    try:
        output, _ = process.communicate(timeout=probe.seconds)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if is_mounted(wanted.path):
            unmount(wanted.path)
        raise HostTrouble(probe.silence) from error
    if process.returncode or not is_mounted(wanted.path):
        line = last_line(output) or f"{probe.command[0]} ended with {process.returncode}"
        raise HostTrouble(f"{wanted.label}: {wanted.source} could not be mounted: {line}")
    unmount(wanted.path)


def last_line(output: str) -> str:
    """Return the last line of a command's output that names a cause."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if "Failed to create mount process" not in line]
    return next(reversed(causes or lines), "")


def mount_points(below: Path) -> list[Path]:
    """Return the mount points below a folder, the deepest first."""
    return sorted((path for path in _all() if path.is_relative_to(below)), reverse=True)


def is_mounted(path: Path) -> bool:
    return path in set(_all())


def _all() -> Iterator[Path]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split(" ")
        name = OCTAL.sub(lambda code: chr(int(code[1], 8)), words[4])
        yield Path(name.encode("latin-1", errors="surrogateescape").decode(errors="surrogateescape"))


def answers(path: Path) -> bool:
    """Return False if the server of a mounted file system has died. This call waits as long as the server does."""
    try:
        os.statvfs(path)
    except OSError:
        return False
    return True


def unmount(path: Path) -> None:
    """Unmount, and wait until the server of the file system has ended. Readers get an error. Raises HostTrouble if the
    mount stays."""
    servers = set(_servers(path))
    done = subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True, text=True)
    if is_mounted(path):
        raise HostTrouble(f"{path} cannot be unmounted: {done.stderr.strip()}")
    end = time.monotonic() + END_SECONDS
    while servers & set(_servers(path)) and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    end_servers(path)


def end_servers(path: Path) -> None:
    """Kill the processes that serve the mount point, so that no reader waits for them."""
    for pid in _servers(path):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _servers(path: Path) -> Iterator[int]:
    """Yield the processes of root whose command line names the mount point."""
    word = os.fsencode(path)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            is_own = folder.stat().st_uid == os.geteuid()
        except OSError:
            continue
        if is_own and word in words and int(folder.name) != os.getpid():
            yield int(folder.name)


def unmount_all(paths: Paths) -> None:
    """Unmount all file systems of the run, and remove their folders. A second call is harmless."""
    for path in mount_points(paths.mounts):
        unmount(path)
    if paths.mounts.exists():
        remove_tree(paths.mounts)
    paths.root_credentials.unlink(missing_ok=True)
