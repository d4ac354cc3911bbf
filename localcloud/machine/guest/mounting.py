"""Mounts on a host: the server mounts what init asks for, because a host's root lacks CAP_SYS_ADMIN.

`umount` on a host is `main`. The shims of mount commands call `request_mount`.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys

from localcloud.machine.guest.systemctl import leave, send_request

USAGE = "umount: the local cloud supports only `umount [--lazy] [--force] PATH...`"


class MountRefused(Exception):  # noqa: N818 - `raise MountRefused(why)` is the sentence
    """The server did not mount. The text tells why."""


SILENT = "silent"
"""The text of the server for a file system that does not answer."""


def request_mount(
    kind: str, target: str, *, source: str = "", read_only: bool = False, **more: str
) -> int | None:
    """Mount at the folder `target` of this host. Return the descriptor of the file system's server if `kind` is `fuse`.

    `fuse`: a file system whose server is this process, or the one that it hands the descriptor to. `bind`: the folder
    `source` of the local cloud's state. `file-system`: the folder of a file system of EFS or FSx, which `more` names.
    Raise MountRefused with the reason.
    """
    request = {
        "verb": "mount",
        "kind": kind,
        "source": source,
        "target": os.path.realpath(target),
        "read_only": read_only,
        **more,
    }
    with socket.socket(socket.AF_UNIX) as init:
        init.connect("/run/localcloud/init.sock")
        init.sendall(json.dumps(request).encode() + b"\n")
        answer, files = _receive(init)
    if not answer:
        raise MountRefused("the host goes down")
    reply = json.loads(answer)
    if reply["code"]:
        raise MountRefused(reply["text"])
    return files[0] if files else None


def _receive(init: socket.socket) -> tuple[bytes, list[int]]:
    """Return the whole answer and its descriptors."""
    answer, files = b"", array.array("i")
    while not answer.endswith(b"\n"):
        data, received, _, _ = socket.recv_fds(init, 1 << 16, 4)
        files.extend(received)
        if not data:
            break
        answer += data
    return answer, list(files)


def main() -> None:
    """Entry point of `umount`. sys.argv holds the command's name and arguments."""
    known = ("-l", "--lazy", "-f", "--force")
    paths = [word for word in sys.argv[2:] if word not in known]
    if not paths or any(path.startswith("-") for path in paths):
        leave(1, USAGE)
    for path in paths:
        code, text = send_request(verb="umount", target=os.path.abspath(path))  # noqa: PTH100 - a dead mount has no links to resolve
        if code:
            leave(code, f"umount: {path}: {text}")
