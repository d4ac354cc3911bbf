"""A job file on this computer: read, changed by options, checked, and packed with its local files.

`program.source: ./folder` and `data.NAME: ./folder` name folders relative to the job file (or above it, `../folder`).
Each folder gets a key in the bucket that depends on its content, so that unchanged folders are never uploaded again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainyard.client.errors import FileBroken, FileUnreadable, JobRefused, KnownToFail
from trainyard.client.jobs import cautions, git, notebooks, package, tree
from trainyard.client.jobs.contents import Tree
from trainyard.client.jobs.git import Cloned, NotCloned, Origin
from trainyard.client.jobs.package import ENDS, Package
from trainyard.client.jobs.path_names import shell_word
from trainyard.core.jobfile import check, document
from trainyard.core.jobfile.program_warnings import KnownFailure
from trainyard.core.jobfile.references import (
    HEAD_BYTES,
    Findings,
    archive_findings,
    left_out_flags,
    program_findings,
)
from trainyard.core.model.job import Job
from trainyard.core.model.job_fields import PLACEHOLDER, is_from_git, is_here
from trainyard.protocol import keys
from trainyard.values.validation import Fault, InputFaults

FOREIGN_ARCHIVES = (".zip", ".7z", ".rar", ".whl", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
SHORT = {"args": "program.args"}
"""Short forms of keys in changes."""


@dataclass(frozen=True)
class Destination:
    """The bucket and the user who uploads. The defaults stand for any bucket and any user."""

    bucket: str = PLACEHOLDER
    user: str = "YOU"


@dataclass(frozen=True)
class LocalJob:
    """A job file without faults."""

    file: Path
    document: Mapping[str, Any]
    """The job as uploaded to the bucket."""
    job: Job
    packages: tuple[Package, ...]
    """The packages that are uploaded with the job."""
    warnings: tuple[str, ...]
    """Probable failures of the program."""
    notes: tuple[str, ...] = ()
    """The files that stay behind, a line for each reason."""
    diffs: Mapping[str, bytes] = field(default_factory=dict)
    """The uncommitted changes of the program, by their key in the bucket."""

    @property
    def workflow(self) -> str:
        """Return the workflow that the upload of the job starts."""
        return "study" if self.job.study else "train"

    def check_known_failures(self) -> None:
        """Raise KnownToFail if the program is known to fail on the job's hosts."""
        found = [each for each in self.warnings if isinstance(each, KnownFailure)]
        if found:
            faults = tuple(Fault("program", each) for each in found)
            raise KnownToFail(faults, self.file, next((each.change for each in found if each.change), ""))


def read(
    file: Path | str,
    *,
    changes: Mapping[str, Any] | None = None,
    to: Destination = Destination(),
) -> LocalJob:
    """Read a job file, or a notebook as a job, with changes by dotted key (None removes a key).

    Raise FileUnreadable, or JobRefused with every fault."""
    path, asked = Path(file), changes or {}
    if path.suffix == notebooks.ENDING:
        return _read_notebook(path, asked, to)
    found = document.parse(content_of(path), source=path.name, what="a job file")
    if isinstance(found, InputFaults):
        raise FileBroken(found.faults, path)
    return check_document(path, apply_changes(path, found, asked), to)


def _read_notebook(path: Path, changes: Mapping[str, Any], to: Destination) -> LocalJob:
    """Return the job of a notebook. Raise the errors of `read`."""
    made = notebooks.job_of(path, content_of(path), changes)
    if isinstance(made, InputFaults):
        raise refuse(path, made.faults)
    local = check_document(path, apply_changes(path, made.document, changes), to)
    return replace(local, warnings=(*local.warnings, *made.warnings))


def check_document(path: Path, given: object, to: Destination) -> LocalJob:
    """Return the job of a document. Raise JobRefused."""
    placed = _Placed(path.parent, to.user)
    document = placed.place(given)
    job = check.check(document, source=path.name, bucket=to.bucket)
    if isinstance(job, InputFaults):
        raise refuse(path, (*placed.faults, *job.faults))
    faults, warnings = placed.faults, left_out_flags(job)
    for each in placed.packages:
        seen = _findings(job, each)
        faults = [*faults, *(_as_here(fault, job, each) for fault in seen.faults)]
        warnings = (*warnings, *seen.warnings)
    if faults or not isinstance(document, Mapping):
        raise refuse(path, tuple(faults))
    for each in placed.packages:
        warnings = (*warnings, *cautions.warnings(job, each))
    notes = tuple(note for each in placed.packages for note in cautions.notes(each.tree))
    return LocalJob(path, document, job, tuple(placed.packages), warnings, notes, placed.diffs)


def _as_here(fault: Fault, job: Job, package: Package) -> Fault:
    """Return the fault with the folder's name instead of its key in the bucket, and with the reason for a
    missing file."""
    problem = fault.problem.replace(str(job.program.source), package.tree.shown)
    return Fault(fault.path, cautions.explain_problem(problem, package.tree))


def _findings(job: Job, package: Package) -> Findings:
    """Return the findings in a program's files. Raise JobRefused if they change meanwhile."""
    if package.is_folder:
        return Findings()
    if not package.is_made:
        return archive_findings(job, package.archive(job.program.requirements))
    if package.size > HEAD_BYTES:
        return Findings()
    return program_findings(job, str(package.root), _content(package))


def refuse(path: Path, faults: tuple[Fault, ...]) -> JobRefused:
    return JobRefused(InputFaults(str(path), faults, so="").reason, faults, path)


def content_of(file: Path) -> bytes:
    """Return the file's bytes. Raise FileUnreadable."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileUnreadable.of(error) from error


def apply_changes(path: Path, given: object, changes: Mapping[str, Any]) -> object:
    """Return the document with the changes. Raise JobRefused if a dotted key leads through a value."""
    faults = []
    for name, value in changes.items():
        head, dot, rest = name.partition(".")
        # A label's name may contain dots.
        *above, last = [head, rest] if head == "labels" else (SHORT.get(head, head) + dot + rest).split(".")
        if not _put(given, above, last, value):
            faults.append(
                Fault(name, "the job file has no such key; a key is like limits.hours or args.epochs")
            )
    if faults:
        raise refuse(path, tuple(faults))
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


class _Placed:
    """A document with keys of the bucket instead of local folders, and the faults of these folders."""

    def __init__(self, folder: Path, user: str) -> None:
        self._folder, self._user = folder, user
        self.packages: list[Package] = []
        self.faults: list[Fault] = []
        self.diffs: dict[str, bytes] = {}

    def place(self, given: object) -> object:
        """Return the document with a key of the bucket for each local folder, also for a folder with faults."""
        if not isinstance(given, dict):
            return given
        for holder, key, path, kind in _here(given):
            found = self._package(str(holder[key]), path, kind)
            if kind == "programs":
                self._note_origin(given, found)
            if found:
                self.packages.append(found)
            # A missing folder gets a valid key, so that all other faults are reported, too.
            holder[key] = f"s3://{PLACEHOLDER}/{found.key if found else f'{kind}/missing{ENDS[kind]}'}"
        return given

    def _package(self, said: str, path: str, kind: str) -> Package | None:
        cloned = git.clone(said) if is_from_git(said) else None
        if isinstance(cloned, NotCloned):
            self._fault(path, f"{said} cannot be cloned: {cloned.reason}")
            return None
        source = cloned.folder if cloned else self._folder / said
        shown = said if cloned else os.path.normpath(source)
        found = _tree(source, shown, kind)
        if found is None:
            self._fault(path, f"{said} (beside the job file) is not there")
            return None
        problems = [*found.faults]
        if kind == "programs" and (mark := _foreign_archive(source)):
            unpacked = shell_word(shown[: -len(mark)])
            said = f"{shown} is an archive that hosts do not unpack ({mark}); unpack it, and name the folder, as in"
            problems = [f"{said} source: {_folder_beside(unpacked)}"]
        if not problems and found.is_empty:
            problems = [f"{said} (beside the job file) has no file{_all_left_out(found)}"]
        if not problems and kind == "programs" and (problem := package.estimate_too_large(found)):
            problems = [problem]
        made = None
        if not problems:
            name = git.name_of(said) if cloned else source.resolve().name
            made, changed = package.make_package(found, kind, name, self._user, cloned)
            problems = [*changed]
        for problem in problems:
            self._fault(path, problem)
        return made

    def _note_origin(self, given: dict[str, Any], found: Package | None) -> None:
        """Write the program's commit into the job, and remove the commit of another program."""
        given.pop("origin", None)
        holder = found.holder if found and isinstance(found.holder, Cloned) else None
        origin = git.origin_of(found.tree.root, holder) if found else None
        if origin is None:
            return
        diff_key = _diff_key(origin, self._user)
        if diff_key:
            self.diffs[diff_key] = origin.diff
        given["origin"] = origin.as_document(diff_key)

    def _fault(self, path: str, problem: str) -> None:
        self.faults.append(Fault(path, problem))


def _tree(source: Path, shown: str, kind: str) -> Tree | None:
    """Return the files to upload, or None if the path does not exist."""
    try:
        if source.is_dir():
            return tree.tree_of_folder(source, shown, is_program=kind == "programs")
        return tree.tree_of_file(source, shown) if source.exists() else None
    except PermissionError:
        return Tree(
            source,
            shown,
            (),
            faults=(f"{shown} is in a folder that you may not read; look at: namei -l {shown}",),
        )


def _foreign_archive(source: Path) -> str:
    """Return the ending of an archive that hosts cannot unpack, otherwise an empty text."""
    return next(
        (each for each in FOREIGN_ARCHIVES if source.is_file() and source.name.lower().endswith(each)), ""
    )


def _folder_beside(path: str) -> str:
    return path if path.startswith(".") else f"./{path}"


def _all_left_out(found: Tree) -> str:
    """Return why a folder with files has none to upload."""
    reasons = "; ".join(cautions.notes(found))
    return f" that goes along ({reasons})" if reasons else ""


def _diff_key(origin: Origin, user: str) -> str | None:
    if not origin.diff:
        return None
    name = f"{origin.commit[:12]}-{hashlib.sha256(origin.diff).hexdigest()[:16]}.diff"
    return f"{keys.owned(keys.PROGRAMS, user)}diffs/{name}"


def _here(given: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str, str]]:
    """Yield the mapping, key, path and kind of each source on this computer or in a git repository."""
    program, data = given.get("program"), given.get("data")
    if isinstance(program, dict) and (is_here(program.get("source")) or is_from_git(program.get("source"))):
        yield program, "source", "program.source", "programs"
    if isinstance(batch := given.get("predict"), dict) and is_here(batch.get("source")):
        yield batch, "source", "predict.source", "data"
    if not isinstance(data, dict):
        return
    for name, entry in data.items():
        if is_here(entry):
            yield data, name, f"data.{name}", "data"
        elif isinstance(entry, dict) and is_here(entry.get("source")):
            yield entry, "source", f"data.{name}.source", "data"


def pack_folder(folder: Path) -> bytes:
    """Return a folder as a source archive."""
    made, _ = package.make_package(
        tree.tree_of_folder(folder, folder.name, is_program=True), "programs", folder.name, Destination.user
    )
    assert made
    return package.content_of(made)


def _content(found: Package) -> bytes:
    return package.content_of(found)
