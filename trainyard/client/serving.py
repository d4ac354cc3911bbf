"""Served hosts: start the run that serves a version, wait until it answers, and reach its ports."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from trainyard.client.errors import HostNeeded, HostNotConnected, NotPredicted, NotServed, SessionOver
from trainyard.client.predictions import NO_ANSWER, Prediction, next_step, read_answer, send
from trainyard.client.run import Run
from trainyard.client.sessions import forward
from trainyard.client.sessions.assumed import assume
from trainyard.client.sessions.link import Link
from trainyard.command_line import command_line
from trainyard.protocol.ledger.models import DEFAULT, ServedRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.predictions import path_of
from trainyard.protocol.serving import REST_PORT, ServeHow, document_of

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment
    from trainyard.protocol.ledger.models import ModelRows


class Model(Protocol):
    """A model of a yard (registry.Model)."""

    @property
    def yard(self) -> Deployment: ...
    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> ModelRows: ...
    def request_host(self, version: str | None, how: ServeHow | None) -> dict[str, Any]: ...


OnStep = Callable[[str], None]
"""Called with a sentence for each step."""
LOOK_SECONDS = 1.0
CONNECT_SECONDS = 120.0
"""The longest wait in seconds until Systems Manager lists a host that serves."""
ANSWER_SECONDS = 600.0
"""The longest wait in seconds for the answer to one request."""
MOST_WAKES = 3
"""The most hosts that one request waits for. A host may end between two looks."""


@dataclass(frozen=True)
class ServedHost:
    """A host that serves a version."""

    model: str
    version: int
    run: str
    instance: str


def predict(
    model: Model,
    document: Mapping[str, Any],
    version: str | None = None,
    on_step: OnStep = lambda _: None,
    *,
    key: str | None = None,
    explain: bool = False,
) -> Prediction:
    """Ask the function for predictions or, for a version that only TensorFlow runs, the version's host. If a host has
    served the version before, start it again and wait for it. Raise NotPredicted."""
    try:
        return send(model.yard, model.name, document, version, key=key, explain=explain)
    except HostNeeded as needed:
        row = model.rows.served_as(needed.version)
        if row is None:
            raise
        return _ask_host(model, row, document, on_step)


def start(
    model: Model, version: str | None = None, how: ServeHow | None = None, on_step: OnStep = lambda _: None
) -> ServedHost:
    """Start a host for the version, unless one serves it, and wait until it answers. `how` is None for a host as at its
    last start. Raise ModelNotChanged or NotServed."""
    answer = model.request_host(version, how)
    on_step(answer["reason"])
    number = int(str(answer["new"]).split(" ", 1)[0])
    return wait(model.yard, model.name, number, str(answer["run"]), on_step)


def wait(yard: Deployment, model: str, number: int, run: str, on_step: OnStep) -> ServedHost:
    """Wait until the run has answered its golden rows. Raise NotServed if it ends before."""
    told, found = 0, _run(yard, run)
    while True:
        row = yard.row(run)
        events = found.timeline
        for event in events[told:]:
            on_step(event.reason or event.event)
        told = len(events)
        if row is None:
            _check_begun(found, model, number)
        elif row.ended:
            raise _ended(found, model, number)
        elif is_ready(row) and (instance := find_instance(yard, run)):
            return ServedHost(model, number, run, instance)
        time.sleep(LOOK_SECONDS)


def is_ready(row: RunRow) -> bool:
    """Return True once the program of the present attempt has answered the golden rows: it reports a step then."""
    progress = row.progress or {}
    return bool(progress.get("step")) and int(progress.get("attempt", 0)) == row.attempt


def find_instance(yard: Deployment, run: str) -> str | None:
    """Return the running host of the run."""
    running = (each for each in yard.instances(run) if each["State"]["Name"] == "running")
    return next((str(each["InstanceId"]) for each in running), None)


def find(model: Model, version: str | None = None) -> ServedHost:
    """Return the host that serves the version now; without a version, the default one or the only served one. Raise
    NotServed."""
    rows, yard = model.rows, model.yard
    word = version or str(rows.row.aliases.get(DEFAULT, ""))
    wanted = rows.find(word) if word else None
    if version is None and (wanted is None or rows.served_as(wanted.number) is None) and rows.served:
        wanted = rows.find(str(max(rows.served, key=lambda each: each.at).number))
    row = rows.served_as(wanted.number) if wanted else None
    run = yard.row(row.run) if row else None
    if row is None or (run and run.ended):
        shown = f"version {wanted.shown} of {model.name}" if wanted else f"{model.name} {word}".rstrip()
        raise NotServed(
            f"no host serves {shown}",
            f"its last run {row.run} has ended" if row else "none was started",
            command_line("serve", model.name),
        )
    instance = find_instance(yard, row.run) if run and is_ready(run) else None
    if instance is None:
        raise NotServed(
            f"{row.run} does not answer now",
            "its host is starting or ending",
            command_line("show", row.run, "--watch"),
        )
    return ServedHost(model.name, row.number, row.run, instance)


def _ask_host(model: Model, row: ServedRow, document: Mapping[str, Any], on_step: OnStep) -> Prediction:
    """Ask the version's host, and start it if none runs."""
    for _ in range(MOST_WAKES):
        host = _running(model, row) or start(model, str(row.number), None, on_step)
        try:
            status, found = asyncio.run(_ask(model.yard, host, path_of(model.name, None), document, on_step))
        except (HostNotConnected, SessionOver, OSError, http.client.HTTPException) as error:
            on_step(f"{host.instance} did not answer ({error}); looking again")
            time.sleep(LOOK_SECONDS)
            continue
        if "error" in found:
            raise NotPredicted(found["error"], NO_ANSWER, next_step(model.name, status))
        return Prediction(model.name, host.version, read_answer(found))
    raise NotPredicted(
        f"the host of version {row.number} of {model.name} did not answer",
        NO_ANSWER,
        command_line("show", row.run),
    )


def _running(model: Model, row: ServedRow) -> ServedHost | None:
    run = model.yard.row(row.run)
    if run is None or run.ended or run.stopping or not is_ready(run):
        return None
    instance = find_instance(model.yard, row.run)
    return ServedHost(model.name, row.number, row.run, instance) if instance else None


async def _ask(
    yard: Deployment, host: ServedHost, path: str, document: Mapping[str, Any], on_step: OnStep
) -> tuple[int, Any]:
    """Send one request to the host's REST interface through a session."""
    yard = _within_role(yard)
    opened = await asyncio.to_thread(_begin, yard, host.instance, REST_PORT, 0)
    loop = asyncio.get_running_loop()
    local: asyncio.Future[int] = loop.create_future()

    def ready(port: int) -> None:
        if not local.done():
            local.set_result(port)

    with forward.listen(0) as listening:
        link = Link(yard.session, opened, on_step)
        carrying = asyncio.ensure_future(forward.carry(link, listening, REST_PORT, ready, on_step, ()))
        try:
            first: list[asyncio.Future[Any]] = [carrying, local]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not local.done():
                await carrying
                raise ConnectionResetError("the session ended before its first connection")
            return await asyncio.to_thread(_post, local.result(), path, document)
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)


def _post(port: int, path: str, document: Mapping[str, Any]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(forward.LOOPBACK, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def _within_role(yard: Deployment) -> Deployment:
    """Return the yard with a session in the role for served hosts."""
    if not yard.serve_role:
        raise NotServed(
            f"the yard {yard.name} has no role for served hosts",
            "an older version has deployed it",
            command_line("yard", "upgrade"),
        )
    return replace(yard, session=assume(yard.session, yard.serve_role))


def _begin(yard: Deployment, instance: str, port: int, local: int) -> Any:
    """Start a session for a port of a served host. Systems Manager may list a new host some seconds late."""
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return forward.begin(yard, instance, port, local, document_of(yard.name))
        except HostNotConnected:
            if time.monotonic() > until:
                raise
            time.sleep(LOOK_SECONDS)


def hold(
    model: Model,
    version: str | None,
    ports: Mapping[int, int],
    ready: Callable[[ServedHost, Mapping[int, int]], None],
    on_step: OnStep,
) -> None:
    """Forward ports of the version's host to this computer until a signal ends the process. `ports` has the local port
    (0 for any free port) by the host's. A session that ends is followed by another one while the run lasts. Raise
    NotServed, or NotHere if a port is in use."""
    within = _within_role(model.yard)
    while True:
        host = find(model, version)
        try:
            asyncio.run(_hold(within, host, ports, ready, on_step))
        except SessionOver as over:
            on_step(f"{over.what} ({over.means}); looking for the host again")
            time.sleep(LOOK_SECONDS)


async def _hold(
    yard: Deployment,
    host: ServedHost,
    ports: Mapping[int, int],
    ready: Callable[[ServedHost, Mapping[int, int]], None],
    on_step: OnStep,
) -> None:
    opened: dict[int, int] = {}
    own, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert own is not None
    for number in (signal.SIGTERM, signal.SIGHUP):  # asyncio handles SIGINT
        loop.add_signal_handler(number, own.cancel)

    def note(port: int) -> Callable[[int], None]:
        def open_port(local: int) -> None:
            opened[port] = local
            if opened.keys() == ports.keys():
                ready(host, dict(opened))

        return open_port

    tasks = [
        asyncio.ensure_future(_carry(yard, host, port, local, note(port), on_step))
        for port, local in ports.items()
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(
    yard: Deployment, host: ServedHost, port: int, local: int, ready: Callable[[int], None], on_step: OnStep
) -> None:
    with forward.listen(local) as listening:
        session = await asyncio.to_thread(_begin, yard, host.instance, port, local)
        await forward.carry(Link(yard.session, session, on_step), listening, port, ready, on_step, ())


def _run(yard: Deployment, run: str) -> Run:
    return Run(yard, f"{yard.workflows['train'].replace(':stateMachine:', ':execution:')}:{run}")


def _check_begun(run: Run, model: str, number: int) -> None:
    """Raise NotServed if the execution has ended before the ledger had a row of the run."""
    try:
        if run.execution.is_over:
            raise _ended(run, model, number)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
            raise


def _ended(run: Run, model: str, number: int) -> NotServed:
    reason = run.reason()
    return NotServed(
        f"{run.id}, which was to serve version {number} of {model}, has ended: {' '.join(reason.lines)}",
        "no host serves the version",
        "; ".join(reason.advice) or command_line("show", run.id),
    )
