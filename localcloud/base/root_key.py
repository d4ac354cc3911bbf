"""The access key of the account's root: generated once for each state folder, readable by its user only."""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "root-key.json"
ID_BYTES = 10
"""Become the 16 characters after AKIA."""
SECRET_BYTES = 30
"""Become 40 characters, as on AWS."""


@dataclass(frozen=True)
class RootKey:
    """A pair as AWS writes it in its configuration files."""

    access_key_id: str
    secret_access_key: str

    def as_basic(self) -> str:
        """Return the pair as HTTP's Authorization header sends it: the admin interface asks for it."""
        pair = f"{self.access_key_id}:{self.secret_access_key}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"


def of(state: Path) -> RootKey:
    """Return the key of this state folder, and generate one if the folder has none yet."""
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
