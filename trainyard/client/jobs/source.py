"""A job file on this computer: read, changed as asked for, checked, and what of this computer goes along with it.

`program.source: ./folder` and `data.NAME: ./folder` name folders beside the job file (or above it, `../folder`). Each
gets a place in the bucket that is named by its content, so that what has not changed is never sent again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from trainyard.client.errors import FileBroken, FileUnreadable, JobRefused, KnownToFail
from trainyard.client.jobs import notebooks
from trainyard.core.jobfile import check, document
from trainyard.core.jobfile.program_warnings import KnownFailure
from trainyard.core.jobfile.references import HEAD_BYTES, left_out_flags, program_findings
from trainyard.core.model.job import Job, Strategy
from trainyard.core.model.job_fields import PLACEHOLDER, is_here
from trainyard.core.values.validation import Fault, InputFaults

ARCHIVES = (".tar", ".tar.gz", ".tgz")
LEFT_OUT = frozenset(
    "__pycache__ .git .hg .svn .venv venv .ipynb_checkpoints .mypy_cache .pytest_cache .ruff_cache".split()  # noqa: SIM905
)
"""Folders that are never part of a program or of data."""
NEVER_EMPTY = (("program", "command"), ("hardware", "zones"))
"""Lists that an admitted job has in any case, and a file with something in them alone."""
OF_SECOND_GANGS = (("hardware", "cpu_instance_types"), ("hardware", "cpu_roles"))
"""The same with every strategy but parameter_server, where an empty list says that there is one gang."""
ENDS = {"programs": ".tar.gz", "data": "/"}
"""What keys end with, by where they begin."""
SHORT = {"args": "program.args"}
"""What may be said for a key of the job file where it is changed by name."""


@dataclass(frozen=True)
class Package:
    """Files of this computer and where they belong: `key` is that of one archive, or ends in `/`."""

    key: str
    root: Path
    files: tuple[Path, ...]

    @property
    def is_folder(self) -> bool:
        """Whether each file is an object of its own."""
        return self.key.endswith("/")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    def pack(self, target: IO[bytes]) -> None:
        """Write the archive: the same files make the same bytes."""
        if self.root.is_file():
            target.write(self.root.read_bytes())
            return
        with (
            gzip.GzipFile(fileobj=target, mode="wb", compresslevel=6, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", dereference=True) as archive,
        ):
            for file in self.files:
                archive.add(file, arcname=file.relative_to(self.root).as_posix(), filter=_anybodys)


@dataclass(frozen=True)
class LocalJob:
    """A job file without faults: `document` as it goes to the bucket, `job` what it says, `packages` what goes along,
    `warnings` what of the program will probably fail."""

    file: Path
    document: Mapping[str, Any]
    job: Job
    packages: tuple[Package, ...]
    warnings: tuple[str, ...]

    def check_known_failures(self) -> None:
        """Raise KnownToFail if the program is known to fail on the hosts that the job asks for."""
        found = [each for each in self.warnings if isinstance(each, KnownFailure)]
        if found:
            faults = tuple(Fault("program", each) for each in found)
            raise KnownToFail(faults, self.file, next((each.change for each in found if each.change), ""))


def read(
    file: Path | str,
    *,
    changes: Mapping[str, Any] | None = None,
    bucket: str | None = None,
) -> LocalJob:
    """The job file, or the notebook as a job, with these changes (by dotted key; None takes a key away), for the yard
    with this bucket, else for any. Raises FileUnreadable; JobRefused with every fault at once."""
    path, asked = Path(file), changes or {}
    if path.suffix == notebooks.ENDING:
        return _of_notebook(path, asked, bucket)
    found = document.parse(content_of(path), source=path.name, what="a job file")
    if isinstance(found, InputFaults):
        raise FileBroken(found.faults, path)
    return checked(path, changed(path, found, asked), bucket)


def _of_notebook(path: Path, changes: Mapping[str, Any], bucket: str | None) -> LocalJob:
    """The job that a notebook is. Raises as `read` does."""
    made = notebooks.job_of(path, content_of(path), changes)
    if isinstance(made, InputFaults):
        raise refused(path, made.faults)
    local = checked(path, changed(path, made.document, changes), bucket)
    return replace(local, warnings=(*local.warnings, *made.warnings))


def checked(path: Path, given: object, bucket: str | None) -> LocalJob:
    """The job that a document says. Raises JobRefused."""
    faults: list[Fault] = []
    placed, packages = _placed(given, path.parent, faults)
    job = check.check(placed, source=path.name, bucket=bucket or PLACEHOLDER)
    if isinstance(job, InputFaults):
        raise refused(path, (*faults, *job.faults))
    warnings = left_out_flags(job)
    for package in packages:
        if not package.is_folder and package.size <= HEAD_BYTES:
            seen = program_findings(job, str(package.root), _content(package))
            faults, warnings = [*faults, *seen.faults], (*warnings, *seen.warnings)
    if faults or not isinstance(placed, Mapping):
        raise refused(path, tuple(faults))
    return LocalJob(path, placed, job, tuple(packages), warnings)


def as_file(admitted: Mapping[str, Any]) -> dict[str, Any]:
    """job.json as a person may write it: without empty lists that a file may not have, and the key that only parameter
    servers have."""
    written = _said(admitted)
    serves = written["cluster"]["strategy"] == Strategy.PARAMETER_SERVER
    for section, key in NEVER_EMPTY if serves else (*NEVER_EMPTY, *OF_SECOND_GANGS):
        if not written[section].get(key):
            written[section].pop(key, None)
    if not serves:
        written["cluster"].pop("chief", None)
    return written


def _said(admitted: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {
        key: _said(value) if isinstance(value, Mapping) else value
        for key, value in admitted.items()
        if value is not None
    }
    return written


def refused(path: Path, faults: tuple[Fault, ...]) -> JobRefused:
    return JobRefused(InputFaults(str(path), faults, so="").reason, faults, path)


def content_of(file: Path) -> bytes:
    """The file's bytes. Raises FileUnreadable."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileUnreadable.of(error) from error


def changed(path: Path, given: object, changes: Mapping[str, Any]) -> object:
    """The document with other values under these dotted keys. Raises JobRefused where one leads through a value."""
    faults = []
    for name, value in changes.items():
        head, dot, rest = name.partition(".")
        # a label's own name may have dots
        *above, last = [head, rest] if head == "labels" else (SHORT.get(head, head) + dot + rest).split(".")
        if not _put(given, above, last, value):
            faults.append(
                Fault(name, "the job file has no such place; a key is like limits.hours or args.epochs")
            )
    if faults:
        raise refused(path, tuple(faults))
    return given


def _put(given: object, above: list[str], last: str, value: Any) -> bool:
    inside = given
    for key in above:
        if not isinstance(inside, dict):
            return False
        if inside.get(key) is None:
            inside[key] = {}
        inside = inside[key]
    if not isinstance(inside, dict) or not last:
        return False
    inside[last] = value
    if value is None:
        del inside[last]
    return True


def _placed(given: object, folder: Path, faults: list[Fault]) -> tuple[object, list[Package]]:
    """The document with places in the bucket instead of folders of this computer."""
    packages: list[Package] = []
    if not isinstance(given, dict):
        return given, packages
    for holder, key, path, kind in _here(given):
        source = (folder / holder[key]).resolve()
        package = _package(source, kind) if source.exists() else None
        if package is None or not package.files:
            problem = "has no file" if package else "is not there"
            faults.append(Fault(path, f"{holder[key]} (beside the job file) {problem}"))
        else:
            packages.append(package)
        # what is not there has a legal place all the same: all other faults are told, too
        holder[key] = f"s3://{PLACEHOLDER}/{package.key if package else f'{kind}/missing{ENDS[kind]}'}"
    return given, packages


def _here(given: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str, str]]:
    """Each mapping, key, path and kind of what lies on this computer."""
    program, data = given.get("program"), given.get("data")
    if isinstance(program, dict) and is_here(program.get("source")):
        yield program, "source", "program.source", "programs"
    if not isinstance(data, dict):
        return
    for name, entry in data.items():
        if is_here(entry):
            yield data, name, f"data.{name}", "data"
        elif isinstance(entry, dict) and is_here(entry.get("source")):
            yield entry, "source", f"data.{name}.source", "data"


def packed(folder: Path) -> bytes:
    """The folder as the archive that a program is."""
    return _content(Package("", folder, tuple(_files(folder))))


def _package(source: Path, kind: str) -> Package:
    is_file = source.is_file()
    archives = [end for end in ARCHIVES if is_file and kind == "programs" and source.name.endswith(end)]
    files = (source,) if is_file else tuple(_files(source))
    root = source.parent if is_file and not archives else source
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", source.name.partition(".")[0]).strip("-") or kind
    return Package(f"{kind}/{name}-{_digest(root, files)[:16]}{[*archives, ENDS[kind]][0]}", root, files)


def _files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder).parts
        if not LEFT_OUT & set(inside) and file.suffix != ".pyc" and file.is_file():
            yield file


def _digest(root: Path, files: tuple[Path, ...]) -> str:
    """Of names, contents and whether a file may be run."""
    total = hashlib.sha256()
    for file in files:
        name = file.relative_to(root).as_posix() if root.is_dir() else file.name
        with file.open("rb") as content:
            own = hashlib.file_digest(content, "sha256").hexdigest()
        total.update(f"{name}\0{bool(file.stat().st_mode & 0o100)}\0{own}\n".encode())
    return total.hexdigest()


def _anybodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def _content(package: Package) -> bytes:
    buffer = io.BytesIO()
    package.pack(buffer)
    return buffer.getvalue()
