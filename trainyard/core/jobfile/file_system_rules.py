"""The rules of data entries that are folders of file systems."""

from collections.abc import Callable

from trainyard.core.jobfile.data_rules import KERAS
from trainyard.core.model.job import Job
from trainyard.core.model.program import Data, Mode, Sharding


def check(job: Job, fault: Callable[[str, str], None]) -> None:
    """Report what a file system cannot do, and two entries with one folder."""
    first: dict[str, str] = {}
    for name, entry in job.data.items():
        if entry.folder is None:
            continue
        _check_entry(name, entry, fault)
        other = first.setdefault(entry.folder.uri, name)
        if other != name:
            problem = (
                f"{entry.source} is already data.{other}, and a folder is mounted once; remove one of them, or name a "
                "folder below it"
            )
            fault(f"data.{name}.source", problem)


def _check_entry(name: str, entry: Data, fault: Callable[[str, str], None]) -> None:
    if entry.sharding is Sharding.FILE:
        problem = (
            "found file, which shares out the objects of a bucket; every host sees a whole file system, so only none "
            "is allowed: let each worker choose its files by ${index} and ${workers}"
        )
        fault(f"data.{name}.sharding", problem)
    if entry.mode is Mode.STREAM:
        problem = (
            "found stream, which is for data in S3; hosts mount a file system in any case: remove the key"
        )
        fault(f"data.{name}.mode", problem)
    if name == KERAS:
        problem = (
            f"{entry.source} cannot be ~/.keras, which hosts link to a copy, because Keras writes beside these files. "
            "Give the entry another name"
        )
        fault(f"data.{name}.source", problem)
