"""S3 in the host's words. The client retries hiccups by itself; outages.py knows which errors pass in minutes."""

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
"""Error codes by which S3 says that the request itself is wrong: to repeat it soon changes nothing."""
NOT_MODIFIED = "304"
NOT_AUTHORIZED = re.compile(r"is not authorized to perform: ([a-z0-9-]+:\w+) on resource: (\S+)")
DELETE_AT_ONCE = 1000
LOOKS_A_LIST = 12
"""Denials of one object, looked at again and again, for each list that tells whether it is missing."""
SENDS_AT_ONCE = 4
"""Connections that send one large file."""


@dataclass(frozen=True, slots=True)
class Object:
    """`size` in bytes; `etag` without quotes; `changed` is ISO-8601 UTC."""

    key: str
    size: int
    etag: str
    changed: str


@dataclass(frozen=True, slots=True)
class Changed:
    """What a key holds now, and its ETag as S3 has it."""

    body: bytes
    etag: str


class Bucket:
    """Every method raises AccessDenied (naming action and key), Missing, or HostTrouble. Safe to share by threads.

    `credentials`: the environment by which commands find those that the client has."""

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
        """What s5cmd needs to reach the same: where S3 is, unless it is AWS's own, and credentials."""
        url = str(self._s3.meta.endpoint_url)
        return self._credentials | ({} if ".amazonaws.com" in url else {"S3_ENDPOINT_URL": url})

    def of(self, uri: str) -> tuple["Bucket", str]:
        """The bucket that an s3 URI names, by the same credentials, and the key."""
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
        """The object, unless it is not there or still the one of the ETag `since` (none: "")."""
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
        """In parts and parallel; the file appears whole."""
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
        """Write this version of the object (the newest if it is empty) into a file. Raises OSError if the disk cannot
        take it. S3 may answer "denied" for a version that is missing, so a denied version counts as Missing."""
        which = {"VersionId": version} if version else {}
        try:
            self._s3.download_file(self.name, key, str(path), ExtraArgs=which)
        except ANY_ERROR as error:
            if version and _code(error) in DENIED:
                raise Missing(self._absence(f"{key}?versionId={version}")) from error
            self._explain_read(error, "s3:GetObject", key)

    def list(self, prefix: str) -> Iterator[Object]:
        """Every object under `prefix`; folder markers are left out."""
        try:
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix):
                for found in page.get("Contents", []):
                    if not found["Key"].endswith("/"):
                        changed = found["LastModified"].isoformat()
                        yield Object(found["Key"], found["Size"], found["ETag"].strip('"'), changed)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:ListBucket", prefix)

    def part_sizes(self, key: str, count: int) -> Sequence[int]:
        """The sizes in bytes of the first `count` parts that the object was put together from."""
        sizes = []
        try:
            for number in range(1, count + 1):
                # HeadObject would do on AWS; its refusals do not say what is missing.
                found = self._s3.get_object(Bucket=self.name, Key=key, PartNumber=number)
                found["Body"].close()
                sizes.append(int(found["ContentLength"]))
        except (ClientError, BotoCoreError) as error:
            self._explain(error, "s3:GetObject", key)
        return sizes

    def has_sum(self, key: str) -> bool:
        """Whether the object's ETag is a sum of its bytes: it is none where a KMS key encrypts it."""
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
        """What S3's error code means for the host; `message` is S3's own sentence."""
        if code in DENIED:
            said = NOT_AUTHORIZED.search(message)
            if said and said[1] != action:  # of the key, say, or of the bucket where the object is not there
                return AccessDenied(said[1], said[2], role=self._role)
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
        """Return True if a list lacks the object. The credentials list by prefixes only, and S3 answers "denied" for a
        missing object to a caller who may not list the whole bucket."""
        try:
            first = next(self.list(key), None)
        except AccessDenied:
            return False
        return first is None or first.key != key

    def _is_missing_again(self, error: BaseException, key: str) -> bool:
        """Return True if the object that is looked at again and again is missing. A list costs 12 times a GetObject, so
        only every LOOKS_A_LIST-th denial asks for one."""
        if _code(error) not in DENIED:
            return False
        looks = self._denied_looks[key]
        if looks % LOOKS_A_LIST == 0 and not self._is_missing(key):
            return False
        self._denied_looks[key] = looks + 1
        return True


def _code(error: BaseException) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""


def _cause(error: S3UploadFailedError) -> BaseException:
    """boto3 wraps the answer that S3 gave; the answer says more."""
    cause: BaseException = error.__cause__ or error.__context__ or error
    return cause
