"""JupyterLab of a dev host on this computer, through a forwarded port."""

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
from trainyard.client.sessions.link import OnStep
from trainyard.command_line import command_line

UNIT = "trainyard-jupyter"
LOG = "/var/log/trainyard/jupyter.log"
SERVES_SECONDS = 60
"""The longest wait in seconds for JupyterLab once its host is reachable."""
CONNECT_SECONDS = 180.0
"""The longest wait in seconds for a booting host."""
RETRY_SECONDS = 2.0
LINES_SAID = 6


@dataclass(frozen=True)
class Jupyter:
    """The port and the token of JupyterLab on the host."""

    port: int
    token: str

    def address(self, local: int) -> str:
        """Return the address for a browser on this computer. It contains the token, which gives access."""
        return f"http://{forward.LOOPBACK}:{local}/lab?token={self.token}"


def find(yard: Deployment, name: str, on_step: OnStep) -> tuple[DevHost, Jupyter]:
    """Wait until JupyterLab serves, and for a host that boots. Raise JupyterNotThere, HostNotFound, HostNotConnected or
    Denied."""
    ends = time.monotonic() + CONNECT_SECONDS
    told = False
    while True:
        host = hosts.find(yard, name)
        if host.state != "pending":
            hosts.running(yard, name)
            try:
                return host, request_jupyter(yard, host, on_step)
            except HostNotConnected:
                if time.monotonic() >= ends:
                    raise
        if not told:
            on_step(f"{name} ({host.instance}) boots; waiting until it can be reached")
            told = True
        time.sleep(RETRY_SECONDS)


def hold(yard: Deployment, name: str, local: int, ready: Callable[[str], None], on_step: OnStep) -> None:
    """Forward JupyterLab to the port `local` of this computer's loopback interface (0 for any free port) until a signal
    ends the process.

    A session that ends is followed by another one, on the current host of the name. `ready` is called with each new
    address, `on_step` with sentences for the user. Raise NotHere if the port is in use, and the errors of `find`.
    """
    _check_free(local)
    host, found = find(yard, name, on_step)
    port, said = local, ""

    def opened(at: int) -> None:
        nonlocal port, said
        port = at
        if found.address(at) != said:
            said = found.address(at)
            ready(said)

    while True:
        watch = Watch(yard, host, on_step)
        try:
            forward.run(yard, host.instance, found.port, port, opened, watch.heard)
        except SessionOver as over:
            on_step(f"{over.what} ({over.means}); beginning another")
        host, found = _find_again(yard, name, on_step)


def _check_free(port: int) -> None:
    """Raise NotHere at once if the port is in use."""
    try:
        forward.listen(port).close()
    except NotHere as taken:
        raise NotHere(taken.what, taken.means, "repeat this with --port 0 for any free port") from taken


class Watch:
    """The messages of the forward. If nothing answers, the reason is looked up on the host."""

    def __init__(self, yard: Deployment, host: DevHost, on_step: OnStep) -> None:
        self._yard, self._host, self._on_step = yard, host, on_step
        self._looking = threading.Lock()

    def heard(self, sentence: str) -> None:
        if not sentence.startswith("nothing answers"):
            self._on_step(sentence)
        elif self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        try:
            self._on_step("JupyterLab does not answer; its host starts it again")
            request_jupyter(self._yard, self._host, _silent)
            self._on_step("JupyterLab serves again")
        except YardError as error:
            self._on_step(str(error))
        finally:
            self._looking.release()


def request_jupyter(yard: Deployment, host: DevHost, on_step: OnStep) -> Jupyter:
    """Ask the host for its JupyterLab, which may take a while to start. Raise JupyterNotThere, HostNotConnected or
    Denied."""
    line = f"trainyard jupyter --wait {SERVES_SECONDS}"
    code, said = shell.run_line(yard, host.instance, line, on_step)
    try:
        found = json.loads(said)
        way, log = str(found["way"]), str(found["log"])
        if way == "serves":
            return Jupyter(int(found["port"]), str(found["token"]))
    except (ValueError, KeyError, TypeError) as error:
        raise JupyterNotThere(
            f"{host.name} does not report the state of JupyterLab",
            f"its image was made by an older yard or outside of it ({said.strip()[-200:] or f'exit code {code}'})",
            f"{command_line('image', 'bake')}, then {hosts.up_line('ANOTHER-NAME')}",
        ) from error
    raise not_there(host.name, way, log)


def not_there(name: str, way: str, log: str) -> JupyterNotThere:
    """Return the error for a host's answer. `way` is a state of training.host.dev.jupyter."""
    last = " / ".join(line.strip() for line in log.splitlines()[-LINES_SAID:] if line.strip())
    again = f"sudo systemctl reset-failed {UNIT}; sudo systemctl start {UNIT}"
    start = command_line("dev", "shell", name, "--", again)
    bake = command_line("image", "bake", "--force")
    match way:
        case "absent":
            return JupyterNotThere(
                f"the image of {name} has no JupyterLab",
                "it was baked on a local cloud before `make jupyter`, or its base image has JUPYTER=none",
                f"make jupyter (or fix the base image), {bake}, then {hosts.up_line('ANOTHER-NAME')}",
            )
        case "idle":
            return JupyterNotThere(
                f"JupyterLab does not run on {name}",
                "a user has stopped it, or its agent has not started",
                start,
            )
        case "failed":
            return JupyterNotThere(
                f"JupyterLab of {name} ends each time it is started",
                f"the end of its log, {LOG}: {last or '(empty)'}",
                f"fix the reason in the log, then {start}",
            )
    return JupyterNotThere(
        f"JupyterLab of {name} does not answer after {SERVES_SECONDS} s",
        f"the end of its log, {LOG}: {last or '(empty)'}",
        f"repeat this, or {command_line('dev', 'shell', name, '--', 'cat', LOG)}",
    )


def _find_again(yard: Deployment, name: str, on_step: OnStep) -> tuple[DevHost, Jupyter]:
    """Find JupyterLab again, also after an interruption of the network."""
    while True:
        try:
            return find(yard, name, on_step)
        except NoAnswer:
            time.sleep(RETRY_SECONDS)


def _silent(sentence: str) -> None:
    """Ignore progress."""
