"""Requests to the running server of a state folder."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from localcloud.base import root_key
from localcloud.base.root_key import RootKey
from localcloud.cli.state import existing_state, fail, port_of

Json = dict[str, Any]


def ask(state: Path, method: str, path: str, body: Json | None = None) -> Json:
    port = port_of(state)
    try:
        return request(port, root_key.load_key(existing_state(state)), method, path, body, seconds=30)
    except urllib.error.HTTPError as refusal:
        answer = json.loads(refusal.read() or b"{}")
        fail(str(answer.get("error", refusal)))
    except OSError as error:
        fail(f"The local cloud does not answer on port {port}: {error}. `down` and `up` again.")


def request(port: int, root: RootKey, method: str, path: str, body: Json | None, seconds: float) -> Json:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/_localcloud{path}",
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": root.as_basic()},
        method=method,
    )
    # A proxy from the environment cannot reach this machine's loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=seconds) as reply:
        answer: Json = json.load(reply)
        return answer
