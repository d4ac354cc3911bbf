"""Generalize a disk before an image is made: remove what belongs only to this instance, and check that it is gone.

There are two depths. `host` is for a host that a user may start again later with all its files: its identity and the
agent's state are removed. `builder` also removes traces of the bake, credentials, and logs.
"""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.host.account import remove_tree
from training.host.errors import HostTrouble
from training.host.orders import write_whole
from training.host.paths import Paths

IDENTITY = (
    "etc/ssh/ssh_host_*",
    "etc/trainyard/host.json",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "var/lib/systemd/credential.secret",
    "var/lib/cloud/instance",
    "var/lib/cloud/instances",
    "var/lib/cloud/data",
    "var/lib/cloud/sem",
    "var/lib/dhcp/*.lease*",
    "var/lib/amazon/ssm/Vault",
    "var/lib/amazon/ssm/registration",
)
"""Patterns of paths below the root."""
AGENTS_WORK = (
    "run/trainyard/orders",
    "var/lib/trainyard/state.json",
    "var/lib/trainyard/reserve",
    "var/lib/trainyard/home/attempts",
    "var/lib/trainyard/home/restores",
    "var/lib/trainyard/home/staging",
    "var/lib/trainyard/attempts",
    "var/lib/trainyard/mounts",
    "var/lib/trainyard/cluster-*.json",
    "var/lib/trainyard/noted.json",
    "var/lib/trainyard-kept",
)
COMMANDS = (
    "var/lib/amazon/ssm/*/document/orchestration/*",
    "var/lib/amazon/ssm/*/document/state/completed/*",
    "var/lib/amazon/ssm/*/inventory",
)
"""The Systems Manager agent's files of commands. The files of running commands, such as this one, stay."""

HOMES = ("root", "home/*")
CREDENTIALS = (
    ".aws/credentials",
    ".aws/cli/cache",
    ".aws/sso/cache",
    ".aws/login/cache",
    ".config/gcloud",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".git-credentials",
    ".cache/huggingface/token",
    ".kaggle/kaggle.json",
    ".netrc",
    ".pypirc",
    ".ssh/authorized_keys",
    ".ssh/id_*",
    ".ssh/known_hosts",
)
HISTORIES = (".*_history", ".lesshst", ".viminfo", ".wget-hsts")
BUILDERS = (
    "var/lib/trainyard/*",
    *(f"{home}/{name}" for home in HOMES for name in (*CREDENTIALS, *HISTORIES)),
)
PASSING = ("tmp/*", "var/tmp/*", "var/crash/*", "opt/aws/amazon-cloudwatch-agent/logs/*")
LOGS = "var/log"
"""Logs and temporary files. Services may write new ones at any time, so the check skips them."""

SEARCHED = ("root", "home", "etc", "opt/trainyard", "usr/local/etc")
PASSED_OVER = (
    "opt/trainyard/venv",
    "opt/trainyard/jupyter",
    "opt/trainyard/agent",
    "etc/ssl",
    "etc/alternatives",
    "etc/pki",
)
MOST_SEARCHED_BYTES = 256 * 1024
SECRETS = (
    (
        "an access key of AWS",
        re.compile(rb"(?<![A-Z0-9])(?:AKIA|ASIA)(?![A-Z0-9]*EXAMPLE)[A-Z0-9]{16}(?![A-Z0-9])"),
    ),
    ("a secret access key", re.compile(rb"aws_secret_access_key\s*[=:]\s*\S", re.IGNORECASE)),
    ("a private key", re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
)

DEPTHS = ("host", "builder")


@dataclass(frozen=True, slots=True)
class ForbiddenPath:
    """A path that must not be in an image, and why."""

    path: Path
    what: str


def generalize(paths: Paths, instance: str, *, depth: str, command: str = "") -> list[Path]:
    """Remove everything, mark this instance as generalized, and return the removed paths.

    `command` is the id of the Systems Manager command that runs this. Raises HostTrouble that names the paths that must
    not stay."""
    removed, kept = [], []
    for path in [*_must_go(paths.root, depth), *_may_come_back(paths.root, depth, command)]:
        try:
            _remove(path)
            removed.append(path)
        except OSError as error:
            kept.append(ForbiddenPath(path, f"it could not be removed: {error.strerror}"))
    if paths.machine_id.exists():
        paths.machine_id.write_text("")
    write_whole(paths.generalized, instance)
    refuse([*kept, *find_forbidden(paths, depth)])
    os.sync()
    return removed


def find_forbidden(paths: Paths, depth: str) -> list[ForbiddenPath]:
    """Look again for paths that must not be in an image."""
    found = [
        ForbiddenPath(path, "it exists again")
        for path in _must_go(paths.root, depth)
        if path != paths.generalized
    ]
    if paths.machine_id.exists() and paths.machine_id.read_text().strip():
        found.append(ForbiddenPath(paths.machine_id, "it names this machine"))
    if depth == "builder":
        found += [ForbiddenPath(path, f"it contains {what}") for path, what in _secrets(paths)]
    return found


def refuse(found: Sequence[ForbiddenPath]) -> None:
    if found:
        named = "; ".join(f"{item.path}: {item.what}" for item in found)
        raise HostTrouble(
            f"this disk must not become an image: {named}. Remove it at the end of the recipe's commands, or by hand, "
            "and start again",
            final=True,
        )


def _must_go(root: Path, depth: str) -> Iterator[Path]:
    for pattern in [*IDENTITY, *AGENTS_WORK, *(BUILDERS if depth == "builder" else ())]:
        yield from sorted(root.glob(pattern))


def _may_come_back(root: Path, depth: str, command: str) -> Iterator[Path]:
    under_way = [command, *(path.name for path in root.glob("var/lib/amazon/ssm/*/document/state/current/*"))]
    for pattern in COMMANDS:
        for path in sorted(root.glob(pattern)):
            if not any(name.startswith(path.name) for name in under_way):
                yield path
    if depth == "builder":
        for pattern in PASSING:
            yield from sorted(root.glob(pattern))
        yield from _files(root / LOGS)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _secrets(paths: Paths) -> Iterator[tuple[Path, str]]:
    """Find secrets in files that were written since the boot. Files of the base image are its publisher's business."""
    passed_over = {paths.root / folder for folder in PASSED_OVER}
    since = _came_up(paths.root / "proc/stat")
    for folder in SEARCHED:
        for path in _files(paths.root / folder, passed_over):
            status = path.stat()
            if status.st_ctime >= since and status.st_size <= MOST_SEARCHED_BYTES:
                content = path.read_bytes()
                yield from ((path, what) for what, pattern in SECRETS if pattern.search(content))


def _came_up(stat: Path) -> float:
    """Return when this instance booted, in seconds since 1970; 0 if the kernel does not report it."""
    lines = stat.read_text().splitlines() if stat.exists() else []
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), 0.0)


def _files(folder: Path, passed_over: Collection[Path] = ()) -> Iterator[Path]:
    """Yield the regular files below a folder, without links."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if Path(place, name) not in passed_over)
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path
