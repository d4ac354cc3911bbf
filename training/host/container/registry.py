"""A registry's API (the OCI distribution specification): manifests by digest, and blobs with their checksums.

A blob that stops arriving continues where it stopped. Only a lack of progress ends the tries, never a time limit for
the whole: images have tens of GB, and registries differ in speed.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import urllib3
from urllib3.exceptions import HTTPError

from training.host.errors import Damaged, HostTrouble, Missing, Unreachable
from trainyard.protocol.registry_login import BEARER, Challenge, UnknownLoginError, write_basic, write_bearer

MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MOST_MANIFEST_BYTES = 4 * 1024**2
"""The limit of registries."""
TRIES = 4
SILENT_SECONDS = 120.0
"""A connection without a byte for this long is given up."""
CONNECT_SECONDS = 10.0
RETRY_AFTER_SECONDS, MOST_RETRY_AFTER_SECONDS = 15.0, 900.0
"""The pause after a refusal that names none, and the longest pause. The agent tries for 15 minutes (agent.py)."""
PIECE = 1 << 20
ONLY_REDIRECTS = urllib3.Retry(5, connect=0, read=0, status=0, other=0, respect_retry_after_header=False)
"""Blobs lie elsewhere. urllib3 keeps the header Authorization from another host."""
DENIED, ABSENT, TOO_MANY = (401, 403), 404, 429

logger = logging.getLogger(__name__)
logging.getLogger("urllib3.poolmanager").setLevel(
    logging.WARNING
)  # its line about a redirect has a signed address


class GivenUpError(Exception):
    """The host has to leave, so nothing more is pulled."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """A login to a registry, with the remedy for its refusal."""

    basic: str = ""
    """`user:password`; empty for an anonymous read."""
    advice: str = "if it is private, name a secret with `user:password` in program.container.login"
    """The remedy for a denial."""


@dataclass(kw_only=True)
class Registry:
    """The images of one repository. Threads may share it."""

    url: str
    """The address of the API, such as `https://registry-1.docker.io`."""
    repository: str
    name: str
    """The registry and the repository, as users name them."""
    login: Callable[[], Login] = Login
    stopped: Callable[[], bool] = lambda: False
    """Returns True once the host has to leave."""
    sleep: Callable[[float], None] = time.sleep
    silent_seconds: float = SILENT_SECONDS
    _authorization: str = field(default="", init=False)
    _pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=self.silent_seconds)
        self._pool = urllib3.PoolManager(maxsize=16, timeout=timeout, retries=ONLY_REDIRECTS)

    def manifest(self, version: str) -> tuple[dict[str, Any], str]:
        """Return a manifest or an index, and its digest. `version` is a digest or a tag. Raises Missing, Damaged,
        Unreachable or HostTrouble."""
        answer = self._get(f"manifests/{version}", {"Accept": ", ".join(MANIFESTS)})
        try:
            body = answer.read(MOST_MANIFEST_BYTES)
        except (HTTPError, OSError) as error:
            raise Unreachable(f"{self.name} stopped in the middle of a manifest: {error}") from error
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if version.startswith("sha256:") and digest != version:
            raise Damaged(f"{self.name} sent bytes that do not have the checksum {version}")
        try:
            read: dict[str, Any] = json.loads(body)
        except ValueError as error:
            raise HostTrouble(f"{self.name} sent a manifest that cannot be read as JSON ({error})") from error
        return read, digest

    def fetch_blob(self, digest: str, path: Path, *, arrived: Callable[[int], None]) -> None:
        """Write a blob to a file, and compare its checksum. `arrived` gets the count of bytes of each piece; a
        negative count if bytes are fetched again. Raises Damaged after several tries with other bytes, and Unreachable
        after several tries without a byte."""
        for _ in range(TRIES):
            if self._fetch_once(digest, path, arrived) == digest:
                return
            logger.warning("%s of %s arrived with another checksum: fetching it again", digest, self.name)
            arrived(-path.stat().st_size)
        raise Damaged(
            f"{digest} of {self.name} arrived {TRIES} times with another checksum. The registry, or a proxy "
            "before it, sends damaged bytes; the run tries again on another host"
        )

    def _fetch_once(self, digest: str, path: Path, arrived: Callable[[int], None]) -> str:
        """Write all bytes of a blob, in as many parts as necessary. Return the digest of the bytes."""
        summed, here, tries = hashlib.sha256(), 0, 0
        with path.open("wb") as file:
            while True:
                began_at = here
                try:
                    answer = self._get(f"blobs/{digest}", {"Range": f"bytes={here}-"} if here else {})
                    if here and answer.status != 206:  # the server sends all of it again
                        arrived(-here)
                        summed, here, began_at = hashlib.sha256(), 0, 0
                        file.seek(0)
                        file.truncate()
                    for piece in answer.stream(PIECE, decode_content=False):
                        self._raise_if_stopped()
                        file.write(piece)
                        summed.update(piece)
                        here += len(piece)
                        arrived(len(piece))
                    return f"sha256:{summed.hexdigest()}"
                except (HTTPError, Unreachable) as error:
                    tries = 1 if here > began_at else tries + 1
                    if tries >= TRIES:
                        reason = error.reason if isinstance(error, Unreachable) else str(error)
                        raise Unreachable(
                            f"{self.name} sent no more of {digest} after {here:,} bytes, {TRIES} times: {reason}"
                        ) from error
                    self._pause(2.0**tries)

    # -------------------------------------------------------------------------------------------------------- requests

    def _get(self, path: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Return the answer with its body unread. Waits as long as the registry asks for."""
        url, waited, asked = f"{self.url}/v2/{self.repository}/{path}", 0.0, False
        while True:
            self._raise_if_stopped()
            answer = self._request(url, self._authorized(headers))
            if answer.status < 300:
                return answer
            answer.drain_conn()
            if answer.status == DENIED[0] and not asked:
                asked = True
                self._authorization = self._answer_challenge(answer.headers.get("WWW-Authenticate", ""))
            elif answer.status == TOO_MANY and waited < MOST_RETRY_AFTER_SECONDS:
                pause = _seconds(answer.headers.get("Retry-After"))
                logger.warning("%s refuses too many requests: waiting for %.0f s", self.name, pause)
                self._pause(pause)
                waited += pause
            else:
                self._refuse(answer, path)

    def _request(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request("GET", url, headers=headers, preload_content=False)
        except HTTPError as error:
            raise Unreachable(
                f"the registry {self.url} does not answer ({error}). Hosts need a way to it: a NAT gateway or, for "
                "ECR, the endpoints ecr.api and ecr.dkr"
            ) from error

    def _authorized(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, **({"Authorization": self._authorization} if self._authorization else {})}

    def _answer_challenge(self, challenge: str) -> str:
        """Return the header that the registry asks for: the login itself, or a token of its token service."""
        asked, own = Challenge.of(challenge), write_basic(self.login().basic)
        if asked.scheme != BEARER:
            return own
        try:
            address = asked.token_address(self.url, self.repository)
            answer = self._request(address, {"Authorization": own} if own else {})
            body = answer.read(MOST_MANIFEST_BYTES)
            if answer.status != 200:
                self._refuse(answer, "token")
            return write_bearer(body)
        except UnknownLoginError as error:
            raise HostTrouble(f"the registry of {self.name} cannot be used: {error}", final=True) from error

    def _refuse(self, answer: urllib3.BaseHTTPResponse, path: str) -> NoReturn:
        if answer.status in DENIED:
            advice = self.login().advice
            raise HostTrouble(
                f"access denied: the registry refuses {self.name} ({answer.status}); {advice}", final=True
            )
        if answer.status == ABSENT:
            raise Missing(
                f"{self.name} has no {path} any more. The run was admitted with it, so it was deleted since: everyone "
                "with ecr:BatchDeleteImage, or a lifecycle policy of the repository, can do that. Push the image "
                "again and submit a new run"
            )
        if answer.status == TOO_MANY:
            raise Unreachable(f"{self.name} refuses too many requests (429)")
        if answer.status >= 500:
            raise Unreachable(f"{self.name} does not work ({answer.status})")
        raise HostTrouble(f"{self.name} answered {answer.status} for {path}")

    def _pause(self, seconds: float) -> None:
        """Sleep in steps of at most a second, so that a host that has to leave does not wait."""
        while seconds > 0:
            self._raise_if_stopped()
            self.sleep(min(1.0, seconds))
            seconds -= 1.0

    def _raise_if_stopped(self) -> None:
        if self.stopped():
            raise GivenUpError


def _seconds(asked: str | None) -> float:
    """Return the pause that a registry asks for, in seconds."""
    try:
        return min(max(float(asked or RETRY_AFTER_SECONDS), 1.0), MOST_RETRY_AFTER_SECONDS)
    except ValueError:  # a date
        return RETRY_AFTER_SECONDS
