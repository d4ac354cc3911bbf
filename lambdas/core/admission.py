"""What the bucket must hold before a run is admitted: a program that is a tar, data that is not empty."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from lambdas.core.job import Fault, Job

HEAD_BYTES = 4096
"""How much of `program.source` to read: enough to see whether it is a tar."""
MOST_SOURCE_BYTES = 1024**3
BLOCK = 512


@dataclass(frozen=True)
class SourceFacts:
    """`program.source` as S3 knows it: its size in bytes and its first HEAD_BYTES bytes."""

    size: int
    head: bytes


@dataclass(frozen=True)
class PrefixFacts:
    """A data entry as S3 knows it: objects with content under it (listing one page is enough)."""

    objects: int
    size: int


def bucket_faults(job: Job, source: SourceFacts | None, data: Mapping[str, PrefixFacts]) -> tuple[Fault, ...]:
    """Every fault that only the bucket can show. `source` is None when the object does not exist (or the
    job names none); `data` has an entry per data entry of the job."""
    faults = [_source_fault(job.program.source, source)] if job.program.source else []
    faults += [_data_fault(name, entry.source, data[name]) for name, entry in job.data.items()]
    return tuple(fault for fault in faults if fault)


def _source_fault(uri: str, source: SourceFacts | None) -> Fault | None:
    path = "program.source"
    if source is None:
        return Fault(path, f"{uri} does not exist; upload the program first: aws s3 cp PROGRAM.tar.gz {uri}")
    if source.size > MOST_SOURCE_BYTES:
        return Fault(
            path,
            f"{uri} has {source.size} bytes; up to {MOST_SOURCE_BYTES} are allowed (data belongs under data/)",
        )
    if not is_tar(source.head):
        return Fault(
            path,
            f"{uri} is not a tar archive; make one: tar czf PROGRAM.tar.gz -C FOLDER .",
        )
    return None


def _data_fault(name: str, uri: str, prefix: PrefixFacts) -> Fault | None:
    path = f"data.{name}"
    if prefix.objects == 0:
        return Fault(path, f"there is nothing under {uri}; upload the data first: aws s3 sync FOLDER {uri}")
    if prefix.size == 0:
        return Fault(path, f"the {prefix.objects} objects under {uri} are all empty")
    return None


def split_uri(uri: str) -> tuple[str, str]:
    """(bucket, key) of an s3 URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def is_tar(head: bytes) -> bool:
    """Whether these first bytes begin a tar, plain or gzipped."""
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, BLOCK)
        except zlib.error:
            return False
    return len(head) >= BLOCK and _checksum_holds(head[:BLOCK])


def _checksum_holds(header: bytes) -> bool:
    """A tar header sums to what it says at 148, that field counted as blanks. Old tars have no magic word."""
    said = header[148:156].strip(b" \0")
    if not said or not all(byte in b"01234567" for byte in said):
        return False
    return int(said, 8) == sum(header) - sum(header[148:156]) + 8 * ord(" ")
