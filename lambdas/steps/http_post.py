"""One POST to a server outside of AWS, which may be slow, hostile or internal."""

import http.client
import socket
import ssl
from collections.abc import Collection, Mapping

from trainyard.core.model import addresses
from trainyard.core.model.addresses import Network

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
MOST_READ = 1000
"""The most bytes of an error's body that are read."""


class RefusedError(Exception):
    """The request was not made, and a later one would not be made either."""


class NoAnswerError(Exception):
    """The server did not answer. A later request may succeed."""


def post(url: str, body: bytes, headers: Mapping[str, str], networks: Collection[Network]) -> tuple[int, str]:
    """Return the status, and the begin of the body of an error. Redirects are not followed. Raise RefusedError for an
    internal server outside of `networks`, and NoAnswerError."""
    parts = addresses.split_url(url)
    if isinstance(parts, str):
        raise RefusedError(parts)
    host = str(parts.hostname)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    known = _look_up(host, port)
    if why := addresses.find_refusal(parts.scheme, known, networks):
        raise RefusedError(why)
    connection = _Pinned(host, port, known, ssl.create_default_context() if parts.scheme == "https" else None)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        said = answer.read(MOST_READ).decode(errors="replace") if answer.status >= 400 else ""
    except TimeoutError as error:
        raise NoAnswerError(f"no answer within {ANSWER_SECONDS:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(f"no answer: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()
    return answer.status, said


def _look_up(host: str, port: int) -> list[str]:
    """Return the addresses of the server, IPv4 first, because functions have no IPv6."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise RefusedError("the name of its server is malformed") from error
    except OSError as error:
        raise NoAnswerError(
            f"the name of its server has no address ({error.strerror or type(error).__name__})"
        ) from error
    return sorted({str(each[4][0]) for each in found}, key=lambda each: (":" in each, each))


class _Pinned(http.client.HTTPConnection):
    """A connection to one of the checked addresses. Another look-up of the name could return an internal one."""

    def __init__(self, host: str, port: int, known: Collection[str], tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port, timeout=ANSWER_SECONDS)
        self._known, self._tls = known, tls
        self.default_port = 443 if tls else 80

    def connect(self) -> None:
        plain = self._reach()
        plain.settimeout(ANSWER_SECONDS)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host) if self._tls else plain

    def _reach(self) -> socket.socket:
        """Return a connection to the first address that takes one."""
        trouble = OSError("its server has no address")
        for address in self._known:
            try:
                return socket.create_connection((address, self.port), CONNECT_SECONDS)
            except OSError as error:
                trouble = error
        raise trouble
