"""The code archives of functions, and the folders with their unpacked files."""

from __future__ import annotations

import functools
import hashlib
import io
import secrets
import shutil
import threading
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

ARCHIVES = 128
"""Size of the hash cache. A yard has fewer archives, so each is hashed once."""


def archives_of_functions() -> Iterator[bytes]:
    """Yield the code of every function and version, and their layers."""
    from ministack.core.responses import request_scope
    from ministack.services import lambda_svc

    for (account, region, _), function in lambda_svc._functions.all_items():
        with request_scope(account, region):
            for each in (function, *list((function.get("versions") or {}).values())):
                yield from filter(None, (each.get("code_zip"), *layers_of(each["config"])))


def layers_of(config: Mapping[str, Any]) -> list[bytes]:
    from ministack.services import lambda_svc

    return [lambda_svc._resolve_layer_zip(layer) for layer in config.get("Layers") or []]


class Unpacked:
    """Unpacked archives. Each is unpacked once for all processes, which keeps cold starts fast."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._used: weakref.WeakKeyDictionary[Any, list[Path]] = weakref.WeakKeyDictionary()
        self._digest = functools.lru_cache(ARCHIVES)(lambda archive: hashlib.sha256(archive).hexdigest()[:32])

    def folders(self, user: object, archives: Iterable[bytes]) -> list[Path]:
        """Return a folder with the files of each archive, with their packed permissions.

        The folders stay while `user` exists, which is ministack's object for a process.
        """
        with self._lock:
            self._used[user] = [self._unpack(archive) for archive in archives]
            return self._used[user]

    def keep_only(self, archives: Iterable[bytes]) -> None:
        """Remove all other folders that are not in use, such as leftovers of a killed server."""
        kept = {self._digest(archive) for archive in archives}
        with self._lock:
            kept.update(folder.name for folders in self._used.values() for folder in folders)
            for folder in self._home.glob("*"):
                if folder.name not in kept:
                    shutil.rmtree(folder.rename(self._home / secrets.token_hex(8)))

    def _unpack(self, archive: bytes) -> Path:
        folder = self._home / self._digest(archive)
        if folder.exists():
            return folder
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            packed.extractall(new)
            for entry in packed.infolist():
                if mode := entry.external_attr >> 16 & 0o777:
                    (new / entry.filename).chmod(mode | 0o600)
        return new.rename(folder)
