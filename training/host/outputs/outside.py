"""Warn of files that a program writes outside its working folder: they are not uploaded, and are lost with the host.

A warning names models, and files of more than a mebibyte. It skips caches, temporary files, and downloaded data sets,
which a program can create or fetch again.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from training.host.account import Account
from training.host.keys import show_name
from training.host.outputs.scan import CACHES, ENVIRONMENT, NOT_REPORTED
from training.host.paths import Paths
from trainyard.values.quantities import format_bytes, format_count

TRIFLE_BYTES = 1 << 20
MODEL = re.compile(
    r".*\.(keras|h5|hdf5|pt|pth|ckpt|safetensors|onnx|tflite|pkl|pickle|joblib|npz|npy|index)"
    r"|saved_model\.pb|.*\.data-\d{5}-of-\d{5}",
    re.IGNORECASE,
)
"""Names of models and checkpoints, which are reported at any size."""
ARCHIVE = re.compile(r".*\.(gz|tgz|bz2|xz|zst|zip|tar|7z|lock|incomplete)", re.IGNORECASE)
"""A folder with such a file is a downloaded data set."""
PASSING = re.compile(
    r"\..*|tmp[a-z0-9_]{8}.*|torchinductor_.*|torch_.*|pymp-.*|pip-.*|ray|cuda.*|hsperfdata_.*|systemd-.*|snap.*|jax.*"
    r"|joblib_.*|wandb.*|triton.*|mlflow.*|pyright.*|matplotlib-.*|numba.*|tfhub_modules.*|nltk_data|scikit_learn_data"
    r"|tensorflow_datasets|torch|fontconfig|go|snap|.*cache.*"
)
"""Names of caches and temporary files of libraries at the top of the home or of /tmp."""
NETWORK = re.compile(
    r"nfs4?|lustre|beegfs|gpfs|ceph|glusterfs|cifs|smb3|9p|afs|orangefs|virtiofs"
    r"|fuse\.(?!(fuse-overlayfs|overlayfs|squashfuse|lxcfs|snapfuse)$).*|fuse"
)
"""File systems whose files outlive a host: EFS and FSx, mounted buckets, other machines."""
MOUNTS = Path("/proc/self/mountinfo")
OCTAL = re.compile(r"\\([0-7]{3})")
SYSTEM = frozenset("bin boot dev etc lost+found opt proc root run sbin snap sys usr var".split())  # noqa: SIM905
MOST_LOOKED_AT = 20_000
"""Most entries of folders that one look reads, so that a look is always short."""
NAMED_AT_MOST = 5


@dataclass(slots=True)
class Outside:
    """A search for a program's files outside its working folder."""

    paths: Paths
    account: Account
    since: float
    """The program's start, in seconds since 1970."""
    mounts: Path = MOUNTS
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the files in the last look, by the program's path of each file."""

    def look(self) -> None:
        """Search the home, /tmp, and all top folders that are not the system's."""
        paths, left = self.paths, MOST_LOOKED_AT
        own = {path.name for path in _own(paths)}
        remote = _network_folders(self.mounts.read_text())
        found: dict[str, int] = {}
        for top, besides, name in (
            (paths.home, own, "~"),
            (paths.root / "var/tmp", frozenset(), "/var/tmp"),  # noqa: S108 - the program's, not ours
            *((folder, frozenset(), f"/{folder.name}") for folder in self._others()),
        ):
            for path, size in self._below(top, besides, remote):
                left -= 1
                if size is not None:
                    found[f"{name}/{path}"] = size
                if left <= 0:
                    break
        self.sizes = found

    def warning(self) -> str | None:
        """Return one sentence that names the files, the largest first; None without any."""
        if not self.sizes:
            return None
        largest = sorted(self.sizes.items(), key=lambda each: (-each[1], each[0]))
        names = ", ".join(
            f"{show_name(path)} ({format_bytes(size)})" for path, size in largest[:NAMED_AT_MOST]
        )
        more = len(largest) - NAMED_AT_MOST
        return (
            f"{format_count(len(largest), 'file')} outside the working folder will be lost with the host: {names}"
            f"{f' and {more} more' if more > 0 else ''}; to keep such files, write them below the working folder, by a "
            "relative path"
        )

    def _others(self) -> Iterator[Path]:
        """Yield the top folders that are not the system's, such as /tmp and /data."""
        for folder in sorted(self.paths.root.iterdir()):
            if folder.name not in SYSTEM and folder.is_dir() and not folder.is_symlink():
                yield folder

    def _below(
        self, top: Path, besides: AbstractSet[str], remote: AbstractSet[Path]
    ) -> Iterator[tuple[str, int | None]]:
        """Yield every file below `top` by path there, with its size if it has to be reported."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            if top / folder in remote:
                continue
            try:
                with os.scandir(top / folder) as entries:
                    inside = list(entries)
            except OSError:  # it has gone, or is not this account's
                continue
            names = {entry.name for entry in inside}
            if folder and (ENVIRONMENT in names or any(map(ARCHIVE.fullmatch, names))):
                continue
            for entry in inside:
                if entry.name in besides and not folder:
                    continue
                if entry.name in CACHES | NOT_REPORTED or (not folder and PASSING.fullmatch(entry.name)):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    else:
                        yield path, self._size(entry)
                except OSError:
                    continue

    def _size(self, entry: "os.DirEntry[str]") -> int | None:
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != self.account.uid:
            return None
        if status.st_ctime < self.since or ARCHIVE.fullmatch(entry.name):
            return None
        matters = status.st_size > TRIFLE_BYTES or (status.st_size and MODEL.fullmatch(entry.name))
        return status.st_size if matters else None


def _network_folders(mounts: str) -> frozenset[Path]:
    """Return the mount points of network file systems in `mounts`, a mountinfo of the kernel."""
    found = set()
    for line in mounts.splitlines():
        before, _, behind = line.partition(" - ")
        kind = behind.split(" ", 1)[0]
        if NETWORK.fullmatch(kind):
            folder = OCTAL.sub(lambda code: chr(int(code[1], 8)), before.split(" ")[4])
            found.add(Path(folder.encode("latin-1").decode(errors="surrogateescape")))
    return frozenset(found)


def _own(paths: Paths) -> tuple[Path, ...]:
    """Return Trainyard's own folders in the home. Their files are uploaded in other ways, or are not outputs."""
    return (
        *(paths.program, paths.source_archive, paths.venv, paths.data, paths.journals, paths.spare),
        *(paths.checkpoints, paths.restores, paths.staging, paths.results, paths.home / "attempts"),
    )
