"""ministack's stores as parts of the saved state, one for each service, in ministack's format.

ministack itself writes them only at a clean shutdown, so a killed server would lose everything since its start. Object
bodies are not included: S3 writes them to `<state>/s3` at once.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ministack import app
from ministack.core.persistence import _json_default, _json_object_hook
from ministack.services import cloudformation, sts

from localcloud.base.context import Context
from localcloud.patches import MINISTACK
from localcloud.server.refusals import Answer, Handler

NOT_IN_MINISTACK = frozenset({"ec2"})
"""Services with state in another library, which their own part saves."""
TRIES = 5
LARGE = 64 * 1024
"""Values from this size in bytes on get their own file, so that code and layers are not written again and again."""
BLOB = "__blob__"
LARGE_STORES = ("cloudformation", "cloudwatch", "cloudwatch_logs", "dynamodb", "stepfunctions")
"""Services with large stores. Their `get_state` copies the whole store, which is most of the work of a save."""
NAMED = re.compile(rf'"{BLOB}": "(\w+)"')
"""Reference to a blob file in a saved part."""


_thread = threading.local()


class Copying:
    """Replacement for `copy` in LARGE_STORES.

    During a save it skips the copy, because the state is serialized at once.
    """

    copy = staticmethod(copy.copy)

    @staticmethod
    def deepcopy(value: Any, memo: dict[int, Any] | None = None) -> Any:
        return value if getattr(_thread, "is_saving", False) else copy.deepcopy(value, memo)


def install(context: Context) -> None:
    """Save the state of every service in ministack's registry."""
    for service in LARGE_STORES:
        MINISTACK.replace(f"services.{service}:copy", Copying)
    remove_replaced(context.state / "blobs", context.store.folder)
    stacks = Stacks(MINISTACK.stock("app:SERVICE_HANDLERS")[Stacks.SERVICE])
    MINISTACK.extend("app:SERVICE_HANDLERS", {Stacks.SERVICE: stacks.handle})
    for key, module_name in app._state_map.items():
        if key not in NOT_IN_MINISTACK:
            blobs = Blobs(context.state / "blobs")
            save = partial(_save, module_name, blobs)
            restore = partial(_restore, app._get_module, module_name, blobs)
            may_differ = {"may_differ": stacks.may_differ} if key == Stacks.SERVICE else {}
            context.store.keep(f"ministack-{key}", save, restore, **may_differ)
    context.store.keep("sessions", _save_sessions, _restore_sessions)


class Stacks:
    """Detects whether CloudFormation's store may have changed.

    It is two thirds of all state and changes only in deployments.
    """

    SERVICE = "cloudformation"

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._was_asked = True
        self._was_under_way = False

    async def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
    ) -> Answer:
        try:
            return await self._handler(method, path, headers, body, query)
        finally:
            self._was_asked = True

    def may_differ(self) -> bool:
        """Return True if a request came, or a stack was in progress, since the last call."""
        # reset before the check: later requests belong to the next call
        was_asked, self._was_asked = self._was_asked, False
        under_way = any(
            stack["StackStatus"].endswith("_IN_PROGRESS")
            for stack in list(cloudformation._stacks._data.values())
        )
        was_under_way, self._was_under_way = self._was_under_way, under_way
        return was_asked or was_under_way or under_way


def remove_replaced(blobs: Path, kept: Path) -> None:
    """Remove blobs that no saved part references, such as replaced function code.

    Call this at the start only: while the server runs, the saved parts may still reference replaced blobs.
    """
    named = {
        name for part in kept.glob("*.kept") for name in NAMED.findall(part.read_bytes().decode("latin-1"))
    }
    for file in blobs.glob("*"):
        if file.name not in named:
            file.unlink()


class Blobs:
    """Large values of one service, each in a file named by its hash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[int, tuple[bytes, str]] = {}
        self._put: dict[int, tuple[bytes, str]] = {}

    def put(self, content: bytes) -> str:
        """Store the content and return its name. Objects from the last save are not hashed again."""
        known = self._put.get(id(content)) or self._known.get(id(content))
        if known is None:
            known = content, self._write(content)
        self._put[id(content)] = known
        return known[1]

    def end_save(self) -> None:
        """Drop references to content that was not part of this save."""
        self._known, self._put = self._put, {}

    def _write(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        path = self._folder / name
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            new = path.with_suffix(".new")
            new.write_bytes(content)
            new.replace(path)
        return name

    def get(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()


def _save(module_name: str, blobs: Blobs) -> bytes | None:
    def as_json(value: Any) -> Any:
        if isinstance(value, bytes) and len(value) >= LARGE:
            return {BLOB: blobs.put(value)}
        return _json_default(value)

    module = sys.modules.get(f"ministack.services.{module_name}")
    get_state = getattr(module, "get_state", None)
    if get_state is None:
        return None
    _thread.is_saving = True
    try:
        for attempt in range(TRIES):
            try:
                saved = json.dumps(get_state(), default=as_json).encode()
                blobs.end_save()
                return saved
            except RuntimeError:  # a request changed the store during the copy: try again
                if attempt == TRIES - 1:
                    raise
    finally:
        _thread.is_saving = False
    raise AssertionError("unreachable")


def _save_sessions() -> bytes | None:
    """Save temporary credentials, which ministack forgets. As on AWS, they stay valid after a restart."""
    return json.dumps(dict(sts._sessions), default=_json_default).encode()


def _restore_sessions(content: bytes) -> None:
    """Restore sessions with an end time. Sessions without one belonged to functions and the root of the last server."""
    kept = {key: session for key, session in json.loads(content).items() if session.get("Expiration")}
    sts._sessions.update(kept)


def _restore(get_module: Callable[[str], ModuleType], module_name: str, blobs: Blobs, content: bytes) -> None:
    def from_json(found: dict[str, Any]) -> Any:
        return blobs.get(found[BLOB]) if BLOB in found else _json_object_hook(found)

    state = json.loads(content, object_hook=from_json)
    if state:
        get_module(module_name).load_persisted_state(state)
