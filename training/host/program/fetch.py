"""Fetch job, program, packages, and data to this host's disk before the program starts."""

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
"""Our only package that programs can import."""

logger = logging.getLogger(__name__)


def fetch_job(bucket: Bucket, run: str, paths: Paths) -> Job:
    """Return the admitted job, and write it to the path in TRAINYARD_JOB."""
    text = bucket.read(keys.job(run))
    paths.work.mkdir(parents=True, exist_ok=True)
    paths.job.write_bytes(text)
    return recall_job(paths)


def recall_job(paths: Paths) -> Job:
    """Return the job that `fetch_job` has written."""
    try:
        return serialization.read(Job, json.loads(paths.job.read_bytes()))
    except ValueError as error:
        raise OtherVersion("job.json", error) from error


def fetch_all(bucket: Bucket, job: Job, paths: Paths) -> str | None:
    """Fetch the program with its packages, and in parallel the data that every host has. Return the hash of the list of
    packages (packages.install). Raises the first trouble, and stops the download of data if the program cannot run."""
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
    """Unpack the source, install its requirements, and check that its module or command exists. Return the hash of the
    list of packages (packages.install)."""
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
    if program.container:
        return None  # the image has the commands, and its Python installs the packages (agent/container.py)
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
    """Return the folders on the program's path before the installed packages: its source, and the shipped programs only
    if it has no source. Users may name their own package `training`."""
    return [str(paths.program)] if source else [str(paths.program), str(paths.agent)]


def refuse_our_name(folder: Path, brought_by: str) -> None:
    """Raise ProgramFault if `folder` has a module `trainyard` that would hide the host's own."""
    importlib.invalidate_caches()
    found = importlib.machinery.PathFinder.find_spec(LIBRARY, [str(folder)])
    if found is None:
        return
    folders = map(Path, found.submodule_search_locations or ())
    if found.loader or any(entry.name.endswith(".py") for each in folders for entry in walk(each)):
        raise ProgramFault(
            f"{brought_by} contains a module {LIBRARY}, but programs import the host's package under that name (from "
            "trainyard.runtime import start): rename your module"
        )


def find_module(module: str, paths: Paths, *, source: str | None) -> None:
    """Check that the module exists, without importing it: an import may run any code. Raises ProgramFault."""
    importlib.invalidate_caches()
    first, _, rest = module.partition(".")
    found = importlib.machinery.PathFinder.find_spec(first, search_path(paths, source=source))
    if found is None:
        found_elsewhere = _has_module(module, paths)
        if not found_elsewhere:
            raise ProgramFault(_missing_module(module, source))
        return
    for name in filter(None, rest.split(".")):
        if found is None or found.submodule_search_locations is None:
            raise ProgramFault(_missing_module(module, source))
        found = importlib.machinery.PathFinder.find_spec(name, list(found.submodule_search_locations))
    if found is None or (
        found.submodule_search_locations is not None
        and importlib.machinery.PathFinder.find_spec("__main__", list(found.submodule_search_locations))
        is None
    ):
        raise ProgramFault(_missing_module(module, source))


def find_command(name: str, paths: Paths, *, source: str | None) -> None:
    """Check that the command of program.command exists in the program's folder or on PATH. A command with a placeholder
    is only known when the attempt starts. Raises ProgramFault."""
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
            f"program.command begins with {name}, which is not executable: `chmod +x` it before it is packed, or name "
            f"its interpreter, as in [sh, {name}] or [python, {name}]"
        )


def find_bash(paths: Paths) -> None:
    """Check that the shell of program.shell exists. Raises ProgramFault."""
    if shutil.which(BASH, path=commands_path(paths, os.environ.get("PATH", os.defpath))) is None:
        raise ProgramFault(
            "this host's image has no bash, which program.shell needs: bake an image with bash, or use another shell "
            '(program.command: [sh, "-ec", "..."])'
        )


def _no_command(name: str, paths: Paths) -> str:
    missing = f"program.command begins with {name}, and this host has no such command"
    if (paths.program / name).is_file():
        runner = "python" if name.endswith(".py") else "sh"
        return f"{missing}; to run the source's file of that name, write [{runner}, {name}]"
    return (
        f"{missing}, neither from program.requirements nor from the image: check its name, or add its package to the "
        "file that program.requirements names"
    )


def _has_module(module: str, paths: Paths) -> bool:
    """Return True if an installed package has the first part of the module's name."""
    look = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]) is not None)"
    first = module.partition(".")[0]
    asked = [
        str(python_for(paths)),
        "-I",
        "-c",
        look,
        first,
    ]  # -I: ignore the agent's folder, which is the working directory here
    return command(asked, f"looking for {module}").strip() == "True"


def _missing_module(module: str, source: str | None) -> str:
    where = f"{source} (unpacked, its top folder is on the path)" if source else "the programs of the image"
    return f"program.module {module} cannot be found in {where}; hosts run it as `python -m {module}`"
