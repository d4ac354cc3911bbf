"""What a program's source shows before anything is launched: no module of that name, a file Python cannot compile, a
name that TensorFlow no longer has, a Keras `fit` that cannot span hosts.

Only what is certain is a fault: whoever is refused wrongly cannot train at all, whoever is not is told by the host.
"""

import gzip
import io
import re
import sys
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lambdas.core.jobfile import source_code, tensorflow_use
from lambdas.core.jobfile.rules import is_shipped
from lambdas.core.jobfile.source_code import Broken
from lambdas.core.model.job import PROGRAMS, SHIPPED, Fault, Job, Strategy
from lambdas.core.model.validation import did_you_mean

MOST_UNPACKED = 256 * 1024**2

GZIP = b"\x1f\x8b"
IMAGE_PACKAGES = frozenset(
    "absl boto3 botocore google grpc h5py keras numpy pip tensorboard tensorflow tf_keras uv".split()  # noqa: SIM905
)
"""Packages of the image that a job might name as its module."""
PYTHON_2 = ("Missing parentheses in call to", "multiple exception types must be parenthesized")


@dataclass(frozen=True)
class Archive:
    """A program's archive: the path of every file in it, the text of those that are read, and whether any member is
    a link (which may stand for any path)."""

    paths: frozenset[str]
    texts: Mapping[str, bytes]
    links: bool = False

    @property
    def sources(self) -> dict[str, bytes]:
        return {path: text for path, text in self.texts.items() if path.endswith(".py")}

    def is_folder(self, path: str) -> bool:
        return any(each.startswith(f"{path}/") for each in self.paths)


@dataclass(frozen=True)
class NotWhole:
    """The archive cannot be unpacked."""

    reason: str


def faults(job: Job, content: bytes) -> tuple[Fault, ...]:
    """Every fault that the text of the program shows. `content` is the whole archive."""
    archive = read(content, also=job.program.requirements)
    if isinstance(archive, NotWhole):
        why = f"is not a whole tar archive ({archive.reason})"
        problem = f"{job.program.source} {why}; make it again: tar czf PROGRAM.tar.gz -C FOLDER ."
        return (Fault("program.source", problem),)
    if archive is None:
        return ()
    found = [*_requirements_faults(job, archive), *_module_faults(job, archive)]
    if not found:
        found += [Fault("program.source", problem) for problem in _code_problems(job, archive)]
    return tuple(found)


def read(content: bytes, *, also: str | None = None) -> Archive | NotWhole | None:
    """The archive, with the text of its Python files and of `also`. None when it unpacks to too much to look at."""
    plain = gzip.GzipFile(fileobj=io.BytesIO(content)) if content.startswith(GZIP) else io.BytesIO(content)
    paths: set[str] = set()
    texts: dict[str, bytes] = {}
    links, unpacked = False, 0
    try:
        with tarfile.open(fileobj=plain, mode="r|") as tar:
            for member in tar:
                unpacked += member.size
                if unpacked > MOST_UNPACKED:
                    return None
                path = "/".join(part for part in member.name.split("/") if part not in ("", "."))
                links = links or member.issym() or member.islnk()
                if member.isreg():
                    paths.add(path)
                    if path.endswith(".py") or path == also:
                        held = tar.extractfile(member)
                        texts[path] = held.read() if held else b""
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        return NotWhole(str(error))
    return Archive(frozenset(paths), texts, links)


def _requirements_faults(job: Job, archive: Archive) -> Iterator[Fault]:
    wanted = job.program.requirements
    if wanted and wanted not in archive.paths and not archive.links:
        near = [
            path for path in sorted(archive.paths) if path.rpartition("/")[2] == wanted.rpartition("/")[2]
        ]
        hint = f"; did you mean {near[0]}?" if near else f"{did_you_mean(wanted, sorted(archive.paths))}"
        yield Fault("program.requirements", f"{wanted} is not in {job.program.source}{hint}")


def _module_faults(job: Job, archive: Archive) -> Iterator[Fault]:
    """The module is found as a host finds it: in the archive, among the image's programs, in installed packages."""
    module = job.program.module
    first = module.partition(".")[0]
    in_archive = _is_there(archive, first)
    may_be_installed = bool(job.program.requirements) or first in IMAGE_PACKAGES | sys.stdlib_module_names
    if archive.links:
        return
    if first == SHIPPED.partition(".")[0] and not _has(archive, f"{first}/__init__.py"):
        if not is_shipped(module):
            yield Fault("program.module", _hidden(module, in_archive=in_archive))
    elif not (in_archive and _runs(archive, module)) and (in_archive or not may_be_installed):
        yield Fault("program.module", _not_found(job, archive))


def _hidden(module: str, *, in_archive: bool) -> str:
    if in_archive:
        return f"{module} cannot be found: the image's own package training comes first; rename the folder training/"
    known = did_you_mean(module, [SHIPPED + program for program in PROGRAMS])
    return f"{module} is none of the image's own programs{known}"


def _not_found(job: Job, archive: Archive) -> str:
    module = job.program.module
    where = f"cannot be found in {job.program.source} (unpacked, its top folder is on the path)"
    if _is_there(archive, module) and archive.is_folder(module.replace(".", "/")):
        return f"{module} is a package without a __main__.py in {job.program.source}; name a module inside it"
    ending = f"/{module.replace('.', '/')}.py"
    deeper = sorted(path for path in archive.paths if f"/{path}".endswith(ending))
    if deeper:
        folder = deeper[0].removesuffix(ending.removeprefix("/")).rstrip("/")
        return f"{module} {where}, only below {folder}/; pack what is in there: tar czf PROGRAM.tar.gz -C {folder} ."
    known = [path.removesuffix(".py").replace("/", ".") for path in sorted(archive.sources)]
    named = ", ".join(each for each in known if not each.endswith("__init__"))
    hint = did_you_mean(module, known) or (f"; it holds {named}" if len(named) < 200 else "")
    return f"{module} {where}{hint}"


def _has(archive: Archive, path: str) -> bool:
    return path in archive.paths


def _is_there(archive: Archive, module: str) -> bool:
    """Whether Python finds a module or package of that name in the archive, as text or compiled."""
    base = module.replace(".", "/")
    folder, _, stem = base.rpartition("/")
    prefix = f"{folder}/{stem}." if folder else f"{stem}."
    compiled = any(path.startswith(prefix) and path.endswith((".so", ".pyc")) for path in archive.paths)
    return compiled or _has(archive, f"{base}.py") or archive.is_folder(base)


def _runs(archive: Archive, module: str) -> bool:
    """Whether `python -m` can run it: a module, or a package with a `__main__`."""
    if archive.is_folder(module.replace(".", "/")) and not _has(archive, f"{module.replace('.', '/')}.py"):
        return _is_there(archive, f"{module}.__main__")
    return _is_there(archive, module)


def _entry(archive: Archive, module: str) -> list[tuple[str, str]]:
    """(path, dotted name) of every file that `python -m module` runs, in order."""
    parts = module.split(".")
    if archive.is_folder("/".join(parts)) and _has(archive, f"{'/'.join(parts)}/__main__.py"):
        parts.append("__main__")
    packages = [
        (f"{'/'.join(parts[:count])}/__init__.py", ".".join(parts[:count])) for count in range(1, len(parts))
    ]
    files = [*packages, (f"{'/'.join(parts)}.py", ".".join(parts))]
    return [(path, name) for path, name in files if path in archive.sources]


def _code_problems(job: Job, archive: Archive) -> Iterator[str]:
    clustered = job.cluster.strategy in (Strategy.MULTI_WORKER, Strategy.PARAMETER_SERVER)
    entry = _entry(archive, job.program.module)
    if not entry:
        return
    code = source_code.reach(archive.sources, entry, clustered=clustered)
    yield from (_broken(each) for each in code.broken)
    if not _brings_tensorflow(job, archive):
        yield from tensorflow_use.problems(job, code)


def _broken(file: Broken) -> str:
    where = f"{file.path} line {file.line}" if file.line else file.path
    python_2 = "; this is Python 2, hosts have Python 3" if file.reason.startswith(PYTHON_2) else ""
    return f"{where} cannot be compiled: {file.reason}{python_2}"


def _brings_tensorflow(job: Job, archive: Archive) -> bool:
    """Whether the program may run with another TensorFlow or Keras than the image's: then nothing is certain."""
    listed = archive.texts.get(job.program.requirements or "", b"").decode("utf-8", "replace")
    lines = [line.partition("#")[0].strip().lower() for line in listed.splitlines()]
    brought = any(re.match(r"-|.*(tf|tensorflow|keras|://|@)", line) for line in lines if line)
    own = any(_is_there(archive, name) for name in ("tensorflow", "keras"))
    unseen = bool(job.program.requirements) and not listed
    return brought or own or unseen
