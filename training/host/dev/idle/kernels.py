"""Read kernels and terminals from the Jupyter server of this host."""

import http.client
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from training.host.dev.idle.decision import Kernel, Terminal
from training.host.errors import HostTrouble

ANSWER_SECONDS = 10.0


class Server:
    """The Jupyter server at this address. Each start of the server writes a new token into the file."""

    def __init__(self, address: str, port: int, token: Path) -> None:
        self._address, self._port, self._token = address, port, token

    def look(self) -> tuple[tuple[Kernel, ...], tuple[Terminal, ...]]:
        """Return kernels and terminals, none if no server listens. Raises HostTrouble if a server listens but does not
        answer."""
        try:
            kernels, terminals = self._get("/api/kernels"), self._get("/api/terminals")
        except (FileNotFoundError, ConnectionRefusedError):
            return (), ()
        try:
            return tuple(map(_kernel, kernels)), tuple(map(_terminal, terminals))
        except (KeyError, TypeError, ValueError) as error:
            raise HostTrouble(f"Jupyter's list of kernels cannot be read: {error!r}") from error

    def _get(self, path: str) -> Any:
        headers = {"Authorization": f"token {self._token.read_text().strip()}"}
        connection = http.client.HTTPConnection(self._address, self._port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except ConnectionRefusedError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise HostTrouble(f"Jupyter does not answer GET {path}: {error!r}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise HostTrouble(f"Jupyter answers GET {path} with HTTP {answer.status}")
        return json.loads(body)


def _kernel(model: dict[str, Any]) -> Kernel:
    return Kernel(
        f"{model['name']} {model['id'][:8]}", model["execution_state"], _instant(model["last_activity"])
    )


def _terminal(model: dict[str, Any]) -> Terminal:
    """Return the terminal without its command, which is found through its pseudo-terminal."""
    return Terminal(f"Jupyter's terminal {model['name']}", _instant(model["last_activity"]))


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
