"""S3 for the host. The client retries short failures itself; outages.py lists the errors that pass within minutes."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from training.host.errors import AccessDenied, HostTrouble, Missing, Unreachable
from training.host.outages import ANY_ERROR, is_passing_code, is_passing_error

DENIED = {"AccessDenied", "403", "AllAccessDisabled"}
ABSENT = {"NoSuchKey", "404", "NoSuchBucket", "NoSuchVersion"}
REFUSALS = {
    "KeyTooLongError", "InvalidArgument", "InvalidRequest", "EntityTooLarge", "InvalidURI", "MalformedXML",
    "MethodNotAllowed", "BadDigest", "InvalidDigest",
}  # fmt: skip
"""Error codes for a request that is wrong itself: a retry cannot succeed."""
NOT_MODIFIED = "304"
NOT_AUTHORIZED = re.compile(r"is not authorized to perform: ([a-z0-9-]+:\w+) on resource: (\S+)")
DELETE_AT_ONCE = 1000
DENIALS_PER_LIST = 12
"""Denials of an object that is polled, for each list request that checks whether the object is missing."""
SENDS_AT_ONCE = 4
"""Connections for the upload of one large file."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a list."""

    key: str
    size: int
    """In bytes."""
    etag: str
    """Without quotes."""
    changed: str
    """ISO-8601 in UTC."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The content of a key and its ETag, quoted as S3 returns it."""

    body: bytes
    etag: str


class Bucket:
    """A bucket with one set of credentials. Every method raises AccessDenied (with action and key), Missing, or
    HostTrouble. Threads may share it.

    `credentials` is the environment that gives commands the credentials of the client."""

    def __init__(self, s3: Any, name: str, credentials: Mapping[str, str] | None = None) -> None:
        self._s3 = s3
        self.name = name
        self._credentials = dict(credentials or {})
        self._role = "role of runs" if credentials else "host role"
        self._denied_looks: Counter[str] = Counter()

    @property
    def region(self) -> str:
        return str(self._s3.meta.region_name)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that give s5cmd the credentials, and the endpoint if it is not AWS's."""
        url = str(self._s3.meta.endpoint_url)
        return self._credentials | ({} if ".amazonaws.com" in url else {"S3_ENDPOINT_URL": url})

    def of(self, uri: str) -> tuple["Bucket", str]:
        """Return the bucket of an s3 URI, with these credentials, and the key."""
        scheme, _, rest = uri.partition("://")
        name, _, key = rest.partition("/")
        if scheme != "s3" or not name or not key:
            raise Missing(f"{uri} is not an object of a bucket")
        return self if name == self.name else Bucket(self._s3, name, self._credentials), key

    def read(self, key: str) -> bytes:
        try:
            body: bytes = self._s3.get_object(Bucket=self.name, Key=key)["Body"].read()
            return body
        except (ClientError, BotoCoreError) as error:
            self._explain_read(error, "s3:GetObject", key)

    def read_if_there(self, key: str) -> bytes | None:
        try:
            return self.read(key)
        except Missing:
            return None

    def read_if_changed(self, key: str, since: str) -> Changed | None:
        """Return the object; None if it is missing or still has the ETag `since` ("" for no earlier one)."""
        condition = {"IfNoneMatch": since} if since else {}
        try:
            found = self._s3.get_object(Bucket=self.name, Key=key, **condition)
            return Changed(found["Body"].read(), found["ETag"])
        except (ClientError, BotoCoreError) as error:
            if _code(error) in {NOT_MODIFIED, *ABSENT} or self._is_missing_again(error, key):
                return None
            self._explain(error, "s3:GetObject", key)

    def write(self, key: str, body: bytes) -> None:
        try:
            self._s3.put_object(Bucket=self.name, Key=key, Body=body)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:PutObject", key)

    def download(self, key: str, path: Path) -> None:
        """Download in parallel parts. The file appears whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._s3.download_file(self.name, key, str(path))
        except ANY_ERROR as error:
            self._explain_read(error, "s3:GetObject", key)
        except OSError as error:
            raise HostTrouble(f"writing {path} failed: {error.strerror or error}") from error

    def upload(self, path: Path, key: str) -> None:
        try:
            self._s3.upload_file(str(path), self.name, key)
        except S3UploadFailedError as error:
            self._explain(_cause(error), "s3:PutObject", key)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:PutObject", key)

    def put(self, key: str, body: bytes) -> str:
        """Write the object; return its version, empty in a bucket without versions."""
        try:
            return str(self._s3.put_object(Bucket=self.name, Key=key, Body=body).get("VersionId") or "")
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:PutObject", key)

    def send(self, path: Path, key: str, check: Callable[[], None]) -> str:
        """Write the object from a file of any size in bounded memory; return its version, empty in a bucket without
        versions. `check` is called for every piece: an exception that it raises ends the transfer."""
        config = TransferConfig(max_concurrency=SENDS_AT_ONCE)
        try:
            self._s3.upload_file(str(path), self.name, key, Callback=lambda _: check(), Config=config)
            found = self._s3.head_object(Bucket=self.name, Key=key)
        except S3UploadFailedError as error:
            self._explain(_cause(error), "s3:PutObject", key)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:PutObject", key)
        return str(found.get("VersionId") or "")

    def copy(self, key: str, to: str) -> None:
        """Copy an object of any size within the bucket."""
        try:
            self._s3.copy({"Bucket": self.name, "Key": key}, self.name, to)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:PutObject", to)

    def download_version(self, key: str, version: str, path: Path) -> None:
        """Write this version of the object (the newest if empty) into a file. Raises OSError if the disk is full. A
        denied version counts as Missing, because S3 may answer "denied" for a missing version."""
        which = {"VersionId": version} if version else {}
        try:
            self._s3.download_file(self.name, key, str(path), ExtraArgs=which)
        except ANY_ERROR as error:
            if version and _code(error) in DENIED:
                raise Missing(self._absence(f"{key}?versionId={version}")) from error
            self._explain_read(error, "s3:GetObject", key)

    def list(self, prefix: str) -> Iterator[Object]:
        """Yield every object under `prefix` except folder markers."""
        try:
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix):
                for found in page.get("Contents", []):
                    if not found["Key"].endswith("/"):
                        changed = found["LastModified"].isoformat()
                        yield Object(found["Key"], found["Size"], found["ETag"].strip('"'), changed)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:ListBucket", prefix)

    def part_sizes(self, key: str, count: int) -> Sequence[int]:
        """Return the sizes in bytes of the first `count` parts of an object from a multipart upload."""
        sizes = []
        try:
            for number in range(1, count + 1):
                # A denial of HeadObject names no permission; a denial of GetObject does.
                found = self._s3.get_object(Bucket=self.name, Key=key, PartNumber=number)
                found["Body"].close()
                sizes.append(int(found["ContentLength"]))
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:GetObject", key)
        return sizes

    def has_sum(self, key: str) -> bool:
        """Return True if the object's ETag is a checksum of its bytes, which is not so with encryption by a KMS key."""
        try:
            found = self._s3.head_object(Bucket=self.name, Key=key)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:GetObject", key)
        return not str(found.get("ServerSideEncryption", "")).startswith("aws:kms")

    def delete(self, keys: Iterable[str]) -> None:
        named = [{"Key": key} for key in keys]
        for start in range(0, len(named), DELETE_AT_ONCE):
            batch = named[start : start + DELETE_AT_ONCE]
            try:
                answer = self._s3.delete_objects(Bucket=self.name, Delete={"Objects": batch, "Quiet": True})
            except (ClientError, BotoCoreError) as error:
                self._explain(error, "s3:DeleteObject", batch[0]["Key"])
            for refused in answer.get("Errors", []):
                if refused["Code"] in DENIED:
                    raise AccessDenied("s3:DeleteObject", self.uri(refused["Key"]), role=self._role)
                raise HostTrouble(f"deleting {self.uri(refused['Key'])} failed: {refused['Code']}")

    def uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def trouble(self, code: str, action: str, key: str, message: str) -> HostTrouble:
        """Return the trouble for an error code of S3. `message` is the text of the error."""
        if code in DENIED:
            denied = NOT_AUTHORIZED.search(message)
            if denied and denied[1] != action:  # e.g. on the KMS key, or a list request for a missing object
                return AccessDenied(denied[1], denied[2], role=self._role)
            return AccessDenied(action, self.uri(key), role=self._role)
        if code in ABSENT:
            return Missing(self._absence(key))
        failed = f"{action} on {self.uri(key)} failed: {message}"
        return (
            Unreachable(failed) if is_passing_code(code) else HostTrouble(failed, passes=code not in REFUSALS)
        )

    def _explain_read(self, error: BaseException, action: str, key: str) -> NoReturn:
        if _code(error) in DENIED and self._is_missing(key):
            raise Missing(self._absence(key)) from error
        self._explain(error, action, key)

    def _explain(self, error: BaseException, action: str, key: str) -> NoReturn:
        if is_passing_error(error):
            raise Unreachable(f"{action} on {self.uri(key)} failed: {error}") from error
        raise self.trouble(_code(error), action, key, str(error)) from error

    def _absence(self, key: str) -> str:
        return f"{self.uri(key)} does not exist; upload it, or correct the job file, and start again"

    def _is_missing(self, key: str) -> bool:
        """Return True if a list lacks the object. The credentials allow lists by prefix only, and S3 answers "denied"
        for a missing object to a caller who may not list the whole bucket."""
        try:
            first = next(self.list(key), None)
        except AccessDenied:
            return False
        return first is None or first.key != key

    def _is_missing_again(self, error: BaseException, key: str) -> bool:
        """Return True if a polled object is missing. A list costs 12 times a GetObject, so only every
        DENIALS_PER_LIST-th denial causes one."""
        if _code(error) not in DENIED:
            return False
        looks = self._denied_looks[key]
        if looks % DENIALS_PER_LIST == 0 and not self._is_missing(key):
            return False
        self._denied_looks[key] = looks + 1
        return True


def _code(error: BaseException) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""


def _cause(error: S3UploadFailedError) -> BaseException:
    """Return the error that boto3 has wrapped: it holds S3's answer."""
    cause: BaseException = error.__cause__ or error.__context__ or error
    return cause
