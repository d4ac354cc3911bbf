"""Access to pull and push: passwords of GetAuthorizationToken, tokens of other registries, and the root."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ministack.services import ecr

from localcloud.base import registries as names
from localcloud.base.root_key import RootKey
from localcloud.services.iam.checks import Check
from localcloud.services.iam.enforcement import first_denial

USER = "AWS"
HOURS = 12
"""How long a password of ECR is valid."""
TOKEN_SECONDS = 300
PULL = {"manifests": ("ecr:BatchGetImage",), "blobs": ("ecr:GetDownloadUrlForLayer",)}
PUSH = {
    "manifests": ("ecr:PutImage",),
    "blobs": ("ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload"),
}
LOGIN = "login"
"""The field of a repository with the `user:password` that it requires."""


@dataclass(frozen=True)
class Refusal:
    """A refused request: status, code and message of the registry's API, and the challenge for a login."""

    status: int
    code: str
    message: str
    challenge: str = ""


class Access:
    """The access to the registries of one local cloud."""

    def __init__(self, root: RootKey) -> None:
        self._root = root
        self._secret = hashlib.sha256(root.secret_access_key.encode()).digest()

    def is_root(self, headers: Mapping[str, str]) -> bool:
        """Return True if the request has the root's key by HTTP's Basic authentication."""
        return hmac.compare_digest(headers.get("authorization", ""), self._root.as_basic())

    def password(self, access_key_id: str, now: float) -> str:
        """Return a password of ECR for the holder of a key."""
        return self._signed(f"{access_key_id}.{int(now) + HOURS * 3600}")

    def token(self, registry: str, repository: str, login: str, now: float) -> str | None:
        """Return a token of another registry for one repository, or None for a wrong login. A token for a missing or
        private repository allows nothing, as on Docker Hub."""
        expected = str((ecr._repositories.get(repository) or {}).get(LOGIN, ""))
        if login and login != expected:
            return None
        is_allowed = repository in ecr._repositories and login == expected
        granted = repository if is_allowed else ""
        text = f"{registry}|{granted}|{int(now) + TOKEN_SECONDS}"
        return base64.urlsafe_b64encode(self._signed(text).encode()).decode()

    def refusal(
        self, registry: str, repository: str, part: str, headers: Mapping[str, str], *, pushes: bool
    ) -> Refusal | None:
        """Return why a request for a part of a repository (`manifests`, `blobs` or nothing) is refused, or None."""
        if self.is_root(headers):
            return None
        if names.ECR.fullmatch(registry):
            return self._refusal_of_ecr(registry, repository, part, headers, pushes)
        found = self._verified(_decoded(headers, "Bearer")).split("|")
        if found[:1] == [registry] and repository in ("", found[1]) and not pushes:
            return None
        realm = names.TOKENS_OF_DOCKER_HUB if registry == names.DOCKER_HUB else registry
        scope = f',scope="repository:{repository}:pull"' if repository else ""
        error = ',error="insufficient_scope"' if len(found) > 1 else ""
        challenge = f'Bearer realm="https://{realm}/token",service="{registry}"{scope}{error}'
        return Refusal(401, "UNAUTHORIZED", "authentication required", challenge)

    def _refusal_of_ecr(
        self, registry: str, repository: str, part: str, headers: Mapping[str, str], pushes: bool
    ) -> Refusal | None:
        user, _, password = _decoded(headers, "Basic").partition(":")
        key = self._verified(password).partition(".")[0] if user == USER else ""
        if not key:
            challenge = f'Basic realm="https://{registry}/",service="ecr.amazonaws.com"'
            return Refusal(401, "UNAUTHORIZED", "Not Authorized", challenge)
        account, region = names.scope_of(registry)
        arn = f"arn:aws:ecr:{region}:{account}:repository/{repository}"
        actions = (PUSH if pushes else PULL).get(part, ())
        denial = first_denial(key, "ecr", region, [Check(action, arn) for action in actions])
        if denial is None:
            return None
        message = f"User is not authorized to perform: {denial.check.action} on resource: {arn}"
        return Refusal(403, "DENIED", message)

    def _signed(self, text: str) -> str:
        return f"{text}.{hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()}"

    def _verified(self, signed: str) -> str:
        """Return the text of a valid password or token, or an empty text."""
        text, _, _ = signed.rpartition(".")
        expires = text.replace("|", ".").rpartition(".")[2]
        if not text or not hmac.compare_digest(self._signed(text), signed):
            return ""
        return text if expires.isdigit() and int(expires) > time.time() else ""


def basic(headers: Mapping[str, str]) -> str:
    """Return `user:password` of HTTP's Basic authentication, or an empty text."""
    return _decoded(headers, "Basic")


def _decoded(headers: Mapping[str, str], scheme: str) -> str:
    """Return the decoded credentials of a scheme."""
    found, _, value = headers.get("authorization", "").partition(" ")
    if found.lower() != scheme.lower():
        return ""
    try:
        return base64.b64decode(value, altchars=b"-_" if scheme == "Bearer" else None).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
