"""Values that every part of the local cloud receives when it is installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localcloud.base.settings import Settings
from localcloud.base.state import Store

ACCOUNT = "123456789012"
REGION = "us-east-1"


@dataclass(frozen=True)
class Context:
    """One local cloud: its state folder, port, store and settings.

    Each part is installed once with `install(context)`, before the first request. A part passes the state that must
    survive a restart to `context.store.keep(...)`. The `restore` functions run after all installs.
    """

    state: Path
    port: int
    store: Store
    settings: Settings
    account: str = ACCOUNT
    region: str = REGION

    @property
    def endpoint(self) -> str:
        """Return the endpoint's address in the server's own network namespace."""
        return f"http://127.0.0.1:{self.port}"
