"""Name the files that the objects of a data entry become on a host's disk, and count the requests of a stream."""

from collections.abc import Iterable
from pathlib import PurePosixPath

PART_BYTES = 8 * 1024**2
"""The bytes that mount-s3 reads with one GET request (doc/CONFIGURATION.md of mountpoint-s3, --read-part-size)."""


class NamesMeetError(ValueError):
    """Two objects that cannot both be files of one folder. The text names both and the remedy."""


def files_of(uri: str, keys: Iterable[str]) -> dict[str, str]:
    """Return the key of each file by its path in the folder of the entry `uri`.

    Raise NamesMeetError if two objects are one file on a disk, such as `a/b` and `a//b`, or if one is a file and a
    folder.
    """
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    named: dict[str, str] = {}
    for key in keys:
        name = str(PurePosixPath(key[len(prefix) :].lstrip("/") or "."))
        if name in named:
            raise NamesMeetError(
                f"s3://{bucket}/{named[name]} and s3://{bucket}/{key} are two objects, but on a disk both are the file "
                f"{name}. The program would get only one of them. Rename one and start again"
            )
        named[name] = key
    folders = {str(folder) for name in named if name != "." for folder in PurePosixPath(name).parents}
    if both := next((name for name in named if name in folders), None):
        raise NamesMeetError(
            f"s3://{bucket}/{named[both]} is an object and has others below it, but on a disk a file is no folder; "
            "rename one of them"
        )
    return named


def count_gets(sizes: Iterable[int]) -> int:
    """Return the GET requests that read objects of these sizes once."""
    return sum(-(-size // PART_BYTES) for size in sizes)
