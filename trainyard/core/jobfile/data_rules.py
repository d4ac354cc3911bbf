"""The rules of the section `data`: sharding, and entries that are streamed from S3."""

from collections.abc import Callable

from trainyard.core.model.job import Job
from trainyard.core.model.program import Data, Mode, Sharding
from trainyard.protocol.cluster import SEVERAL_HOSTS
from trainyard.protocol.file_systems import Access
from trainyard.values.validation import any_of

SHARDING_SUFFIX = "_sharding"
"""The ending that a host appends to a data entry's variable for its sharding."""
KERAS = "keras"
"""The entry that hosts link as `~/.keras`."""

Report = Callable[[str, str], None]


def check(job: Job, fault: Report) -> None:
    """Report the faults of all data entries, each with its key."""
    for name, entry in job.data.items():
        if f"{name}{SHARDING_SUFFIX}" in job.data:
            variable = f"TRAINYARD_DATA_{name}{SHARDING_SUFFIX}".upper()
            problem = (
                f"maps to the variable {variable}, which says how data.{name} is shared out; give data.{name} or "
                f"data.{name}{SHARDING_SUFFIX} another name"
            )
            fault(f"data.{name}{SHARDING_SUFFIX}", problem)
        if entry.sharding is Sharding.FILE:
            _check_sharding(job, name, fault)
        if entry.access is Access.WRITE and entry.source.startswith("s3://"):
            fault(
                f"data.{name}.access",
                "found write, but programs only read the objects of S3; read is allowed. A program writes its "
                "results to the folders ${checkpoints}, ${model} and to its working folder, which hosts upload",
            )
        _check_stream(job, name, entry, fault)
    _check_folders(job, fault)


def _check_sharding(job: Job, name: str, fault: Report) -> None:
    strategy = job.cluster.strategy
    if not strategy.has_several_hosts:
        fault(
            f"data.{name}.sharding",
            f"found file, which shares the files out among hosts; the strategy {strategy} has one host: none is "
            f"allowed, or the strategies {any_of(SEVERAL_HOSTS)}",
        )
    if job.cluster.is_elastic:
        fault(
            f"data.{name}.sharding",
            "found file, with which the batches depend on the number of workers, so that a run could not "
            "continue with more or fewer; with cluster.workers.min and max, only none is allowed",
        )


def _check_stream(job: Job, name: str, entry: Data, fault: Report) -> None:
    """Report the faults of `mode` and `cache_gib`."""
    if entry.mode is not Mode.STREAM:
        if entry.cache_gib is not None:
            fault(
                f"data.{name}.cache_gib",
                f"is allowed with mode stream only, found {entry.mode}, which has all files on the disk anyway",
            )
        return
    if name == KERAS:
        fault(
            f"data.{name}.mode",
            "found stream; only copy is allowed, because Keras writes beside the files of ~/.keras. Give the entry "
            "another name to stream it",
        )
    disk = job.hardware.disk_gib
    if entry.cache_gib is not None and disk is not None and entry.cache_gib > disk:
        fault(
            f"data.{name}.cache_gib",
            f"found {entry.cache_gib}, which is above the disk of each host, hardware.disk_gib: {disk}; a cache "
            "takes a part of that disk",
        )


def _check_folders(job: Job, fault: Report) -> None:
    """Report each streamed entry that has the folder of another entry."""
    first: dict[str, str] = {}
    for name, entry in job.data.items():
        other = first.setdefault(entry.source, name)
        if other != name and (entry.is_streamed or job.data[other].is_streamed):
            fault(
                f"data.{name}.source",
                f"is the folder of data.{other}, too; a folder is streamed by one entry: remove one of them, and "
                f"read ${{data.{other}}} in the program",
            )
