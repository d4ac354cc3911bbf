"""ministack's own stores among the kept parts, in ministack's own format, one part a service.

ministack writes them only at a clean shutdown; a killed server would lose everything since the start.
Object bodies are not among them: S3 writes those to `<state>/s3` at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localcloud.context import Context

ELSEWHERE = frozenset({"ec2"})
"""Services whose state lives in another library and is kept by its own part."""
TRIES = 5


def install(context: Context) -> None:
    """Keep every service of ministack's registry."""
    from ministack import app

    for key, module_name in app._state_map.items():
        if key not in ELSEWHERE:
            context.store.keep(
                f"ministack-{key}",
                partial(_save, module_name),
                partial(_restore, app._get_module, module_name),
            )


def _save(module_name: str) -> bytes | None:
    from ministack.core.persistence import _json_default

    module = sys.modules.get(f"ministack.services.{module_name}")
    get_state = getattr(module, "get_state", None)
    if get_state is None:
        return None
    for attempt in range(TRIES):
        try:
            return json.dumps(get_state(), default=_json_default).encode()
        except RuntimeError:  # a request changed a store while it was copied: copy again
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _restore(get_module: Callable[[str], ModuleType], module_name: str, content: bytes) -> None:
    from ministack.core.persistence import _json_object_hook

    state = json.loads(content, object_hook=_json_object_hook)
    if state:
        get_module(module_name).load_persisted_state(state)
