"""Put into the bucket what a job needs: its data, its programs, and last the job file, which starts the run."""

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from demo import datasets
from demo.say import DemoError, say
from demo.yard import Yard

PLACEHOLDER = b"s3://BUCKET/"


@dataclass(frozen=True)
class Upload:
    """What was uploaded: the job's key and the version that names its run."""

    key: str
    version: str


def upload(yard: Yard, job: Path) -> Upload:
    """Upload the shipped data that the job reads, what lies beside the job file, then the job file."""
    try:
        text = job.read_bytes()
    except OSError as error:
        raise DemoError(
            f"the job file {job} cannot be read: {error.strerror}", "give its path: make demo JOB=path"
        ) from error
    text = text.replace(PLACEHOLDER, f"s3://{yard.bucket}/".encode())
    said = text.decode(errors="replace")
    for shipped in datasets.read_by(said):
        if (job.parent / shipped.prefix).is_dir():
            continue  # the person's own, beside the job file
        keys = yard.upload_folder(shipped.made_in(datasets.MADE), shipped.prefix)
        say(f"  {shipped.what}: {len(keys)} objects under s3://{yard.bucket}/{shipped.prefix}")
    for key in upload_beside(yard, job, said):
        say(f"  s3://{yard.bucket}/{key}")
    key = f"jobs/{job.name}"
    return Upload(key, yard.upload(key, text))


def upload_beside(yard: Yard, job: Path, said: str) -> list[str]:
    """`data/` beside the job file, and of `programs/` what the job names; a folder there becomes a tar of its name."""
    keys = []
    for key, file in programs_named(job.parent / "programs", said).items():
        keys.append(key)
        yard.upload(key, packed(file) if file.is_dir() else file.read_bytes())
    if (job.parent / "data").is_dir():
        keys += yard.upload_folder(job.parent / "data", "data/")
    return keys


def programs_named(folder: Path, said: str) -> dict[str, Path]:
    """The files and folders that become an object which the job's text names, by that object's key."""
    keys = {
        f"programs/{file.name}.tar.gz" if file.is_dir() else f"programs/{file.name}": file
        for file in sorted(folder.glob("*"))
    }
    return {key: file for key, file in keys.items() if f"/{key}" in said}


def packed(folder: Path) -> bytes:
    """The folder's content as tar.gz."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.add(file, arcname=file.relative_to(folder).as_posix())
    return buffer.getvalue()


def module_of(job: Path) -> str:
    """The program's module as the job file names it; empty when the file does not say."""
    try:
        told = yaml.safe_load(job.read_text())
        return str(told["program"]["module"])
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
        return ""
