"""What the Jupyter server of this host tells of its kernels and terminals."""

import http.client
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from training.host.dev.idle.decision import Kernel, Terminal
from training.host.errors import HostTrouble

ANSWER_SECONDS = 10.0


class Server:
    """At that address, with the token in that file, which is made anew when it starts."""

    def __init__(self, address: str, port: int, token: Path) -> None:
        self._address, self._port, self._token = address, port, token

    def look(self) -> tuple[tuple[Kernel, ...], tuple[Terminal, ...]]:
        """Nothing where no server listens: it is not there, and has no kernels. Raises HostTrouble for one that
        listens and does not tell."""
        try:
            kernels, terminals = self._get("/api/kernels"), self._get("/api/terminals")
        except (FileNotFoundError, ConnectionRefusedError):
            return (), ()
        try:
            return tuple(map(_kernel, kernels)), tuple(map(_terminal, terminals))
        except (KeyError, TypeError, ValueError) as error:
            raise HostTrouble(f"Jupyter tells of its kernels what cannot be read: {error!r}") from error

    def _get(self, path: str) -> Any:
        headers = {"Authorization": f"token {self._token.read_text().strip()}"}
        connection = http.client.HTTPConnection(self._address, self._port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            said = answer.read()
        except ConnectionRefusedError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise HostTrouble(f"Jupyter does not answer GET {path}: {error!r}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise HostTrouble(f"Jupyter answers GET {path} with HTTP {answer.status}")
        return json.loads(said)


def _kernel(told: dict[str, Any]) -> Kernel:
    return Kernel(
        f"{told['name']} {told['id'][:8]}", told["execution_state"], _instant(told["last_activity"])
    )


def _terminal(told: dict[str, Any]) -> Terminal:
    """What runs there is seen in its pseudo-terminal."""
    return Terminal(f"Jupyter's terminal {told['name']}", _instant(told["last_activity"]))


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
