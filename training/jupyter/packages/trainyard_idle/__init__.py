"""The server's part of the warning in JupyterLab before patrol finds a dev host idle.

The host's agent writes that time to a file (training/host/dev/idle/watch.py). The page asks this extension for it, and
its button holds the host like `trainyard hold 2h` in a terminal. The page's part is
share/jupyter/labextensions/trainyard-idle.
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
"""A file of this age is ignored: the agent writes it once a minute."""
NO_COMMAND = 127


def seconds_left(outlook: Mapping[str, Any], now: datetime, *, kept: datetime | None = None) -> int | None:
    """Return the seconds until patrol may find the host idle: 0 if it may at any time, None without a warning.
    `kept` is the time when this extension held the host. The agent's file shows a hold only after the next look."""
    if not outlook.get("ends"):
        return None
    at = datetime.fromisoformat(outlook["at"])
    if now - at > STALE or (kept and at <= kept):
        return None
    return max(0, round((datetime.fromisoformat(outlook["ends"]) - now).total_seconds()))


class IdleWarning(Configurable):
    """The warning, and the action of its button."""

    outlook = Unicode("/run/trainyard/idle.json", help="File that the host's agent writes.").tag(config=True)
    command = Unicode("/usr/local/bin/trainyard", help="Command that holds the host.").tag(config=True)
    kept: datetime | None = None

    def left(self, now: datetime) -> int | None:
        """Return `seconds_left`, or None before the agent has written its file."""
        path = Path(self.outlook)
        return seconds_left(json.loads(path.read_text()), now, kept=self.kept) if path.exists() else None

    async def keep(self) -> tuple[int, str]:
        """Run `trainyard hold 2h`. Return its exit code and output."""
        try:
            process = await asyncio.create_subprocess_exec(
                self.command, "hold", HOLD, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
        except FileNotFoundError:
            return NO_COMMAND, f"there is no {self.command} here: this is not a host of a yard"
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
    """POST: hold the host. 502 with the command's output if that fails."""

    @authenticated
    async def post(self) -> None:
        code, output = await self.warning.keep()
        self.set_status(502 if code else 200)
        await self.finish({"message": output})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "trainyard_idle"}]


def _load_jupyter_server_extension(server: Any) -> None:
    above, given = server.web_app.settings["base_url"], {"warning": IdleWarning(parent=server)}
    handlers = [
        (url_path_join(above, "trainyard", path), each, given)
        for path, each in (("idle", Idle), ("hold", Hold))
    ]
    server.web_app.add_handlers(".*$", handlers)
