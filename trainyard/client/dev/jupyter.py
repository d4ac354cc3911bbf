"""JupyterLab of a dev host on this computer: by a forward of its port, for as long as it is wanted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from trainyard.client.deployment import Deployment
from trainyard.client.dev import hosts
from trainyard.client.dev.hosts import DevHost
from trainyard.client.errors import (
    HostNotConnected,
    JupyterNotThere,
    NoAnswer,
    NotHere,
    SessionOver,
    YardError,
)
from trainyard.client.sessions import forward, shell
from trainyard.client.sessions.link import Tell
from trainyard.command_line import command_line

UNIT = "trainyard-jupyter"
LOG = "/var/log/trainyard/jupyter.log"
SERVES_SECONDS = 60
"""In which it serves once its host can be reached."""
REACHED_SECONDS = 180.0
"""In which a host that boots can be reached."""
AGAIN_SECONDS = 2.0
LINES_SAID = 6


@dataclass(frozen=True)
class Jupyter:
    """Where it serves on the host, and what it asks for."""

    port: int
    token: str

    def address(self, local: int) -> str:
        """To be opened in a browser here: whoever has it is in."""
        return f"http://{forward.LOOPBACK}:{local}/lab?token={self.token}"


def find(yard: Deployment, name: str, tell: Tell) -> tuple[DevHost, Jupyter]:
    """As soon as it serves. A host that boots is waited for. Raises JupyterNotThere, HostNotFound, HostNotConnected,
    Denied."""
    ends = time.monotonic() + REACHED_SECONDS
    told = False
    while True:
        host = hosts.find(yard, name)
        if host.state != "pending":
            hosts.running(yard, name)
            try:
                return host, ask(yard, host, tell)
            except HostNotConnected:
                if time.monotonic() >= ends:
                    raise
        if not told:
            tell(f"{name} ({host.instance}) boots; waiting until it can be reached")
            told = True
        time.sleep(AGAIN_SECONDS)


def hold(yard: Deployment, name: str, local: int, ready: Callable[[str], None], tell: Tell) -> None:
    """Hold a way to it from `local` (0: any port that is free) of this computer's loopback, until a signal ends this.
    A session that is over is followed by another, on the host that has the name by then. `ready` is given the address
    whenever it is another one than before; `tell` sentences for the person. Raises NotHere where the port is taken
    here, and what `find` raises."""
    _check_free(local)
    host, found = find(yard, name, tell)
    port, said = local, ""

    def opened(at: int) -> None:
        nonlocal port, said
        port = at
        if found.address(at) != said:
            said = found.address(at)
            ready(said)

    while True:
        watch = Watch(yard, host, tell)
        try:
            forward.run(yard, host.instance, found.port, port, opened, watch.heard)
        except SessionOver as over:
            tell(f"{over.what} ({over.means}); beginning another")
        host, found = _find_again(yard, name, tell)


def _check_free(port: int) -> None:
    """Before anybody waits. Raises NotHere."""
    try:
        forward.listen(port).close()
    except NotHere as taken:
        raise NotHere(taken.what, taken.means, "the same with --port 0, for any that is free") from taken


class Watch:
    """What the forward says, and why nothing answers, where it says that."""

    def __init__(self, yard: Deployment, host: DevHost, tell: Tell) -> None:
        self._yard, self._host, self._tell = yard, host, tell
        self._looking = threading.Lock()

    def heard(self, sentence: str) -> None:
        if not sentence.startswith("nothing answers"):
            self._tell(sentence)
        elif self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        try:
            self._tell("JupyterLab does not answer; its host starts it again")
            ask(self._yard, self._host, _silent)
            self._tell("JupyterLab serves again")
        except YardError as error:
            self._tell(str(error))
        finally:
            self._looking.release()


def ask(yard: Deployment, host: DevHost, tell: Tell) -> Jupyter:
    """Of the host itself, which waits a while for it. Raises JupyterNotThere, HostNotConnected, Denied."""
    line = f"trainyard jupyter --wait {SERVES_SECONDS}"
    code, said = shell.ask(yard, host.instance, line, tell)
    try:
        found = json.loads(said)
        way, log = str(found["way"]), str(found["log"])
        if way == "serves":
            return Jupyter(int(found["port"]), str(found["token"]))
    except (ValueError, KeyError, TypeError) as error:
        raise JupyterNotThere(
            f"{host.name} does not say how its JupyterLab is",
            f"its image is of an older yard, or is none of the yard's ({said.strip()[-200:] or f'exit code {code}'})",
            f"{command_line('image', 'bake')}, then {hosts.up_line('ANOTHER-NAME')}",
        ) from error
    raise not_there(host.name, way, log)


def not_there(name: str, way: str, log: str) -> JupyterNotThere:
    """Of what the host of that name has said: `way` is training.host.dev.jupyter's."""
    last = " / ".join(line.strip() for line in log.splitlines()[-LINES_SAID:] if line.strip())
    again = f"sudo systemctl reset-failed {UNIT}; sudo systemctl start {UNIT}"
    start = command_line("dev", "shell", name, "--", again)
    bake = command_line("image", "bake", "--force")
    match way:
        case "absent":
            return JupyterNotThere(
                f"the image of {name} has no JupyterLab",
                "it was baked on a local cloud before `make jupyter`, or its base image says JUPYTER=none",
                f"make jupyter (or mend the base image), {bake}, then {hosts.up_line('ANOTHER-NAME')}",
            )
        case "idle":
            return JupyterNotThere(
                f"JupyterLab does not run on {name}",
                "somebody has stopped it, or its agent has not come up",
                start,
            )
        case "failed":
            return JupyterNotThere(
                f"JupyterLab of {name} ends whenever it is started",
                f"the end of its log, {LOG}: {last or '(empty)'}",
                f"mend what it says, then {start}",
            )
    return JupyterNotThere(
        f"JupyterLab of {name} does not answer after {SERVES_SECONDS} s",
        f"the end of its log, {LOG}: {last or '(empty)'}",
        f"this again, or {command_line('dev', 'shell', name, '--', 'cat', LOG)}",
    )


def _find_again(yard: Deployment, name: str, tell: Tell) -> tuple[DevHost, Jupyter]:
    """Also after a while without a network."""
    while True:
        try:
            return find(yard, name, tell)
        except NoAnswer:
            time.sleep(AGAIN_SECONDS)


def _silent(sentence: str) -> None:
    """Nobody is to hear that."""
