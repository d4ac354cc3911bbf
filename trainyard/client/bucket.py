"""The yard's bucket: jobs, programs, data, recipes go in; what runs leave comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import ClientError

from trainyard.client import fetching
from trainyard.client.fetching import Fetched, Tell, Tree
from trainyard.client.session import Session

PIECE = 2**18
COPIED_IN_PARTS = 2**26
"""Bytes from which on S3 copies an object in parts, which is a request more."""


def silent(key: str, done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Bucket:
    """One bucket of S3."""

    session: Session
    name: str

    def put(self, key: str, body: bytes) -> str:
        """Write the object; answers its version."""
        answer = self.session.client("s3").put_object(Bucket=self.name, Key=key, Body=body)
        return str(answer.get("VersionId", "null"))

    def send(self, key: str, file: IO[bytes], size: int, tell: Tell) -> None:
        """Write the object from a file, in parts where it is large; `tell` hears how far it is."""
        file.seek(0)
        self.session.client("s3").upload_fileobj(file, self.name, key, Callback=_counted(key, size, tell))

    def copy(self, source: str, key: str, size: int) -> bool:
        """Have S3 copy an object within the bucket; return False if there is no such object any more."""
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
        """Write every file below the folder under the prefix; answers the keys."""
        client, keys = self.session.client("s3"), []
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            keys.append(prefix + file.relative_to(folder).as_posix())
            client.upload_file(str(file), self.name, keys[-1])
        return keys

    def keys(self, prefix: str) -> dict[str, int]:
        """Sizes of the objects under the prefix by key."""
        pages = self.session.client("s3").get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=self.name, Prefix=prefix)
        return {item["Key"]: item["Size"] for page in listed for item in page.get("Contents", [])}

    def etags(self, prefix: str, after: str = "") -> dict[str, str]:
        """What the objects under the prefix hold, by key in their order: another ETag, other bytes. With `after` those
        behind that key."""
        pages = self.session.client("s3").get_paginator("list_objects_v2")
        behind = {"StartAfter": after} if after else {}
        listed = pages.paginate(Bucket=self.name, Prefix=prefix, **behind)
        return {item["Key"]: item["ETag"] for page in listed for item in page.get("Contents", [])}

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders that are directly under the prefix."""
        pages = self.session.client("s3").get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=self.name, Prefix=prefix, Delimiter="/")
        found = [each["Prefix"] for page in listed for each in page.get("CommonPrefixes", [])]
        return [folder.removeprefix(prefix).rstrip("/") for folder in found]

    def read(self, key: str) -> bytes | None:
        """The object's bytes, or None where there is no such object."""
        try:
            return bytes(self.session.client("s3").get_object(Bucket=self.name, Key=key)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise

    def read_from(self, key: str, start: int = 0) -> bytes:
        """The object's bytes from this one on; none where it has no more, and where there is no such object."""
        try:
            got = self.session.client("s3").get_object(Bucket=self.name, Key=key, Range=f"bytes={start}-")
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404", "InvalidRange", "416"):
                return b""
            raise
        return bytes(got["Body"].read())

    def json(self, key: str) -> dict[str, Any] | None:
        """The object parsed, or None where there is no such object."""
        body = self.read(key)
        return None if body is None else dict(json.loads(body))

    def pieces(self, key: str) -> Iterator[bytes]:
        """The object, piece by piece; whatever its size, little of it is in memory."""
        yield from self.session.client("s3").get_object(Bucket=self.name, Key=key)["Body"].iter_chunks(PIECE)

    def fetch(
        self,
        prefix: str,
        folder: Path,
        tell: Tell = silent,
        *,
        owner: str,
        wanted: Callable[[str], bool] = lambda _: True,
        names: Mapping[str, Collection[str]] | None = None,
        tree: Tree | None = None,
    ) -> Fetched:
        """Bring the objects under the prefix into the folder, if they are not there with the same content. `wanted`
        chooses them by their name below the prefix; `names`, if given, has those that are wanted, with the files that
        each becomes; `tree` has the links, folders and times beside them. Files that an
        earlier fetch from another `owner` has left in the folder are removed. Raises FileUnreadable."""
        client = self.session.client("s3")
        return fetching.fetch(
            client, self.name, prefix, folder, tell, owner=owner, wanted=wanted, names=names, tree=tree
        )


def _counted(key: str, size: int, tell: Tell) -> Callable[[int], None]:
    done = 0

    def more(count: int) -> None:
        nonlocal done
        done += count
        tell(key, done, size)

    return more
