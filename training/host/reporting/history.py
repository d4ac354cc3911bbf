"""What an earlier attempt left in `${tensorboard}` beside its events: logs that a program continues by appending."""

from pathlib import Path

from training.host.bucket import Bucket
from training.host.data.transfer import download_all
from training.host.disk import EVENT_FILE, inside

MOST_BYTES = 256 * 1024 * 1024
"""Larger files are traces and pictures, which no program appends to."""


def restore(bucket: Bucket, prefix: str, folder: Path) -> int:
    """Put the files below `prefix` into `folder` and return how many. A file of the program's that is there stays.

    A new host's file would replace the one in the bucket, and with it all that was logged before. Every attempt writes
    event files of its own, so these are not fetched.
    """
    wanted = {}
    for item in bucket.list(prefix):
        path = inside(folder, item.key.removeprefix(prefix))
        if EVENT_FILE not in path.name and item.size <= MOST_BYTES and not path.exists():
            wanted[path] = item
    download_all(bucket, wanted, what="the logs of earlier attempts")
    return len(wanted)
