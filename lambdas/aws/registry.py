"""The API of registries outside of AWS: manifests and configurations of images, by HTTPS.

https://github.com/opencontainers/distribution-spec, https://distribution.github.io/distribution/spec/auth/token/"""

import hashlib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any

from trainyard.protocol.image_reference import Reference
from trainyard.protocol.registry_login import BASIC, Challenge, UnknownLoginError, write_basic, write_bearer

SECONDS = 10
MOST_BYTES = 4 * 1024**2
"""The largest manifest that registries accept."""
DIGEST = "Docker-Content-Digest"
BUSY = 429


class RegistryBusyError(Exception):
    """The registry allows no further request now."""


class RegistryUnreachableError(Exception):
    """The registry gave no answer, or none that this protocol has. The message says why."""


class NoAccessError(Exception):
    """The registry does not let the caller read the repository."""


class _WithoutLogin(urllib.request.HTTPRedirectHandler):
    """Follows a redirect without the caller's token, because another host gets it."""

    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        made = super().redirect_request(*arguments)
        if made is not None:
            made.remove_header("Authorization")
        return made


class RegistryImages:
    """A repository of a registry, read with a login (`user:password`) or without one."""

    def __init__(self, image: Reference, login: str = "") -> None:
        self._base = f"https://{image.address}/v2/{image.repository}"
        self._repository, self._login = image.repository, login
        self._authorization = ""
        self._opener = urllib.request.build_opener(_WithoutLogin())

    def manifest(self, version: str, accepted: Sequence[str]) -> tuple[bytes, str] | None:
        """Return the manifest of a tag or digest, and its digest; None if the repository has none."""
        found = self._get(f"{self._base}/manifests/{version}", {"Accept": ", ".join(accepted)})
        if found is None:
            return None
        return found, _sum(found, version if version.startswith("sha256:") else None)

    def blob(self, digest: str) -> bytes:
        """Return a configuration."""
        found = self._get(f"{self._base}/blobs/{digest}", {})
        if found is None:
            raise RegistryUnreachableError(f"it has no {digest}, which its own manifest names")
        _sum(found, digest)
        return found

    def _get(self, address: str, headers: Mapping[str, str], *, has_token: bool = False) -> bytes | None:
        """Return the body; None for 404. The first refusal names where to get a token."""
        login = {"Authorization": self._authorization} if self._authorization else {}
        try:
            return self._open(address, {**headers, **login})
        except urllib.error.HTTPError as refusal:
            challenge = refusal.headers.get("WWW-Authenticate", "")
            match refusal.code:
                case 404:
                    return None
                case 401 if not has_token and challenge:
                    self._authorization = self._authorize(challenge)
                    return self._get(address, headers, has_token=True)
                case 401 | 403:
                    raise NoAccessError from refusal
            raise RegistryUnreachableError(f"it answered {refusal.code}") from refusal

    def _authorize(self, challenge: str) -> str:
        """Return the header for the login that a challenge asks for."""
        asked, own = Challenge.of(challenge), write_basic(self._login)
        if asked.scheme == BASIC:
            if not own:
                raise NoAccessError
            return own
        try:
            address = asked.token_address(self._base, self._repository)
            return write_bearer(self._open(address, {"Authorization": own} if own else {}))
        except urllib.error.HTTPError as refusal:
            raise NoAccessError from refusal
        except UnknownLoginError as error:
            raise RegistryUnreachableError(str(error)) from error

    def _open(self, address: str, headers: Mapping[str, str]) -> bytes:
        request = urllib.request.Request(address, headers={"User-Agent": "trainyard", **headers})  # noqa: S310 - https
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                found = bytes(answer.read(MOST_BYTES))
                if len(found) < MOST_BYTES and answer.length:
                    raise RegistryUnreachableError("it stopped in the middle of its answer")
                return found
        except urllib.error.HTTPError as refusal:
            if refusal.code == BUSY:
                raise RegistryBusyError from refusal
            raise
        except (OSError, HTTPException) as error:
            raise RegistryUnreachableError(str(getattr(error, "reason", "") or error)) from error


def _sum(found: bytes, expected: str | None) -> str:
    """Return the digest of the bytes. Raise RegistryUnreachableError if another one was expected."""
    digest = f"sha256:{hashlib.sha256(found).hexdigest()}"
    if expected not in (None, digest):
        raise RegistryUnreachableError(f"it sent bytes that do not have the checksum {expected}")
    return digest
