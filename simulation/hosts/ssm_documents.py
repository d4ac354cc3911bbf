"""The effects of SSM documents on a host. The real ones call training/host and training/baking."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from simulation.hosts.bucket import bucket_of
from simulation.hosts.environment import CommandEnd
from simulation.hosts.flow import Sleep
from simulation.hosts.machine import Machine
from training.baking.recipe import as_admitted
from training.baking.results import Outcome, Result, Versions, count_results, failure, to_json
from training.baking.tests import TESTS
from training.host.bucket import Bucket
from training.host.errors import HostTrouble, ProgramFault
from training.host.image.pause import ALONE_SECONDS, IN_GANG_SECONDS
from training.host.reporting.chunks import chunk_key
from trainyard.protocol import keys
from trainyard.protocol.orders import OrderKind
from trainyard.values.serialization import timestamp

Parameters = Mapping[str, Sequence[str]]
Ending = Generator["float | Sleep", None, CommandEnd]

BREAKS = ("false", "exit 1", "/bin/false")
"""A line of a recipe fails if it is one of these, in `commands` and in `tests`."""
VERSIONS = Versions(driver="580.95.05", cuda="12.5.1", tensorflow="2.21.0", architecture="x86_64")
NO_SUCH_DOCUMENT = CommandEnd(1, errors="this host has no such document")
NO_AGENT, PATIENCE_SECONDS = 69, 10.0


def run(machine: Machine, name: str, parameters: Parameters) -> Ending:
    """Run the SSM document whose name, without the yard's, is `word`."""
    match name:
        case "start" | "stop":
            return _order(machine, OrderKind(name), parameters)
        case "pause" | "resume":
            return _pause_or_resume(machine, name)
        case "generalize":
            return _generalize(machine, parameters)
        case "install" | "test":
            return _bake(machine, name, parameters)
        case _:
            return _refuse()


def _refuse() -> Ending:
    yield 0.0
    return NO_SUCH_DOCUMENT


def _order(machine: Machine, name: OrderKind, parameters: Parameters) -> Ending:
    run_id, attempt = parameters["Run"][0], int(parameters["Attempt"][0])
    if machine.life and machine.life.order(name, run_id, attempt):
        yield 0.0
        return CommandEnd(0, f"{name} of attempt {attempt} of {run_id} is ordered\n")
    yield PATIENCE_SECONDS
    return CommandEnd(NO_AGENT, errors="no agent runs on this host; see `journalctl -u trainyard-host`\n")


def _pause_or_resume(machine: Machine, name: str) -> Ending:
    yield 0.0
    program = machine.program
    if program is None or not program.lives:
        synced = ": its disks are synced" if name == "pause" else ""
        return CommandEnd(0, f"no program of a run runs on this host{synced}\n")
    if name == "resume":
        program.gang.resume()
        return CommandEnd(0, "the program continues\n")
    seconds = ALONE_SECONDS if program.gang.is_alone else IN_GANG_SECONDS
    program.gang.pause(seconds)
    return CommandEnd(0, f"the program is paused for at most {seconds:g} s; the disks are synced\n")


def _generalize(machine: Machine, parameters: Parameters) -> Ending:
    depth = parameters.get("Depth", ["host"])[0]
    yield machine.draw(machine.delays.generalize)
    machine.disk.generalized = True
    machine.disk.state = None
    return CommandEnd(0, f"{machine.instance} is generalized ({depth}): 12 files and folders removed\n")


def _bake(machine: Machine, name: str, parameters: Parameters) -> Ending:
    """Run once for a bake on one builder. A second run has the same result."""
    run_id, uri = parameters["Run"][0], parameters["Recipe"][0]
    bucket = bucket_of(machine.call, uri.removeprefix("s3://").partition("/")[0])
    try:
        recipe = json.loads(as_admitted(bucket.read(bucket.of(uri)[1]), parameters["Sha256"][0]))
        result = machine.disk.done.get((name, run_id))
        if result is None:
            act = _install if name == "install" else _test
            output = yield from act(machine, bucket, recipe, run_id, parameters)
            result = machine.disk.done[name, run_id] = CommandEnd(0, output)
    except ProgramFault as fault:
        ended = CommandEnd(1, errors=f"{name} failed: {fault.reason}\n")
        machine.disk.done[name, run_id] = ended
        return ended
    except HostTrouble as trouble:
        return CommandEnd(1, errors=f"{name} failed: {trouble.reason}\n")
    return result


Output = Generator["float | Sleep", None, str]


def _install(
    machine: Machine, bucket: Bucket, recipe: dict[str, Any], run_id: str, parameters: Parameters
) -> Output:
    _log(machine, bucket, run_id, f"install {run_id} on {machine.instance}")
    for uri in parameters.get("Software", ()):
        name, _, key = uri.removeprefix("s3://").partition("/")
        bucket_of(machine.call, name).read(key)
    yield machine.draw(machine.delays.install)
    if machine.disk.is_full:
        raise HostTrouble("this builder's disk or network has failed: [Errno 28] No space left on device")
    for index, line in enumerate(recipe.get("commands") or ()):
        if line.strip() in BREAKS:
            reason = f"commands[{index}]: `{line}` failed (exit code 1)"
            _log(machine, bucket, run_id, f"install failed: {reason}")
            raise ProgramFault(reason)
    _log(machine, bucket, run_id, "install is done")
    machine.publish()
    return "install is done\n"


def _test(
    machine: Machine, bucket: Bucket, recipe: dict[str, Any], run_id: str, parameters: Parameters
) -> Output:
    yield machine.draw(machine.delays.test)
    lines = [(f"tests[{index}]", line) for index, line in enumerate(recipe.get("tests") or ())]
    results = [Result(name, Outcome.PASSED, "it works", 1.0) for name, _ in TESTS]
    results += [
        Result(name, Outcome.FAILED, f"`{line}` failed (exit code 1)", 1.0)
        if line.strip() in BREAKS
        else Result(name, Outcome.PASSED, f"`{line}` exited with 0", 1.0)
        for name, line in lines
    ]
    found = json.dumps(to_json(results, VERSIONS), indent=2)
    bucket.write(keys.tests(run_id), found.encode())
    _log(machine, bucket, run_id, count_results(results))
    wrong = failure(results)
    if wrong:
        raise ProgramFault(wrong)
    return f"{count_results(results)}\ntest is done\n"


def _log(machine: Machine, bucket: Bucket, run_id: str, text: str) -> None:
    """Append a line to the log, also after another builder of the same bake."""
    key = chunk_key(f"{keys.bake_logs(run_id)}builder/", 1)
    before = bucket.read_if_there(key) or b""
    line = f"{timestamp(machine.now())} builder {machine.instance} | {text}\n"
    bucket.write(key, before + line.encode())
