"""Restore logs that an earlier attempt wrote into `${tensorboard}`, because programs append to them."""

from pathlib import Path

from training.host.bucket import Bucket
from training.host.data.transfer import download_all
from training.host.disk import EVENT_FILE, inside

MOST_BYTES = 256 * 1024 * 1024
"""Larger files are traces and pictures, which no program appends to."""


def restore(bucket: Bucket, prefix: str, folder: Path) -> int:
    """Download the files below `prefix` to `folder` and return their number. Existing files stay.

    Without that, a new host's file would replace the one in the bucket with all earlier lines. Every attempt writes its
    own event files, so these are not fetched.
    """
    wanted = {}
    for item in bucket.list(prefix):
        path = inside(folder, item.key.removeprefix(prefix))
        if EVENT_FILE not in path.name and item.size <= MOST_BYTES and not path.exists():
            wanted[path] = item
    download_all(bucket, wanted, what="the logs of earlier attempts")
    return len(wanted)
