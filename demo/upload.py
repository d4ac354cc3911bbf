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
    for shipped in datasets.read_by(text.decode(errors="replace")):
        keys = yard.upload_folder(shipped.made_in(datasets.MADE), shipped.prefix)
        say(f"  {shipped.what}: {len(keys)} objects under s3://{yard.bucket}/{shipped.prefix}")
    for key in upload_beside(yard, job):
        say(f"  s3://{yard.bucket}/{key}")
    key = f"jobs/{job.name}"
    return Upload(key, yard.upload(key, text))


def upload_beside(yard: Yard, job: Path) -> list[str]:
    """`data/` and `programs/` beside the job file, as they are; a folder in `programs/` becomes a tar of that name."""
    keys = []
    for file in sorted((job.parent / "programs").glob("*")):
        if file.is_dir():
            keys.append(f"programs/{file.name}.tar.gz")
            yard.upload(keys[-1], packed(file))
        else:
            keys.append(f"programs/{file.name}")
            yard.upload(keys[-1], file.read_bytes())
    if (job.parent / "data").is_dir():
        keys += yard.upload_folder(job.parent / "data", "data/")
    return keys


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
