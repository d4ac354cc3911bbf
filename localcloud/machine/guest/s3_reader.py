"""Read objects of S3 with the standard library only: list, head, and ranges, signed with Signature Version 4."""

from __future__ import annotations

import configparser
import hashlib
import hmac
import http.client
import json
import os
import shlex
import subprocess
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

REFRESH = timedelta(minutes=2)
"""Read the credentials again this long before they expire."""
TRIES, TIMEOUT_SECONDS = 5, 30.0
UNSIGNED = "UNSIGNED-PAYLOAD"
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class S3Error(Exception):
    """S3's answer to a request that failed. The text is as mount-s3 shows it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Item:
    """An object of a list."""

    key: str
    size: int
    etag: str
    changed: float
    """Seconds since 1970."""
    storage: str = ""

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


class Credentials:
    """Credentials of the profile `default`, by its credential_process. They are read again before they expire."""

    def __init__(self) -> None:
        config = configparser.ConfigParser()
        config.read(os.environ.get("AWS_CONFIG_FILE", Path("~/.aws/config").expanduser()))
        self._command = shlex.split(config.get("default", "credential_process", fallback=""))
        self._found: dict[str, str] = {}
        self._until = datetime.min.replace(tzinfo=UTC)
        self._lock = threading.Lock()

    def read(self) -> Mapping[str, str]:
        with self._lock:
            if datetime.now(UTC) + REFRESH >= self._until:
                if not self._command:
                    raise S3Error(0, "No signing credentials available")
                done = subprocess.run(self._command, check=False, capture_output=True, text=True)
                if done.returncode:
                    raise S3Error(0, f"No signing credentials available: {done.stderr.strip()}")
                self._found = json.loads(done.stdout)
                self._until = datetime.fromisoformat(self._found["Expiration"].replace("Z", "+00:00"))
            return self._found


class Reader:
    """The objects of one bucket. Threads may share it. `gets` counts GET requests of objects."""

    def __init__(self, bucket: str, *, region: str, endpoint: str) -> None:
        self._bucket, self._region = bucket, region
        self._url = urlsplit(endpoint)
        self._credentials = Credentials()
        self._local = threading.local()
        self._lock = threading.Lock()
        self.gets = self.lists = self.heads = 0

    def take_counts(self) -> dict[str, int]:
        """Return the number of requests since the last call, by S3's names."""
        with self._lock:
            counts = {"GetObject": self.gets, "ListObjectsV2": self.lists, "HeadObject": self.heads}
            self.gets = self.lists = self.heads = 0
        return counts

    def list(self, prefix: str, *, most: int | None = None) -> Iterator[Item | str]:
        """Yield the objects directly below a prefix, and the prefixes of folders."""
        token = ""
        while True:
            query = {"list-type": "2", "delimiter": "/", "prefix": prefix}
            query |= {"continuation-token": token} if token else {}
            query |= {"max-keys": str(most)} if most else {}
            with self._lock:
                self.lists += 1
            _, body, _ = self._request("GET", "", query, {})
            root = ET.fromstring(body)  # noqa: S314 - the answer of the local cloud's S3
            for each in root.findall(f"{NAMESPACE}Contents"):
                yield Item(
                    _text(each, "Key"),
                    int(_text(each, "Size")),
                    _text(each, "ETag"),
                    datetime.fromisoformat(_text(each, "LastModified").replace("Z", "+00:00")).timestamp(),
                    _text(each, "StorageClass"),
                )
            for each in root.findall(f"{NAMESPACE}CommonPrefixes"):
                yield _text(each, "Prefix")
            token = root.findtext(f"{NAMESPACE}NextContinuationToken") or ""
            if most or not token:
                return

    def get(self, item: Item, begin: int, size: int) -> bytes:
        """Return bytes of an object that has not changed. Raise S3Error with status 412 if it has."""
        with self._lock:
            self.gets += 1
        headers = {"range": f"bytes={begin}-{begin + size - 1}", "if-match": item.etag}
        return self._request("GET", item.key, {}, headers)[1]

    def _request(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, bytes, Mapping[str, str]]:
        for left in reversed(range(TRIES)):
            try:
                status, body, found = self._send(method, key, query, headers)
            except (OSError, http.client.HTTPException) as error:
                self._local.connection = None
                if not left:
                    raise S3Error(0, f"Client error: {error}") from error
            else:
                if status < 300:
                    return status, body, found
                if status < 500 or not left:
                    raise S3Error(status, _describe(status, body))
            time.sleep(0.2 * 2 ** (TRIES - 1 - left))
        raise AssertionError("the last try returns or raises")

    def _send(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, bytes, Mapping[str, str]]:
        path = "/" + quote(f"{self._bucket}/{key}" if key else self._bucket, safe="/-_.~")
        line = "&".join(f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query))
        signed = self._sign(method, path, line, headers)
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            connection = kind(self._url.netloc, timeout=TIMEOUT_SECONDS)
            self._local.connection = connection
        connection.request(method, f"{path}?{line}" if line else path, headers=signed)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.headers)

    def _sign(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> dict[str, str]:
        keys = self._credentials.read()
        at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        signed = {
            **headers,
            "host": self._url.netloc,
            "x-amz-content-sha256": UNSIGNED,
            "x-amz-date": at,
            **({"x-amz-security-token": keys["SessionToken"]} if keys.get("SessionToken") else {}),
        }
        names = ";".join(sorted(signed))
        canonical = "\n".join(
            [method, path, query, *(f"{name}:{signed[name]}" for name in sorted(signed)), "", names, UNSIGNED]
        )
        scope = f"{at[:8]}/{self._region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        secret = f"AWS4{keys['SecretAccessKey']}".encode()
        for word in scope.split("/"):
            secret = hmac.digest(secret, word.encode(), "sha256")
        signature = hmac.new(secret, text.encode(), "sha256").hexdigest()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={keys['AccessKeyId']}/{scope}, SignedHeaders={names}, "
            f"Signature={signature}"
        )
        return signed


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(f"{NAMESPACE}{name}") or ""


def _describe(status: int, body: bytes) -> str:
    """Describe S3's error as mount-s3 does: `Client error: Forbidden: Access Denied`."""
    words = {403: "Forbidden", 404: "NoSuchBucket", 412: "PreconditionFailed", 503: "Throttled"}
    try:
        message = ET.fromstring(body).findtext("Message") or ""  # noqa: S314 - the answer of the local cloud's S3
    except ET.ParseError:
        message = ""
    return f"Client error: {words.get(status, f'HTTP {status}')}: {message}".rstrip(": ")
