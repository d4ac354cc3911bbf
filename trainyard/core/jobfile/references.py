"""The checks that need the bucket before a run is admitted: a program that can run, and data that is not empty."""

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainyard.command_line import command_line
from trainyard.core.model.job import Job
from trainyard.core.model.names import secret_parameter, store_secret
from trainyard.core.model.program import Data, Listed, Sharding
from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.protocol import keys
from trainyard.protocol.trial import study_of
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_bytes, format_count
from trainyard.values.validation import Fault, show_value

if TYPE_CHECKING:
    from trainyard.core.jobfile.program_archive import Archive

HEAD_BYTES = 32 * 1024**2
"""The number of bytes of `program.source` to read. Smaller archives are inspected here, larger ones on the host."""
MOST_SOURCE_BYTES = 1024**3
MOST_LISTED = 10_000
"""The most objects of a data entry that admission lists, in ten pages. Hosts list all of them."""
BLOCK = 512
GIB = 1024**3
SMALL_BYTES = 1024**2
"""Smaller objects are slow to stream."""


@dataclass(frozen=True)
class SourceObject:
    """The object of `program.source` in S3: its size in bytes and its first HEAD_BYTES bytes."""

    size: int
    head: bytes


@dataclass(frozen=True)
class DataObjects:
    """The objects of a data entry, up to MOST_LISTED of them."""

    objects: int
    """The objects with content."""
    size: int
    """The sum of their bytes."""
    same_file: str = ""
    """The fault of two objects that would be one file (data_files.py)."""
    gets: int = 0
    """GET requests that read each object once (data_files.py)."""
    archived: str = ""
    """The key of an object that S3 returns only after a restore; empty if there is none."""
    is_cut: bool = False
    """True if there are more objects."""


@dataclass(frozen=True)
class Findings:
    """The faults of a job, and the probable failures of its program, a sentence each."""

    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()


def findings(job: Job, source: SourceObject | None, data: Mapping[str, DataObjects]) -> Findings:
    """Return the faults and warnings that only the bucket shows.

    `source` is None if the object does not exist or the job names none. `data` has an item for each data entry of the
    job that is in S3.
    """
    program = _program_findings(job, job.program.source, source) if job.program.source else Findings()
    faults = [
        _data_fault(name, entry, data[name]) or _share_fault(job, name, data[name])
        for name, entry in job.data.items()
        if not entry.folder
    ]
    streams = [
        warning
        for name, entry in job.data.items()
        if entry.is_streamed
        for warning in _warn_of_stream(f"data.{name}", entry, data[name])
    ]
    warnings = (*left_out_flags(job), *streams, *program.warnings)
    return Findings((*program.faults, *(fault for fault in faults if fault)), warnings)


def with_objects(job: Job, data: Mapping[str, DataObjects]) -> Job:
    """Return the job with the objects of each data entry that is streamed, for the plan."""
    entries = {
        name: replace(entry, listed=_listed(data[name])) if entry.is_streamed else entry
        for name, entry in job.data.items()
    }
    return replace(job, data=entries)


def _listed(found: DataObjects) -> Listed:
    return Listed(objects=found.objects, bytes=found.size, gets=found.gets, is_cut=found.is_cut)


def list_foreign_uris(job: Job, bucket: str) -> dict[str, str]:
    """Return the S3 URIs that the job reads outside of the yard's bucket, by their keys in the job file."""
    named = {"program.source": job.program.source} | {
        f"data.{name}": each.source for name, each in job.data.items() if not each.folder
    }
    return {path: uri for path, uri in named.items() if uri and split_uri(uri)[0] != bucket}


def find_unlisted(others: Mapping[str, str], buckets: Sequence[DataBucket], yard: str) -> tuple[Fault, ...]:
    """Return a fault for each URI of `in_other_buckets` that is not in `buckets`, the buckets that the yard may
    read."""
    return tuple(
        Fault(path, _not_listed(uri, buckets, yard))
        for path, uri in others.items()
        if not any(bucket.holds(uri) for bucket in buckets)
    )


def _not_listed(uri: str, buckets: Sequence[DataBucket], yard: str) -> str:
    bucket, key = split_uri(uri)
    folder = key.rpartition("/")[0]
    setting = ",".join([*map(str, buckets), f"{bucket}/{folder}/" if folder else bucket])
    reads = ", ".join(each.uri for each in buckets) or "only its own"
    return (
        f"{uri} is in another bucket than the yard's, and not in one that it reads ({reads}). Copy it there, or ask "
        "the administrator of the yard to add it to the setting data_buckets (followed by =KEY_ARN if a KMS key "
        f"encrypts it): trainyard --yard {yard} yard deploy -c data_buckets={setting}"
    )


def unreadable(others: Mapping[str, str], why: Mapping[str, str | None]) -> tuple[Fault, ...]:
    """Return a fault for each URI of `in_other_buckets` that S3 denies. `why` has S3's answer by URI."""
    return tuple(
        Fault(path, f"the yard cannot read {uri}: {problem}")
        for path, uri in others.items()
        if (problem := why[uri])
    )


def left_out_flags(job: Job) -> tuple[str, ...]:
    """Return a warning for each flag that is false, because a program whose default is true does not see it."""
    args = job.program.args
    false = [name for name, value in args.items() if value is False] if isinstance(args, Mapping) else []
    return tuple(
        f"program.args.{name} is false, so the command line does not contain --{name}. To pass the value, "
        f'write it as the program expects it: {name}: "false" (in quotes), or args as a list with --no-{name}'
        for name in false
    )


def describe_warnings(warnings: tuple[str, ...]) -> str:
    """Return the timeline's text for an admitted job."""
    return f"no fault found, but: {'; '.join(warnings)}" if warnings else "no fault found"


def secret_faults(job: Job, yard: str, kinds: Mapping[str, str]) -> tuple[Fault, ...]:
    """Return the faults of the job's secrets. `kinds` has the types of the existing parameters, by name."""
    faults = []
    for variable, secret in job.program.secrets.items():
        name = secret_parameter(yard, secret)
        put = store_secret(name)
        path, kind = f"program.secrets.{variable}", kinds.get(name)
        if kind is None:
            faults.append(Fault(path, f"the parameter {name} does not exist; store the secret first: {put}"))
        elif kind != "SecureString":
            problem = (
                f"the parameter {name} is a {kind}, which is not encrypted. Its type cannot be changed: delete "
                f"it (aws ssm delete-parameter --name {name}) and store it again: {put}"
            )
            faults.append(Fault(path, problem))
    return tuple(faults)


def lineage(run: str, job: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the runs whose checkpoints and outputs a run that resumes `run` may read: `run`, and the run that it
    resumed.

    `job` is the job.json of `run`, which no host can write; None if it is missing.
    """
    resumed = ((job or {}).get("checkpoints") or {}).get("resume")
    return (run, str(resumed)) if resumed else (run,)


def owner_of_work(
    runs: Sequence[str], latest: Mapping[str, Any] | None, *, kept: Collection[str], restores: bool
) -> str | Fault:
    """Return the run whose work a run that resumes the first of `runs` begins with, or a fault.

    `runs` is the `lineage` of the first run. The result is the owner of the last checkpoint or, without a checkpoint,
    the first run with outputs. `latest` is the latest.json of the first run, which its hosts write; None if it is
    missing. `kept` are the runs that have outputs in the bucket. `restores` is True if the new job begins with outputs.
    """
    run, key = runs[0], str((latest or {}).get("key") or "")
    for owner in runs:
        if key.startswith(keys.checkpoints(owner)):
            return owner
    if key:
        return Fault(
            "checkpoints.resume",
            f"{keys.latest_checkpoint(run)} names {show_value(key)}, which is neither a checkpoint of {run} nor of the "
            "run that it was resumed from; name the run whose checkpoint it is, or leave it out",
        )
    with_outputs = next((owner for owner in runs if owner in kept), None)
    if with_outputs and restores:
        return with_outputs
    no_checkpoint = f"there is no checkpoint of {run} in the bucket ({keys.latest_checkpoint(run)})"
    if study_of(run):
        no_checkpoint += ", because an ended study keeps only the checkpoints of its best trials (study.keep)"
    if with_outputs:
        return Fault(
            "checkpoints.resume",
            f"{no_checkpoint}, and this job restores no outputs (outputs.keep or outputs.restore is false); set "
            f"outputs.restore to true to begin with the outputs of {with_outputs}, or leave checkpoints.resume out to "
            "start from the beginning",
        )
    return Fault(
        "checkpoints.resume",
        f"{no_checkpoint} and no output ({keys.outputs(run)}); name another run, or leave it out to start from "
        "the beginning",
    )


def warn_of_earlier_outputs(run: str, owner: str, job: Job, *, kept: Collection[str]) -> tuple[str, ...]:
    """Return a warning if the job resumes `run`, which began with the checkpoint of `owner` and saved none itself.

    The outputs of `owner` belong to this checkpoint, so the outputs of `run` are not restored.
    """
    if owner == run or run not in kept or not (job.outputs.keep and job.outputs.restore):
        return ()
    said = (
        f"{run} has saved no checkpoint of its own, so this run begins with the checkpoint of {owner} and with the "
        f"outputs that belong to it (outputs.restore), those of {owner}; the outputs of {run} are newer than the "
        f"checkpoint and are not restored. They stay in the bucket: {command_line('get', run, 'outputs')}"
    )
    return (said,)


def _program_findings(job: Job, uri: str, source: SourceObject | None) -> Findings:
    fault = _source_fault(uri, source)
    if fault or source is None:
        return Findings((fault,) if fault else ())
    if source.size > len(source.head):
        return Findings()
    return program_findings(job, uri, source.head)


def program_findings(job: Job, uri: str, content: bytes) -> Findings:
    """Return the findings in the whole archive."""
    from trainyard.core.jobfile import program_archive

    archive = program_archive.read(content, also=job.program.requirements)
    if isinstance(archive, program_archive.NotUnpacked):
        return Findings((Fault("program.source", f"{uri} {archive.reason}"),))
    return archive_findings(job, archive) if archive else Findings()


def archive_findings(job: Job, archive: "Archive") -> Findings:
    """Return the findings in the files of an archive."""
    from trainyard.core.jobfile import program_archive, program_warnings

    faults = program_archive.faults(job, archive)
    return Findings(faults, () if faults else program_warnings.warnings(job, archive))


def _source_fault(uri: str, source: SourceObject | None) -> Fault | None:
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


def _data_fault(name: str, entry: Data, prefix: DataObjects) -> Fault | None:
    path, uri = f"data.{name}", entry.source
    if prefix.objects == 0:
        return Fault(path, f"there is nothing under {uri}; upload the data first: aws s3 sync FOLDER {uri}")
    if prefix.size == 0:
        return Fault(path, f"the {prefix.objects} objects under {uri} are all empty")
    if prefix.same_file:
        return Fault(path, prefix.same_file)
    if entry.is_streamed and prefix.archived:
        bucket, _ = split_uri(uri)
        problem = (
            f"s3://{bucket}/{prefix.archived} is in an archive of S3 Glacier, which a stream cannot read: restore the "
            "objects and copy them to another storage class, or to another folder"
        )
        return Fault(path, problem)
    return None


def _warn_of_stream(path: str, entry: Data, found: DataObjects) -> Iterator[str]:
    """Yield the warnings about a stream that will be slow, or whose cache will not help."""
    if not found.objects:
        return
    average, more = found.size / found.objects, " or more" if found.is_cut else ""
    if average < SMALL_BYTES:
        yield (
            f"{path} streams {format_count(found.objects, 'object')}{more} of {format_bytes(average)} on average, and "
            "each one costs a request and a wait of some 10 ms: pack them into files of 100 MB (TFRecord), or use "
            "mode copy"
        )
    cache = (entry.cache_gib or 0) * GIB
    if 0 < cache < found.size and entry.sharding is Sharding.NONE:
        yield (
            f"{path}.cache_gib is {entry.cache_gib}, but the data have {format_bytes(found.size)}{more}: a cache that "
            "is smaller than one epoch has dropped each object before it is read again, so it hardly helps"
        )


def _share_fault(job: Job, name: str, prefix: DataObjects) -> Fault | None:
    """Return a fault if `sharding: file` has fewer files than workers. A list that is cut at MOST_LISTED has enough
    files."""
    if job.data[name].sharding is not Sharding.FILE or prefix.objects >= job.cluster.most_workers:
        return None
    files = "is 1 file" if prefix.objects == 1 else f"are {prefix.objects} files"
    problem = (
        f"sharding is file, but there {files} with content under {job.data[name].source} for "
        f"{job.cluster.most_workers} workers, and each needs one of its own; split the files up, use fewer "
        "workers, or use sharding none"
    )
    return Fault(f"data.{name}.sharding", problem)


def split_uri(uri: str) -> tuple[str, str]:
    """Return the bucket and the key of an S3 URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def is_tar(head: bytes) -> bool:
    """Return True if these first bytes begin a tar, plain or packed by gzip."""
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, BLOCK)
        except zlib.error:
            return False
    return len(head) >= BLOCK and _checksum_holds(head[:BLOCK])


def _checksum_holds(header: bytes) -> bool:
    """Return True if a tar header has the sum that it contains at byte 148. The sum counts that field as blanks. Old
    tars have no magic word."""
    sum_written = header[148:156].strip(b" \0")
    if not sum_written or not all(byte in b"01234567" for byte in sum_written):
        return False
    return int(sum_written, 8) == sum(header) - sum(header[148:156]) + 8 * ord(" ")
