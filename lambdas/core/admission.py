"""What the bucket must hold before a run is admitted: a program that is a tar, data that is not empty."""

from collections.abc import Mapping
from dataclasses import dataclass

from lambdas.core.job import Fault, Job

HEAD_BYTES = 4096
"""How much of `program.source` to read: enough to see whether it is a tar."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """`program.source` as S3 knows it: its size in bytes and its first HEAD_BYTES bytes."""

    size: int
    head: bytes


@dataclass(frozen=True, slots=True)
class PrefixFacts:
    """A data entry as S3 knows it: objects with content under it (listing one page is enough)."""

    objects: int
    size: int


def bucket_faults(job: Job, source: SourceFacts | None, data: Mapping[str, PrefixFacts]) -> tuple[Fault, ...]:
    """Every fault that only the bucket can show. `source` is None when the object does not exist (or the
    job names none); `data` has an entry per data entry of the job."""
    raise NotImplementedError


def split_uri(uri: str) -> tuple[str, str]:
    """(bucket, key) of an s3 URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def is_tar(head: bytes) -> bool:
    """Whether these first bytes begin a tar, plain or gzipped."""
    raise NotImplementedError
