"""The contents of a source archive, and the reasons why its program cannot start."""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping

from trainyard import archives
from trainyard.core.jobfile import package_lists
from trainyard.core.jobfile.program_code import at_start, list_imports, reach
from trainyard.core.jobfile.program_command import find_start, key_of_start
from trainyard.core.jobfile.rules import is_shipped
from trainyard.core.model.job import Job
from trainyard.core.model.program import Program
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault, did_you_mean

MOST_UNPACKED = 256 * 1024**2
MOST_TEXT, MOST_TEXTS = 200 * 1024, 2 * 1024**2
"""The most bytes of one file, and of all files, that are inspected. Longer Python files are probably data."""
IMAGE_PACKAGES = frozenset(
    "absl boto3 botocore google grpc h5py keras numpy pip tensorboard tensorflow tf_keras trainyard uv".split()  # noqa: SIM905
)
"""Packages of the image that a job might name as its module."""


@dataclass(frozen=True)
class Archive:
    """The contents of a source archive."""

    paths: frozenset[str]
    texts: Mapping[str, bytes]
    """The text of each inspected file."""
    links: bool = False
    """True if a member is a link, which may lead to any path."""

    @property
    def sources(self) -> dict[str, bytes]:
        return {path: text for path, text in self.texts.items() if path.endswith(".py")}

    def is_folder(self, path: str) -> bool:
        return any(each.startswith(f"{path}/") for each in self.paths)

    def holds(self, path: str) -> bool:
        """Return True for a file, a folder with files, and the top folder."""
        return path in ("", ".") or path in self.paths or self.is_folder(path)

    def is_there(self, module: str) -> bool:
        """Return True if Python finds a module or package of this name in the archive, as source or compiled."""
        base = module.replace(".", "/")
        compiled = any(path.startswith(f"{base}.") and path.endswith((".so", ".pyc")) for path in self.paths)
        return compiled or f"{base}.py" in self.paths or self.is_folder(base)

    def runs(self, module: str) -> bool:
        """Return True if `python -m` can run it: a module, or a package with a `__main__`."""
        base = module.replace(".", "/")
        if self.is_folder(base) and f"{base}.py" not in self.paths:
            return self.is_there(f"{module}.__main__")
        return self.is_there(module)

    def entry(self, program: Program) -> list[tuple[str, str]]:
        """Return the path and the dotted name of every Python file that runs at the program's start, in order."""
        begun = find_start(program)
        if begun.file in self.sources:
            return [(begun.file, "__main__")]
        return self._entry(begun.module) if begun.module else []

    def _entry(self, module: str) -> list[tuple[str, str]]:
        """Return the entries of `python -m module`."""
        parts = module.split(".")
        if f"{'/'.join(parts)}/__main__.py" in self.paths:
            parts.append("__main__")
        packages = [
            (f"{'/'.join(parts[:count])}/__init__.py", ".".join(parts[:count]))
            for count in range(1, len(parts))
        ]
        files = [*packages, (f"{'/'.join(parts)}.py", ".".join(parts))]
        return [(path, name) for path, name in files if path in self.sources]


@dataclass(frozen=True)
class NotUnpacked:
    """A source archive that cannot be unpacked, with the reason and the remedy."""

    reason: str


def read(content: bytes, *, also: str | None = None) -> Archive | NotUnpacked | None:
    """Read a source archive with the text of its Python files and of `also`, up to the limits.

    Return None if the unpacked archive is too large to inspect.
    """
    paths: set[str] = set()
    texts: dict[str, bytes] = {}
    links, unpacked, left = False, 0, MOST_TEXTS
    try:
        with archives.open_tar(io.BytesIO(content)) as tar:
            for member in archives.members(tar):
                unpacked += member.size
                if unpacked > MOST_UNPACKED:
                    return None
                path = "/".join(part for part in member.name.split("/") if part not in ("", "."))
                links = links or member.issym() or member.islnk()
                if member.isreg():
                    paths.add(path)
                    is_text = path.endswith(".py") or path == also
                    if is_text and member.size <= min(MOST_TEXT, left):
                        held = tar.extractfile(member)
                        texts[path] = held.read(member.size) if held else b""
                        left -= member.size
    except archives.NotAllowedError as danger:
        return NotUnpacked(f"has a member that cannot be unpacked: {danger}")
    except archives.BROKEN as error:
        why = archives.show_name(str(error) or type(error).__name__)
        return NotUnpacked(
            f"is not a complete tar archive ({why}); make it again: tar czf PROGRAM.tar.gz -C FOLDER ."
        )
    return Archive(frozenset(paths), texts, links)


def faults(job: Job, archive: Archive) -> tuple[Fault, ...]:
    """Return the reasons why the program cannot start."""
    found = [*_requirements_faults(job, archive), *_entry_faults(job, archive)]
    return tuple(found or _start_faults(job, archive))


def _requirements_faults(job: Job, archive: Archive) -> Iterator[Fault]:
    wanted = job.program.requirements
    if wanted and wanted not in archive.paths and not archive.links:
        near = [
            path for path in sorted(archive.paths) if path.rpartition("/")[2] == wanted.rpartition("/")[2]
        ]
        hint = f"; did you mean {near[0]}?" if near else f"{did_you_mean(wanted, sorted(archive.paths))}"
        yield Fault("program.requirements", f"{wanted} is not in {job.program.source}{hint}")
    elif wanted and (other := package_lists.other_list(wanted)):
        problem = (
            f"{wanted} is a list of {other.made_by}, which pip cannot read, and hosts install with pip. Run in the "
            f"folder of that file: {other.convert}, and write requirements: requirements.txt"
        )
        yield Fault("program.requirements", problem)
    elif wanted:
        yield from _missing_paths(wanted, archive)


def _missing_paths(wanted: str, archive: Archive) -> Iterator[Fault]:
    """Yield the paths that the list names and the program lacks.

    Hosts install from the list's own folder if it contains all paths, otherwise from the top folder.
    """
    content = archive.texts.get(wanted, b"")
    listed, own = package_lists.paths_in(content), wanted.rpartition("/")[0]
    if archive.links:
        return
    base = package_lists.base_of(listed, own, archive.holds)
    if base is not None:
        yield from _not_built(wanted, base, package_lists.projects_in(content), archive)
        return
    for path in listed:
        if not any(archive.holds(package_lists.join_path(folder, path)) for folder in (own, "")):
            where = f"{own}/ nor in the top folder of" if own else "the top folder of"
            yield Fault("program.requirements", f"{wanted} names {path}, which is not in {where} the program")


def _not_built(wanted: str, base: str, projects: Iterable[str], archive: Archive) -> Iterator[Fault]:
    """Yield the folders in the list that pip cannot build."""
    for path in projects:
        folder = package_lists.join_path(base, path)
        if not any(package_lists.join_path(folder, name) in archive.paths for name in package_lists.BUILT_BY):
            needs = " or ".join(package_lists.BUILT_BY)
            problem = (
                f"{wanted} names {path}, a folder without {needs}, so pip would fail on hosts that are billed. Add one "
                f"of these files, or remove the line: Python finds the program's own modules without it"
            )
            yield Fault("program.requirements", problem)


def _entry_faults(job: Job, archive: Archive) -> Iterator[Fault]:
    """Yield the fault of a module or file that a host does not find at the program's start."""
    begun, key = find_start(job.program), key_of_start(job.program)
    if begun.module:
        if _is_missing(begun.module, job, archive):
            yield Fault(key, _not_found(begun.module, job, archive))
    elif begun.file and begun.file not in archive.paths and not archive.links:
        yield Fault(key, _no_file(begun.file, job, archive))


def _no_file(file: str, job: Job, archive: Archive) -> str:
    name = file.rpartition("/")[2]
    near = [path for path in sorted(archive.paths) if path.rpartition("/")[2] == name]
    named = ", ".join(sorted(archive.paths))
    hint = f"; did you mean {near[0]}?" if near else did_you_mean(file, sorted(archive.paths))
    hint = hint or (f"; it holds {named}" if len(named) < 200 else "")
    return f"{file} is not in {job.program.source}, in whose top folder the command runs{hint}"


def _is_missing(module: str, job: Job, archive: Archive) -> bool:
    """Return True if a host finds the module neither in the archive nor in installed packages."""
    first = module.partition(".")[0]
    in_archive = archive.is_there(first)
    is_in_image = job.program.container is not None
    may_be_installed = (
        is_in_image or bool(job.program.requirements) or first in IMAGE_PACKAGES | sys.stdlib_module_names
    )
    return not archive.links and not archive.runs(module) and (in_archive or not may_be_installed)


def _not_found(module: str, job: Job, archive: Archive) -> str:
    where = f"cannot be found in {job.program.source} (unpacked, its top folder is on the path)"
    if archive.is_folder(module.replace(".", "/")):
        return f"{module} is a package without a __main__.py in {job.program.source}; name a module inside it"
    ending = f"/{module.replace('.', '/')}.py"
    deeper = sorted(path for path in archive.paths if f"/{path}".endswith(ending))
    if deeper:
        folder = deeper[0].removesuffix(ending.removeprefix("/")).rstrip("/")
        return f"{module} {where}, only below {folder}/; pack what is in there: tar czf PROGRAM.tar.gz -C {folder} ."
    if is_shipped(module):
        return f"{module} {where}; to run the image's own program of that name, leave program.source out"
    known = [path.removesuffix(".py").replace("/", ".") for path in sorted(archive.sources)]
    named = ", ".join(each for each in known if not each.endswith("__init__"))
    hint = did_you_mean(module, known) or (f"; it holds {named}" if len(named) < 200 else "")
    return f"{module} {where}{hint}"


def _start_faults(job: Job, archive: Archive) -> Iterator[Fault]:
    """Yield the faults that the program meets in its first statements."""
    modules, broken = reach(archive.sources, archive.entry(job.program), at_start)
    for file in broken:
        if not file.needs:
            yield Fault("program.source", str(file))
    if archive.links or job.program.requirements or job.program.container:
        return
    for module in modules:
        for node in at_start(module):
            name = next(iter(list_imports(node, module.package)), "")
            if f"{name}.".startswith("training.") and not archive.is_there(name):
                problem = f"imports {name}, which is not in the archive; hosts have the package trainyard for programs"
                where = f"{module.path} line {getattr(node, 'lineno', 0)}"
                yield Fault(
                    "program.source", f"{where} {problem}, as in `from trainyard.runtime import start`"
                )
