"""What must be on this host's disk before the program starts: job, program, packages, data."""

import importlib
import importlib.machinery
import json
import logging
import os
import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from training.host.bucket import Bucket
from training.host.data.fetch import fetch_whole
from training.host.disk import fresh, walk
from training.host.errors import OtherVersion, ProgramFault
from training.host.paths import Paths
from training.host.program import archive
from training.host.program.packages import command, commands_path, install, python_for, site_packages
from trainyard.core.model.job import Job
from trainyard.core.model.program import Program
from trainyard.protocol import keys
from trainyard.values import serialization

BASH = "bash"
LIBRARY = "trainyard"
"""The one name of ours that programs can import."""

logger = logging.getLogger(__name__)


def fetch_job(bucket: Bucket, run: str, paths: Paths) -> Job:
    """Return the job as admitted, and keep it on disk where TRAINYARD_JOB points."""
    text = bucket.read(keys.job(run))
    paths.work.mkdir(parents=True, exist_ok=True)
    paths.job.write_bytes(text)
    return recall_job(paths)


def recall_job(paths: Paths) -> Job:
    """Return the job that `fetch_job` has kept on disk."""
    try:
        return serialization.read(Job, json.loads(paths.job.read_bytes()))
    except ValueError as error:
        raise OtherVersion("job.json", error) from error


def fetch_all(bucket: Bucket, job: Job, paths: Paths) -> str | None:
    """Program with its packages, and the data that every host has, side by side. Raises the first trouble of either,
    and does not go on with the data for a program that cannot be run. What the list of packages is known by."""
    hopeless = threading.Event()
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="fetch") as pool:
        program = pool.submit(fetch_program, bucket, job.program, paths)
        data = pool.submit(fetch_whole, bucket, job, paths, given_up=hopeless.is_set)
        waits: list[Future[Any]] = [program, data]
        for wait in as_completed(waits):
            if wait.exception():
                hopeless.set()
                wait.result()
    return program.result()


def fetch_program(bucket: Bucket, program: Program, paths: Paths) -> str | None:
    """Unpack the source, install its requirements, and make sure that module or command can be found. What the list of
    packages is known by (packages.install)."""
    packages = None
    paths.sources.unlink(missing_ok=True)
    fresh(paths.program)
    fresh(paths.venv)
    paths.venv.rmdir()
    source = program.source
    if source:
        holder, key = bucket.of(source)
        holder.download(key, paths.source_archive)
        count = archive.unpack(paths.source_archive, paths.program, source=source)
        paths.source_archive.unlink()
        logger.info("program: %d files from %s", count, source)
        refuse_our_name(paths.program, source)
    if program.requirements:
        packages = install(program.requirements, paths)
        refuse_our_name(site_packages(paths.venv), program.requirements)
    if program.shell is not None:
        find_bash(paths)
    elif program.command:
        find_command(str(program.command[0]), paths, source=source)
    else:
        assert program.module is not None, "the job file requires one of shell, command and module"
        find_module(program.module, paths, source=source)
    return packages


def search_path(paths: Paths, *, source: str | None) -> list[str]:
    """What is on the program's path before what is installed: its own archive, or else the programs that are shipped.
    Users may call their packages what they like, `training` for one."""
    return [str(paths.program)] if source else [str(paths.program), str(paths.agent)]


def refuse_our_name(folder: Path, brought_by: str) -> None:
    """`import trainyard` must find what the host has. Raises ProgramFault where `folder` is in its way."""
    importlib.invalidate_caches()
    found = importlib.machinery.PathFinder.find_spec(LIBRARY, [str(folder)])
    if found is None:
        return
    folders = map(Path, found.submodule_search_locations or ())
    if found.loader or any(entry.name.endswith(".py") for each in folders for entry in walk(each)):
        raise ProgramFault(
            f"{brought_by} brings a module {LIBRARY} of its own, but that is the name under which programs import "
            "what the host has (from trainyard.runtime import start): give yours another name"
        )


def find_module(module: str, paths: Paths, *, source: str | None) -> None:
    """Look for the module without importing it: a program may do anything when it is imported."""
    importlib.invalidate_caches()
    first, _, rest = module.partition(".")
    found = importlib.machinery.PathFinder.find_spec(first, search_path(paths, source=source))
    if found is None:
        found_elsewhere = _ask_interpreter(module, paths)
        if not found_elsewhere:
            raise ProgramFault(_not_found(module, source))
        return
    for name in filter(None, rest.split(".")):
        if found is None or found.submodule_search_locations is None:
            raise ProgramFault(_not_found(module, source))
        found = importlib.machinery.PathFinder.find_spec(name, list(found.submodule_search_locations))
    if found is None or (
        found.submodule_search_locations is not None
        and importlib.machinery.PathFinder.find_spec("__main__", list(found.submodule_search_locations))
        is None
    ):
        raise ProgramFault(_not_found(module, source))


def find_command(name: str, paths: Paths, *, source: str | None) -> None:
    """Look for what program.command begins with, as the program's folder and PATH have it; of one that is filled in
    when the attempt starts nothing is known yet. Raises ProgramFault."""
    if "${" in name:
        return
    if "/" not in name:
        if shutil.which(name, path=commands_path(paths, os.environ.get("PATH", os.defpath))) is None:
            raise ProgramFault(_no_command(name, paths))
        return
    file = paths.program / name
    if not file.is_file():
        where = source or "the program's folder, which is empty without program.source"
        raise ProgramFault(f"program.command begins with {name}, which is not in {where}")
    if not os.access(file, os.X_OK):
        raise ProgramFault(
            f"program.command begins with {name}, which may not be executed: `chmod +x` it before it is packed, or "
            f"name what runs it, as in [sh, {name}] or [python, {name}]"
        )


def find_bash(paths: Paths) -> None:
    """Look for the shell that runs program.shell. Raises ProgramFault."""
    if shutil.which(BASH, path=commands_path(paths, os.environ.get("PATH", os.defpath))) is None:
        raise ProgramFault(
            "this host's image has no bash, which runs program.shell: bake an image that has it, or write the lines "
            'for another shell (program.command: [sh, "-ec", "..."])'
        )


def _no_command(name: str, paths: Paths) -> str:
    said = f"program.command begins with {name}, and this host has no such command"
    if (paths.program / name).is_file():
        runner = "python" if name.endswith(".py") else "sh"
        return f"{said}; to run the source's file of that name write [{runner}, {name}]"
    return (
        f"{said}, neither of program.requirements nor of the image: check its name, or add the package that brings it "
        "to the file that program.requirements names"
    )


def _ask_interpreter(module: str, paths: Paths) -> bool:
    """Whether an installed package has the module's first part."""
    look = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]) is not None)"
    first = module.partition(".")[0]
    asked = [
        str(python_for(paths)),
        "-I",
        "-c",
        look,
        first,
    ]  # not in the agent's folder, where this is called
    return command(asked, f"looking for {module}").strip() == "True"


def _not_found(module: str, source: str | None) -> str:
    where = f"{source} (unpacked, its top folder is on the path)" if source else "the programs of the image"
    return f"program.module {module} cannot be found in {where}; it is run as `python -m {module}`"
