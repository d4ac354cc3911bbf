"""The loaded units of a host, the order of their starts, and their properties for systemctl."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from localcloud.machine.guest.loop import Manager, Reply
from localcloud.machine.guest.processes import signal_number
from localcloud.machine.guest.service import Service
from localcloud.machine.guest.timer import TimerUnit
from localcloud.machine.guest.units import (
    UnitError,
    UnitFile,
    enabled_units,
    find_unit,
    full_name,
    parse_unit,
)

Request = dict[str, Any]
"""A request from systemctl or a related command: a verb and its parameters."""


class HostUnits:
    def __init__(self, init: Manager) -> None:
        self._init = init
        self._units: dict[str, Service | TimerUnit] = {}
        self._queued: list[tuple[str, Reply]] = []

    def all(self) -> list[Service | TimerUnit]:
        return list(self._units.values())

    def add_transient(self, unit: UnitFile) -> Service:
        """Add a service without a unit file."""
        service = Service(self._init, unit)
        service.transient = True
        self._units[unit.name] = service
        return service

    def forget_queue(self) -> None:
        self._queued.clear()

    def answer(self, request: Request, reply: Reply) -> None:
        names = [full_name(name) for name in request.get("units", [])]
        match request["verb"]:
            case "start":
                self.start_all(names, reply)
            case "stop":
                self._each([self._units[n] for n in names if n in self._units], Service.stop, reply)
            case "restart":
                self._restart_units(names, reply)
            case "reload":
                self._each([self._load(name) for name in names], Service.reload, reply)
            case "kill":
                for name in names:
                    self._load(name).kill(signal_number(request["signal"]), request["whom"])
                reply(0, "")
            case "reset-failed":
                for unit in [self._units[n] for n in names if n in self._units] or list(self._units.values()):
                    unit.reset_failed()
                reply(0, "")
            case "states":
                reply(0, json.dumps([self._properties(name) for name in names or sorted(self._units)]))
            case "run":
                self._run_transient(request, reply)
            case verb:
                reply(1, f"Unknown command verb {verb}.")

    def start_queued(self) -> None:
        """Start units whose dependencies have started."""
        queued, self._queued = self._queued, []
        names = {name for name, _ in queued}
        for name, reply in queued:
            after = set(self._units[name].unit.words("Unit", "After"))
            is_blocked = any(
                other in names - {name} or (other in self._units and self._units[other].state == "activating")
                for other in after
            )
            if is_blocked:
                self._queued.append((name, reply))
            else:
                names.discard(name)
                self._units[name].start(reply)

    def start_all(self, names: list[str], reply: Reply) -> None:
        """Start units and their requirements in order. Reply after all have started or one has failed."""
        wanted: list[str] = []
        try:
            for name in names:
                self._collect(full_name(name), wanted)
        except (UnitError, OSError) as error:
            self._init.print(f"systemd: {error}")
            reply(5, str(error))
            return
        if not wanted:
            reply(0, "")
            return
        self._queued += zip(wanted, gather(len(wanted), reply), strict=True)
        self.start_queued()

    def _collect(self, name: str, wanted: list[str]) -> None:
        if name in wanted or name.rpartition(".")[2] in ("target", "slice", "socket", "mount"):
            return
        unit = self._unit(name)
        for other in unit.unit.words("Unit", "Requires"):
            self._collect(other, wanted)
        for other in unit.unit.words("Unit", "Wants"):
            try:
                self._collect(other, wanted)
            except UnitError as error:
                self._init.print(f"{name}: wants a missing unit: {error}")
        wanted.append(name)

    def _unit(self, name: str) -> Service | TimerUnit:
        known = self._units.get(name)
        if known is not None and (known.transient or known.state not in ("inactive", "failed")):
            return known
        unit = find_unit(name)
        if known is not None:
            known.unit = unit  # read again, as after daemon-reload
            return known
        self._units[name] = (
            TimerUnit(self._init, unit) if name.endswith(".timer") else Service(self._init, unit)
        )
        return self._units[name]

    def _load(self, name: str) -> Service | TimerUnit:
        if name not in self._units:
            raise UnitError(f"Unit {name} not loaded.")
        return self._units[name]

    def _each(self, units: list[Any], act: Callable[[Any, Reply], None], reply: Reply) -> None:
        if not units:
            reply(0, "")
        for unit, each in zip(units, gather(len(units), lambda code, text: reply(0, text)), strict=True):
            getattr(unit, act.__name__)(each)

    def _restart_units(self, names: list[str], reply: Reply) -> None:
        running = [self._units[name] for name in names if name in self._units]
        self._each(running, Service.stop, lambda code, text: self.start_all(names, reply))

    def _properties(self, name: str) -> dict[str, Any]:
        unit = self._units.get(name)
        try:
            file: UnitFile | None = unit.unit if unit else find_unit(name)
        except UnitError:
            file = None
        return {
            "Id": name,
            "Description": file.get("Unit", "Description", name) if file else name,
            "LoadState": "loaded" if file else "not-found",
            "ActiveState": unit.shown_state if unit else "inactive",
            "SubState": _sub_state(unit),
            "Result": unit.result if unit else "success",
            "ExecMainStatus": str(abs(unit.exit_status)) if unit else "0",
            "MainPID": str(unit.main_pid) if unit else "0",
            "UnitFileState": "enabled" if name in enabled_units() else "disabled",
            "InvocationID": unit.invocation if unit else "",
        }

    def _run_transient(self, request: Request, reply: Reply) -> None:
        name = full_name(request["unit"])
        if name in self._units and self._units[name].state not in ("inactive", "failed"):
            reply(
                1,
                f"Failed to start transient service unit: Unit {name} was already loaded or has a fragment file.",
            )
            return
        unit = parse_unit(name, request["text"])
        service = self.add_transient(unit)
        if request["delay"] is not None:
            self._init.after(request["delay"], lambda: service.start(lambda code, text: None))
            reply(0, f"Running timer as unit: {name.removesuffix('.service')}.timer")
        elif request["wait"]:
            service.wait_for_end(reply)
            service.start(lambda code, text: None)
        else:
            service.start(lambda code, text: reply(code, text or f"Running as unit: {name}"))


def gather(count: int, reply: Reply) -> list[Reply]:
    """Return `count` replies that merge into one: the first failure, or success if all succeed."""
    left, answered = count, False

    def each(code: int, text: str) -> None:
        nonlocal left, answered
        left -= 1
        if not answered and (code != 0 or left == 0):
            answered = True
            reply(code, text)

    return [each] * count


def _sub_state(unit: Service | TimerUnit | None) -> str:
    if unit is None:
        return "dead"
    if unit.state == "active":
        return "waiting" if isinstance(unit, TimerUnit) else "running" if unit.main_pid else "exited"
    return {"inactive": "dead", "failed": "failed"}.get(unit.state, unit.state)
