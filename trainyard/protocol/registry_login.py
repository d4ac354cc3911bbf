"""The login that a registry of container images asks for in its first refusal, and the token that it then gives.

https://distribution.github.io/distribution/spec/auth/token/"""

import base64
import json
import re
from collections.abc import Mapping
from urllib.parse import urlencode, urljoin

from trainyard.values.lazy import dataclass

BEARER, BASIC = "bearer", "basic"
PARAMETER = re.compile(r'(\w+)="([^"]*)"')
SENT = ("service", "scope")
"""The parameters of the challenge that the request for a token repeats."""


class UnknownLoginError(ValueError):
    """The registry asks for a login of another kind, or sends no token. The message says which."""


@dataclass(frozen=True)
class Challenge:
    """The header WWW-Authenticate of a refusal."""

    scheme: str
    """In lower case: BEARER, BASIC, or another one."""
    parameters: Mapping[str, str]

    @classmethod
    def of(cls, header: str) -> "Challenge":
        scheme, _, rest = header.partition(" ")
        return cls(scheme.lower(), dict(PARAMETER.findall(rest)))

    def token_address(self, registry: str, repository: str) -> str:
        """Return the address that gives a token for pulls from a repository. `registry` is the address of the
        registry. Raise UnknownLoginError for an address without TLS: a password must not be sent there."""
        realm = urljoin(registry, self.parameters.get("realm", "/token"))
        if self.scheme != BEARER or (registry.startswith("https://") and not realm.startswith("https://")):
            raise UnknownLoginError(f"it asks for a login of an unknown kind ({self.scheme} {realm})")
        asked = {name: self.parameters[name] for name in SENT if self.parameters.get(name)}
        asked.setdefault("scope", f"repository:{repository}:pull")
        return f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}"


def write_basic(login: str) -> str:
    """Return the header Authorization of a login `user:password`; empty without one."""
    return f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""


def write_bearer(answer: bytes) -> str:
    """Return the header Authorization of a token, from the answer with it. Raise UnknownLoginError for another one."""
    try:
        found = json.loads(answer)
        return f"Bearer {found.get('token') or found['access_token']}"
    except (ValueError, AttributeError, KeyError) as error:
        raise UnknownLoginError("it gave no token") from error
