"""Notes and warnings about a package before the user pays: files that stay behind, and probable failures on hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from trainyard.client.jobs.contents import LeftOut, Tree
from trainyard.client.jobs.ignores import GIT_IGNORE, OWN_IGNORE
from trainyard.client.jobs.package import Package
from trainyard.client.jobs.path_names import ignore_file, shell_word, shown_path
from trainyard.core.jobfile.package_lists import OTHER_LISTS
from trainyard.core.jobfile.program_command import SHELLS, find_start
from trainyard.core.model.job import Job
from trainyard.values.quantities import format_bytes

MOST_NAMED = 5
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
LARGEST_POINTER = 1024
"""The largest size in bytes of a pointer of Git LFS, which has about 130."""
WRITTEN = frozenset(
    """output outputs out log logs run runs result results checkpoint checkpoints ckpt ckpts model models tensorboard
    wandb mlruns lightning_logs tb_logs build dist cache tmp""".split()  # noqa: SIM905 - a list would fill a page
)
"""Folders that programs write. A program need not read them if git ignores them."""
DEPENDENCIES = re.compile(rb"(?m)^\s*(dependencies\s*=|\[tool\.poetry\.dependencies\]|\[project\.optional)")


def notes(found: Tree) -> tuple[str, ...]:
    """Return a line for each reason why files stay behind."""
    return tuple(_notes(found))


def warnings(job: Job, package: Package) -> tuple[str, ...]:
    """Return a sentence for each thing that will probably fail."""
    at = package.tree.shown
    found = [*_pointers(package, at)]
    if not package.is_folder and not package.is_made:
        found += [
            *_carriage_returns(job, package, at),
            *_unread_lists(job, package, at),
            *_find_missed(job, package, at),
        ]
    return tuple(found)


def explain_problem(problem: str, found: Tree) -> str:
    """Return the problem of a program. If a missing file stays behind, add the reason and the command that
    includes it."""
    words = set(re.findall(r"[^\s,;()'\"]+", problem))
    for each in found.left_out:
        name = each.path.rstrip("/")
        modules = {name.removesuffix(".py").replace("/", "."), name}
        if words & modules or any(word.startswith(f"{name}/") for word in words):
            return f"{problem}. {each.path} stays behind ({each.why}); to include it: {_take_along(each.path, found)}"
    return problem


def _notes(found: Tree) -> Iterator[str]:
    secrets = [each for each in found.left_out if each.why == "secrets"]
    ignored = [each for each in found.left_out if each.by == GIT_IGNORE]
    own = [each for each in found.left_out if each.by == OWN_IGNORE]
    others = [each for each in found.left_out if each not in (*secrets, *ignored, *own)]
    if found.shown.startswith("git+"):
        others = [each for each in others if each.path.rstrip("/") != ".git"]  # made by the clone
    if others:
        yield f"left out of {found.shown}: {', '.join(_count_others(others))}"
    if secrets:
        names = ", ".join(shown_path(each.path) for each in secrets[:MOST_NAMED])
        yield (
            f"left out of {found.shown}: {names}, which may contain secrets; programs get secrets by program.secrets. "
            f"To include it: {_take_along(secrets[0].path, found)}"
        )
    if ignored:
        largest = sorted(ignored, key=lambda each: -each.size)
        more = f" and {len(ignored) - MOST_NAMED} more" if len(ignored) > MOST_NAMED else ""
        yield (
            f"left out of {found.shown} by {GIT_IGNORE}: {', '.join(map(_with_size, largest[:MOST_NAMED]))}{more}; "
            f"to include one: {_take_along(largest[0].path, found)}"
        )
    if own:
        names = ", ".join(shown_path(each.path) for each in own[:MOST_NAMED])
        more = f" and {len(own) - MOST_NAMED} more" if len(own) > MOST_NAMED else ""
        yield f"left out of {found.shown} by {OWN_IGNORE}: {names}{more}"


def _count_others(others: Iterable[LeftOut]) -> Iterator[str]:
    """Yield files of tools by name with their count, and other files with their reason."""
    made: Counter[str] = Counter()
    rest = []
    for each in others:
        name = each.path.rstrip("/").rpartition("/")[2]
        if each.why == "made by tools":
            made["*.pyc" if name.endswith(".pyc") else name] += 1
        else:
            rest.append(f"{shown_path(each.path.rstrip('/'))} ({each.why})")
    yield from (f"{name} ({count} times)" if count > 1 else name for name, count in sorted(made.items()))
    yield from rest[: 2 * MOST_NAMED]
    if len(rest) > 2 * MOST_NAMED:
        yield f"{len(rest) - 2 * MOST_NAMED} more"


def _with_size(each: LeftOut) -> str:
    return f"{shown_path(each.path)} ({'more than ' if each.is_more else ''}{format_bytes(each.size)})"


def _take_along(path: str, found: Tree) -> str:
    return f"echo {shell_word(f'!/{path}')} >> {ignore_file(found.shown)}"


def _pointers(package: Package, at: str) -> Iterator[str]:
    """Warn of files that are pointers of Git LFS, whose content has not been fetched."""
    found = [
        file.path
        for file in package.files
        if file.size <= LARGEST_POINTER and package.heads.get(file.path, b"").startswith(LFS_POINTER)
    ]
    if found:
        named = ", ".join(shown_path(f"{at}/{path}") for path in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        yield (
            f"{named}{more}: only a pointer of Git LFS, not the content, so the program would read a text of some 130 "
            "bytes; fetch the content first: git lfs pull"
        )


def _carriage_returns(job: Job, package: Package, at: str) -> Iterator[str]:
    """Warn of scripts with Windows line ends: Linux looks for an interpreter called `bash\\r`."""
    begun = find_start(job.program).file
    by_shell = begun if str((job.program.command or ("",))[0]) in SHELLS else None
    for file in package.files:
        head = package.heads.get(file.path, b"")
        first = head.partition(b"\n")[0]
        is_script = file.path.endswith((".sh", ".bash")) or file.path == by_shell
        runs_itself = first.startswith(b"#!") and (file.is_executable or file.path == begun)
        if first.endswith(b"\r") and (is_script or (runs_itself and file.path != by_shell)):
            name = shell_word(f"{at}/{file.path}")
            yield (
                f"{shown_path(f'{at}/{file.path}')} has the line ends of Windows (CRLF), which a shell reads as "
                f"part of each command (`no such file or directory`); to fix it: sed -i 's/\\r$//' {name}"
            )


def _unread_lists(job: Job, package: Package, at: str) -> Iterator[str]:
    """Warn of a list of packages in the program's folder that hosts do not install."""
    if job.program.requirements:
        return
    paths = {file.path for file in package.files}
    if "requirements.txt" in paths:
        yield (
            f"{at}/requirements.txt is there, but the job has no program.requirements, so hosts install nothing from "
            "it; to have them do so, add requirements: requirements.txt below program"
        )
        return
    for name, other in OTHER_LISTS.items():
        if name not in paths or (
            name == "pyproject.toml" and not DEPENDENCIES.search(package.heads.get(name, b""))
        ):
            continue
        if name in ("setup.cfg", "setup.py") and b"install_requires" not in package.heads.get(name, b""):
            continue
        yield (
            f"{at}/{name} is a list of {other.made_by}, which hosts do not read: they have the image's packages only. "
            f"If the program needs more, type in {at}: {other.convert}, and add requirements: requirements.txt below "
            "program"
        )
        return


def _find_missed(job: Job, package: Package, at: str) -> Iterator[str]:
    """Warn of files that `.gitignore` leaves out although the program names them."""
    words = [*map(str, job.program.command), *map(str, _values(job)), *job.program.environment.values()]
    texts = [head.decode(errors="replace") for path, head in package.heads.items() if path.endswith(".py")]
    for each in package.tree.left_out:
        path = each.path.rstrip("/")
        name = path.rpartition("/")[2]
        if each.by != GIT_IGNORE or name in WRITTEN or not each.size:
            continue
        named = re.compile(rf"(?:^|[\s=\"'/]){re.escape(name)}(?:$|[\s\"'/])")
        if any(named.search(text) for text in words) or any(
            re.search(rf"[\"'/]{re.escape(name)}[\"'/]", text) for text in texts
        ):
            yield (
                f"the program names {shown_path(path)}, which {GIT_IGNORE} leaves out, so hosts do not have it; if it "
                f"is read, include it: {_take_along(each.path, package.tree)}"
            )


def _values(job: Job) -> Iterable[object]:
    args = job.program.args
    return args if isinstance(args, list) else args.values()
