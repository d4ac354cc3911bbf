"""The access key of the account's root: generated once for each state folder, and readable only by its user."""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "root-key.json"
ID_BYTES = 10
"""Encode to the 16 characters after AKIA."""
SECRET_BYTES = 30
"""Encode to 40 characters, as on AWS."""


@dataclass(frozen=True)
class RootKey:
    """An access key pair."""

    access_key_id: str
    secret_access_key: str

    def as_basic(self) -> str:
        """Return the pair as an HTTP Authorization header, as the admin interface requires."""
        pair = f"{self.access_key_id}:{self.secret_access_key}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"


def load_key(state: Path) -> RootKey:
    """Return the key of this state folder. Generate it at the first call."""
    path = state / FILE
    try:
        return RootKey(**json.loads(path.read_text()))
    except FileNotFoundError:
        key = _generate()
    new = path.with_suffix(f".{secrets.token_hex(8)}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(key), file)
    new.replace(path)
    return key


def _generate() -> RootKey:
    identifier = base64.b32encode(secrets.token_bytes(ID_BYTES)).decode()
    return RootKey(f"AKIA{identifier}", base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())
