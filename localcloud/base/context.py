"""What every part of the local cloud is given when it is installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localcloud.base.settings import Settings
from localcloud.base.state import Store

ACCOUNT = "123456789012"
REGION = "us-east-1"


@dataclass(frozen=True)
class Context:
    """One local cloud: where it keeps things, and what it knows.

    A part is installed with `install(context)`, once, before the first request. What it wants to find again
    after a restart it hands to `context.store.keep(...)` there; `restore` functions run after all installs.
    """

    state: Path
    port: int
    store: Store
    settings: Settings
    account: str = ACCOUNT
    region: str = REGION

    @property
    def endpoint(self) -> str:
        """Where a process in the server's own namespace finds the endpoint."""
        return f"http://127.0.0.1:{self.port}"
