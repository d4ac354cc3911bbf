"""What must be on this host's disk before the program starts: job, program, packages, data."""

import importlib
import importlib.machinery
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from training.host import archive
from training.host.bucket import Bucket, Object
from training.host.errors import HostTrouble, Missing, ProgramFault
from training.host.places import Places

AT_ONCE = 8
"""Objects fetched side by side; each is fetched in parts side by side too."""
INSTALL_SECONDS = 1800
LOOK_SECONDS = 120

logger = logging.getLogger(__name__)


def fetch_job(bucket: Bucket, run: str, places: Places) -> dict[str, Any]:
    """The job as admitted, also kept on disk where TRAINYARD_JOB points."""
    text = bucket.read(f"runs/{run}/job.json")
    try:
        job: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise HostTrouble(f"runs/{run}/job.json is not JSON: {error}", final=True) from error
    places.work.mkdir(parents=True, exist_ok=True)
    places.job.write_bytes(text)
    return job


def fetch_all(bucket: Bucket, job: Mapping[str, Any], places: Places) -> None:
    """Program with its packages, and every data entry, side by side. Raises the first trouble of any of them."""
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="fetch") as pool:
        waits = [pool.submit(fetch_program, bucket, job["program"], places)]
        waits += [
            pool.submit(fetch_data, bucket, name, entry["source"], places.data / name)
            for name, entry in job.get("data", {}).items()
        ]
        for wait in waits:
            wait.result()


def fetch_program(bucket: Bucket, program: Mapping[str, Any], places: Places) -> None:
    """Unpack the source, install its requirements, and make sure that the module can be found."""
    fresh(places.program)
    fresh(places.venv)
    places.venv.rmdir()
    source = program.get("source")
    if source:
        archived = places.work / "program.archive"
        bucket.download(key_of(source, bucket), archived)
        count = archive.unpack(archived, places.program, source=source)
        archived.unlink()
        logger.info("program: %d files from %s", count, source)
    if program.get("requirements"):
        install(program["requirements"], places)
    find_module(program["module"], places, source=source)


def install(requirements: str, places: Places) -> None:
    """A virtual environment of the run's own, layered on the image's: what the image has is not installed again."""
    listed = inside(places.program, requirements)
    if not listed.is_file():
        raise ProgramFault(
            f"program.requirements names {requirements}, which the program's archive does not hold"
        )
    command(
        [str(places.python), "-m", "venv", "--without-pip", str(places.venv)], "making the run's environment"
    )
    layer = site_packages(places.venv)
    (layer / "trainyard-image.pth").write_text(f"{site_packages(places.python.parent.parent)}\n")
    pip = [
        str(places.venv / "bin/python"),
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command([*pip, "--requirement", str(listed)], f"installing {requirements}", seconds=INSTALL_SECONDS)


def site_packages(environment: Path) -> Path:
    return next((environment / "lib").glob("python3.*/site-packages"))


def command(arguments: Sequence[str], doing: str, *, seconds: float = LOOK_SECONDS) -> str:
    """What the command printed. Raises ProgramFault with its last lines when it fails."""
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramFault(f"{doing} took longer than {seconds:g} seconds", final=False) from error
    except OSError as error:
        raise HostTrouble(f"{doing} failed: {error}") from error
    if done.returncode:
        said = " / ".join((done.stderr or done.stdout).strip().splitlines()[-4:])
        raise ProgramFault(f"{doing} failed: {said}")
    return done.stdout


def python_for(places: Places) -> Path:
    """The interpreter a program runs with: the run's own environment if it has one."""
    own = places.venv / "bin/python"
    return own if own.exists() else places.python


def python_path(places: Places) -> str:
    return os.pathsep.join((str(places.program), str(places.software)))


def find_module(module: str, places: Places, *, source: str | None) -> None:
    """Look for the module without importing it: a program may do anything when it is imported."""
    importlib.invalidate_caches()
    first, _, rest = module.partition(".")
    searched = [str(places.program), str(places.software)]
    found = importlib.machinery.PathFinder.find_spec(first, searched)
    if found is None:
        found_elsewhere = _ask_interpreter(module, places)
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


def _ask_interpreter(module: str, places: Places) -> bool:
    """Whether an installed package has the module's first part."""
    look = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]) is not None)"
    first = module.partition(".")[0]
    return command([str(python_for(places)), "-c", look, first], f"looking for {module}").strip() == "True"


def _not_found(module: str, source: str | None) -> str:
    where = f"{source} (unpacked, its top folder is on the path)" if source else "the programs of the image"
    return f"program.module {module} cannot be found in {where}; it is run as `python -m {module}`"


def fetch_data(bucket: Bucket, name: str, uri: str, target: Path) -> None:
    """One object, or everything under a prefix, with its folders. Nothing there is a final failure."""
    key = key_of(uri, bucket)
    found = [
        item for item in bucket.list(key) if item.key == key or item.key.startswith(key.rstrip("/") + "/")
    ]
    if not found:
        raise Missing(f"data.{name}: there is no object at {uri}; upload the data and start again")
    if sum(item.size for item in found) == 0:
        raise Missing(f"data.{name}: every object at {uri} is empty; upload the data and start again")
    fresh(target)
    if [item.key for item in found] == [key]:
        target.rmdir()
        download_all(bucket, {target: found[0]})
    else:
        download_all(bucket, {inside(target, item.key[len(key) :].lstrip("/")): item for item in found})
    logger.info("data.%s: %d objects, %d bytes", name, len(found), sum(item.size for item in found))


def download_all(bucket: Bucket, wanted: Mapping[Path, Object]) -> None:
    """All of them, side by side, after making sure that they fit."""
    if not wanted:
        return
    make_sure_they_fit(sum(item.size for item in wanted.values()), next(iter(wanted)))
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="download") as pool:
        for wait in [pool.submit(bucket.download, item.key, path) for path, item in wanted.items()]:
            wait.result()


def make_sure_they_fit(size: int, near: Path) -> None:
    free = shutil.disk_usage(next(parent for parent in near.parents if parent.exists())).free
    if size > free:
        raise HostTrouble(
            f"the disk is too small: {size / 1e9:.1f} GB to fetch, {free / 1e9:.1f} GB free; "
            "give the launch template a larger volume or the job less data",
            final=True,
        )


def key_of(uri: str, bucket: Bucket) -> str:
    """The key of an s3 URI of this yard's bucket."""
    scheme, _, rest = uri.partition("://")
    name, _, key = rest.partition("/")
    if scheme != "s3" or name != bucket.name or not key:
        raise Missing(f"{uri} is not an object of this yard's bucket {bucket.name}")
    return key


def inside(folder: Path, relative: str) -> Path:
    """`folder / relative`, refused when it would lie elsewhere."""
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or relative.startswith("/"):
        raise ProgramFault(f"{relative!r} points outside its folder")
    return folder.joinpath(*parts)


def fresh(folder: Path) -> None:
    """An empty folder, whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
