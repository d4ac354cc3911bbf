"""Send many files of this computer into the bucket side by side: for small files a request each takes longer than its
bytes do."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from trainyard.client.jobs.package import unchanged
from trainyard.client.jobs.tree import File

if TYPE_CHECKING:
    from trainyard.client.bucket import Bucket
    from trainyard.client.fetching import Tell

LARGE = 8 * 2**20
"""Bytes from which on a file is sent in parts, which go side by side themselves."""
AT_ONCE = 32
"""Requests at once; as many connections has the session's client (session.py)."""


def send(bucket: Bucket, files: Mapping[str, File], folder: str, tell: Tell) -> None:
    """Write each file under its key. `tell` hears of the small ones together: the folder with how many of them are
    there, their bytes so far, and all of them. Raises FileChanged; the first error ends it."""
    small = {key: file for key, file in files.items() if file.size < LARGE}
    total, done = sum(file.size for file in small.values()), 0
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="send") as pool:
        waits = {pool.submit(_put, bucket, key, file): file for key, file in small.items()}
        try:
            for count, each in enumerate(as_completed(waits), start=1):
                each.result()
                done += waits[each].size
                tell(f"{folder}: {count:,} of {len(small):,} files", done, total)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    for key, file in files.items():
        if key not in small:
            with unchanged(file) as content:
                bucket.send(key, content, file.size, tell)


def _put(bucket: Bucket, key: str, file: File) -> None:
    with unchanged(file) as content:
        body = content.read()
    bucket.put(key, body)
