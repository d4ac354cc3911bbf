"""Upload the files of a folder in parallel, because a small file's request takes longer than its bytes.

The bucket keeps a list of the contents of each folder's newest version. S3 copies unchanged files from there, so that
only changed files are uploaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainyard.client.jobs.contents import File
from trainyard.client.jobs.package import Package, open_unchanged
from trainyard.protocol import keys
from trainyard.values.quantities import format_count

if TYPE_CHECKING:
    from trainyard.client.bucket import Bucket
    from trainyard.client.fetching import OnProgress

LARGE = 8 * 2**20
"""The smallest size in bytes of a file that is uploaded in parts, which are parallel themselves."""
AT_ONCE = 32
"""The number of parallel requests, which equals the connections of the session's client (session.py)."""


def send_folder(bucket: Bucket, package: Package, on_progress: OnProgress) -> list[str]:
    """Upload the files of the folder that are missing in the bucket or differ in size, and return their keys. An
    interrupted upload continues. Raise FileChanged."""
    there = bucket.keys(package.key)
    missing = {key: file for file in package.files if there.get(key := package.key + file.path) != file.size}
    if missing:
        send(bucket, missing, package.key, on_progress, _copies(bucket, package, missing))
        listed = {"folder": package.key, "files": dict(package.contents)}
        bucket.put(_list_of(package), json.dumps(listed).encode())
    return [*missing]


def _parse_list(text: bytes | None) -> object:
    """Parse the list. Return None for invalid JSON."""
    try:
        return json.loads(text or b"null")
    except ValueError:
        return None


def _list_of(package: Package) -> str:
    folder, _, name = package.stem.removeprefix(keys.DATA).rpartition("/")
    return f"{keys.PROGRAMS}{folder}/folders/{name}.json"


def _copies(bucket: Bucket, package: Package, missing: Mapping[str, File]) -> dict[str, str]:
    """Return the keys of equal files in the newest other version of the folder, by the keys of the missing files."""
    match _parse_list(bucket.read(_list_of(package))):
        case {"folder": str(folder), "files": dict(files)} if re.fullmatch(
            rf"{re.escape(package.stem)}-\w+/", folder
        ):
            held = {str(content): folder + path for path, content in files.items()}
        case _:
            return {}
    sizes = bucket.keys(folder)
    found = {key: held.get(package.contents[file.path], "") for key, file in missing.items()}
    return {key: source for key, source in found.items() if sizes.get(source) == missing[key].size}


def send(
    bucket: Bucket,
    files: Mapping[str, File],
    folder: str,
    on_progress: OnProgress,
    copies: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write each file under its key; S3 copies the keys of `copies` from their sources.

    `on_progress` reports small files together: the folder with the number of sent files, their bytes, and the total.
    Raise FileChanged. The first error ends the upload.
    """
    small = {key: file for key, file in files.items() if file.size < LARGE}
    total, done = sum(file.size for file in small.values()), 0
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="send") as pool:
        waits = {pool.submit(_put, bucket, key, file, copies.get(key)): file for key, file in small.items()}
        try:
            for count, each in enumerate(as_completed(waits), start=1):
                each.result()
                done += waits[each].size
                on_progress(f"{folder}: {count:,} of {format_count(len(small), 'file')}", done, total)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    for key, file in files.items():
        if key not in small and not (key in copies and bucket.copy(copies[key], key, file.size)):
            with open_unchanged(file) as content:
                bucket.send(key, content, file.size, on_progress)


def _put(bucket: Bucket, key: str, file: File, copied_from: str | None) -> None:
    if copied_from and bucket.copy(copied_from, key, file.size):
        return
    with open_unchanged(file) as content:
        body = content.read()
    bucket.put(key, body)
