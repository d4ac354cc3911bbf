"""What goes into the bucket with a job: its data, its programs, and last the job file, which starts the run."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

from trainyard.client.bucket import Bucket
from trainyard.client.errors import FileUnreadable


@dataclass(frozen=True)
class Upload:
    """The key and the version that name the run, and the keys of what went along."""

    key: str
    version: str
    beside: tuple[str, ...] = ()


def upload(bucket: Bucket, job: Path, folder: str, *, plan: bool = False) -> Upload:
    """Put `data/` beside the job file, of `programs/` what the job names, then the job file into `folder`, under the
    name of one that is planned and not run where only its `plan` is wanted. Raises FileUnreadable."""
    text = content_of(job)
    beside = []
    for key, file in programs_named(job.parent / "programs", text.decode(errors="replace")).items():
        beside.append(key)
        bucket.put(key, packed(file) if file.is_dir() else file.read_bytes())
    if (job.parent / "data").is_dir():
        beside += bucket.put_folder(job.parent / "data", "data/")
    key = f"{folder}{job.stem}.plan{job.suffix}" if plan else f"{folder}{job.name}"
    return Upload(key, bucket.put(key, text), tuple(beside))


def content_of(file: Path) -> bytes:
    """The file's bytes. Raises FileUnreadable."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileUnreadable(f"{file} cannot be read", str(error.strerror), "give the file's path") from error


def programs_named(folder: Path, text: str) -> dict[str, Path]:
    """The files and folders that become an object which the job's text names, by that object's key; a folder becomes
    a tar of its name."""
    keys = {
        f"programs/{file.name}.tar.gz" if file.is_dir() else f"programs/{file.name}": file
        for file in sorted(folder.glob("*"))
    }
    return {key: file for key, file in keys.items() if f"/{key}" in text}


def packed(folder: Path) -> bytes:
    """The folder's content as tar.gz."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.add(file, arcname=file.relative_to(folder).as_posix())
    return buffer.getvalue()
