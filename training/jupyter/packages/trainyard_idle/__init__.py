"""What JupyterLab of a dev host says before patrol takes the host for idle: the server's half.

The host's agent writes when that is (training/host/dev/idle/watch.py); the page asks here, and its one key holds the
host as `trainyard hold 2h` does in a terminal. The page's half is share/jupyter/labextensions/trainyard-idle.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado.web import authenticated
from traitlets import Unicode
from traitlets.config import Configurable

HOLD = "2h"
STALE = timedelta(minutes=4)
"""An agent that has not written for so long knows nothing any more: it looks once a minute."""
NO_COMMAND = 127


def left(outlook: Mapping[str, Any], now: datetime, *, kept: datetime | None = None) -> int | None:
    """Seconds until the host is taken for idle at the earliest, 0 once it may be at any time; None while nobody is to
    be warned. `kept`: when it was held from here, of which the agent knows once it has looked again."""
    if not outlook.get("ends"):
        return None
    at = datetime.fromisoformat(outlook["at"])
    if now - at > STALE or (kept and at <= kept):
        return None
    return max(0, round((datetime.fromisoformat(outlook["ends"]) - now).total_seconds()))


class IdleWarning(Configurable):
    """What is said, and what the key does."""

    outlook = Unicode("/run/trainyard/idle.json", help="What the host's agent writes.").tag(config=True)
    command = Unicode("/usr/local/bin/trainyard", help="The host's command, which holds it.").tag(config=True)
    kept: datetime | None = None

    def left(self, now: datetime) -> int | None:
        """See the function. None as well where no agent has looked yet."""
        path = Path(self.outlook)
        return left(json.loads(path.read_text()), now, kept=self.kept) if path.exists() else None

    async def keep(self) -> tuple[int, str]:
        """Of `trainyard hold 2h` the exit code, and what it says."""
        try:
            process = await asyncio.create_subprocess_exec(
                self.command, "hold", HOLD, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
        except FileNotFoundError:
            return NO_COMMAND, f"there is no {self.command} here: this is no host of a yard"
        output, _ = await process.communicate()
        if process.returncode == 0:
            self.kept = datetime.now(UTC)
        return process.returncode or 0, output.decode(errors="replace").strip()


class Handler(APIHandler):
    def initialize(self, warning: IdleWarning) -> None:
        self.warning = warning


class Idle(Handler):
    """GET: `left`, in seconds or null."""

    @authenticated
    async def get(self) -> None:
        await self.finish({"left": self.warning.left(datetime.now(UTC))})


class Hold(Handler):
    """POST: the host is held. 502 with what the command says where it is not."""

    @authenticated
    async def post(self) -> None:
        code, said = await self.warning.keep()
        self.set_status(502 if code else 200)
        await self.finish({"message": said})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "trainyard_idle"}]


def _load_jupyter_server_extension(server: Any) -> None:
    above, given = server.web_app.settings["base_url"], {"warning": IdleWarning(parent=server)}
    handlers = [
        (url_path_join(above, "trainyard", path), each, given)
        for path, each in (("idle", Idle), ("hold", Hold))
    ]
    server.web_app.add_handlers(".*$", handlers)
