"""The yard's bucket. Jobs, programs, data and recipes are uploaded to it; results of runs are downloaded from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import ClientError

from trainyard.client import fetching
from trainyard.client.fetching import Fetched, OnProgress, Tree
from trainyard.client.session import Session

PIECE = 2**18
COPIED_IN_PARTS = 2**26
"""The smallest size in bytes of an object that S3 copies in parts, which needs one more request."""


def ignore_progress(key: str, done: int, total: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Bucket:
    """One bucket of S3."""

    session: Session
    name: str

    def put(self, key: str, body: bytes) -> str:
        """Write the object and return its version."""
        answer = self.session.client("s3").put_object(Bucket=self.name, Key=key, Body=body)
        return str(answer.get("VersionId", "null"))

    def send(self, key: str, file: IO[bytes], size: int, on_progress: OnProgress) -> None:
        """Write the object from a file, in parts if it is large, and report the progress to `on_progress`."""
        file.seek(0)
        self.session.client("s3").upload_fileobj(
            file, self.name, key, Callback=_count_bytes(key, size, on_progress)
        )

    def copy(self, source: str, key: str, size: int) -> bool:
        """Copy an object within the bucket. Return False if the object no longer exists."""
        client, named = self.session.client("s3"), {"Bucket": self.name, "Key": source}
        try:
            if size < COPIED_IN_PARTS:
                client.copy_object(Bucket=self.name, Key=key, CopySource=named)
            else:
                client.copy(named, self.name, key)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return False
            raise
        return True

    def put_folder(self, folder: Path, prefix: str) -> list[str]:
        """Write every file below the folder under the prefix, and return the keys."""
        files = {
            prefix + file.relative_to(folder).as_posix(): file
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        self.put_files(files)
        return [*files]

    def put_files(self, files: Mapping[str, Path]) -> None:
        """Write each file under its key."""
        client = self.session.client("s3")
        for key, file in files.items():
            client.upload_file(str(file), self.name, key)

    def keys(self, prefix: str) -> dict[str, int]:
        """Return the sizes of the objects under the prefix, by key."""
        pages = self.session.client("s3").get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=self.name, Prefix=prefix)
        return {item["Key"]: item["Size"] for page in listed for item in page.get("Contents", [])}

    def etags(self, prefix: str, after: str = "") -> dict[str, str]:
        """Return the ETags of the objects under the prefix, by key in order. A different ETag means different bytes.
        With `after`, return only objects behind that key."""
        pages = self.session.client("s3").get_paginator("list_objects_v2")
        behind = {"StartAfter": after} if after else {}
        listed = pages.paginate(Bucket=self.name, Prefix=prefix, **behind)
        return {item["Key"]: item["ETag"] for page in listed for item in page.get("Contents", [])}

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders directly under the prefix."""
        pages = self.session.client("s3").get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=self.name, Prefix=prefix, Delimiter="/")
        found = [each["Prefix"] for page in listed for each in page.get("CommonPrefixes", [])]
        return [folder.removeprefix(prefix).rstrip("/") for folder in found]

    def read(self, key: str) -> bytes | None:
        """Return the object's bytes, or None if it does not exist."""
        try:
            return bytes(self.session.client("s3").get_object(Bucket=self.name, Key=key)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise

    def read_from(self, key: str, start: int = 0) -> bytes:
        """Return the object's bytes from this position on. Return no bytes beyond its end or if it does not exist."""
        try:
            got = self.session.client("s3").get_object(Bucket=self.name, Key=key, Range=f"bytes={start}-")
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404", "InvalidRange", "416"):
                return b""
            raise
        return bytes(got["Body"].read())

    def json(self, key: str) -> dict[str, Any] | None:
        """Return the parsed object, or None if it does not exist."""
        body = self.read(key)
        return None if body is None else dict(json.loads(body))

    def pieces(self, key: str) -> Iterator[bytes]:
        """Yield the object in pieces, so that little of it is in memory."""
        yield from self.session.client("s3").get_object(Bucket=self.name, Key=key)["Body"].iter_chunks(PIECE)

    def fetch(
        self,
        prefix: str,
        folder: Path,
        on_progress: OnProgress = ignore_progress,
        *,
        owner: str,
        wanted: Callable[[str], bool] = lambda _: True,
        names: Mapping[str, Collection[str]] | None = None,
        tree: Tree | None = None,
    ) -> Fetched:
        """Download the objects under the prefix into the folder, unless the folder has them with the same content.

        `wanted` selects objects by their name below the prefix. `names`, if given, has the selected names with the
        files that each becomes. `tree` has links, folders and times. Files from another `owner` in the folder are
        removed. Raise FileUnreadable.
        """
        client = self.session.client("s3")
        return fetching.fetch(
            client, self.name, prefix, folder, on_progress, owner=owner, wanted=wanted, names=names, tree=tree
        )


def _count_bytes(key: str, size: int, on_progress: OnProgress) -> Callable[[int], None]:
    done = 0

    def more(count: int) -> None:
        nonlocal done
        done += count
        on_progress(key, done, size)

    return more
