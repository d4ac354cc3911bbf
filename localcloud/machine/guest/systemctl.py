"""`systemctl`, `systemd-run`, `journalctl` and `shutdown` on a host, with systemd's output and exit codes.

`main` takes the command's name and arguments from sys.argv and sends a request to init.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from localcloud.machine.guest.units import INIT_PREFIX, full_name, seconds, template_of

UNITS = Path("/etc/systemd/system")
LOGS = Path("/var/log/units")
NOT_ACTIVE, NO_SUCH_UNIT = 3, 4


def send_request(**request: Any) -> tuple[int, str]:
    with socket.socket(socket.AF_UNIX) as init:
        init.connect("/run/localcloud/init.sock")
        init.sendall(json.dumps(request).encode() + b"\n")
        answer = init.makefile("rb").readline()
    if not answer:
        return 0, ""  # the host went down during the wait
    reply = json.loads(answer)
    return reply["code"], reply["text"]


def leave(code: int, text: str = "") -> NoReturn:
    if text:
        print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)


def options(arguments: list[str], valued: set[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Split arguments into options and other words.

    Options in `valued` take a value (`--unit X`, `--unit=X`, `-uX`).
    """
    found: dict[str, list[str]] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, has_value, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2 and word[:2] in valued:
            name, has_value, value = word[:2], "=", word[2:]
        if name in valued and not has_value:
            value = rest.pop(0) if rest else leave(1, f"option {name} needs a value")
        found.setdefault(name, []).append(value)
    return found, words


def states(units: list[str]) -> list[dict[str, str]]:
    code, text = send_request(verb="states", units=units)
    if code != 0:
        leave(code, text)
    found: list[dict[str, str]] = json.loads(text)
    return found


# --- systemctl ---


def systemctl(arguments: list[str]) -> NoReturn:
    flags, words = options(
        arguments,
        {"-s", "--signal", "--kill-who", "--kill-whom", "-p", "--property", "-n", "-t", "--type", "-o"},
    )
    verb, units = (words[0], words[1:]) if words else ("list-units", [])
    quiet = "-q" in flags or "--quiet" in flags
    match verb:
        case "start" | "stop" | "restart" | "try-restart" | "reload" | "reload-or-restart":
            wanted = {"try-restart": "restart", "reload-or-restart": "restart"}.get(verb, verb)
            leave(*request_units(wanted, units, "--no-block" in flags))
        case "is-active" | "is-failed":
            found = [state["ActiveState"] for state in states(units)]
            if not quiet:
                print("\n".join(found))
            good = "active" if verb == "is-active" else "failed"
            leave(0 if good in found else NOT_ACTIVE if verb == "is-active" else 1)
        case "is-enabled":
            found = [state["UnitFileState"] for state in states(units)]
            if not quiet:
                print("\n".join(found))
            leave(0 if "enabled" in found else 1)
        case "enable" | "disable":
            for unit in units:
                (enable if verb == "enable" else disable)(full_name(unit))
            if "--now" in flags:
                leave(*request_units("start" if verb == "enable" else "stop", units, False))
            leave(0)
        case "daemon-reload" | "daemon-reexec":
            leave(0)  # init reads a unit file at each start
        case "kill":
            number = (flags.get("-s") or flags.get("--signal") or ["SIGTERM"])[-1]
            whom = (flags.get("--kill-whom") or flags.get("--kill-who") or ["all"])[-1]
            leave(*send_request(verb="kill", units=units, signal=number, whom=whom))
        case "status":
            show_status(units)
        case "show":
            show(units, flags)
        case "list-units" | "list-timers":
            for state in states([]):
                print("{Id:<40} {LoadState} {ActiveState:<12} {SubState:<10} {Description}".format(**state))
            leave(0)
        case "reset-failed":
            leave(*send_request(verb="reset-failed", units=units))
        case "cat":
            for unit in units:
                print((UNITS / full_name(unit)).read_text())
            leave(0)
        case "poweroff" | "halt" | "reboot":
            leave(
                *send_request(verb="poweroff", seconds=0, reason=f"systemctl {verb}", reboot=verb == "reboot")
            )
        case "is-system-running":
            leave(0, "running")
        case _:
            leave(1, f"Unknown command verb '{verb}', or not supported by the local cloud.")


def request_units(verb: str, units: list[str], forget: bool) -> tuple[int, str]:
    if not units:
        return 1, "Too few arguments."
    if not forget:
        return send_request(verb=verb, units=units)
    if os.fork() == 0:
        send_request(verb=verb, units=units)
        os._exit(0)
    return 0, ""


def enable(unit: str) -> None:
    source = next((UNITS / name for name in (unit, template_of(unit)) if (UNITS / name).exists()), None)
    if source is None:
        leave(1, f"Failed to enable unit: Unit file {unit} does not exist.")
    targets = re.findall(r"^\s*WantedBy\s*=\s*(.+)$", source.read_text(), re.MULTILINE)
    for target in " ".join(targets).split():
        link = UNITS / f"{target}.wants" / unit
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(source)
            print(f"Created symlink {link} -> {source}.", file=sys.stderr)


def disable(unit: str) -> None:
    for folder in UNITS.glob("*.wants"):
        (folder / unit).unlink(missing_ok=True)


def show_status(units: list[str]) -> NoReturn:
    code = 0
    for state in states(units):
        print("* {Id} - {Description}\n   Loaded: {LoadState} ({UnitFileState})".format(**state))
        print("   Active: {ActiveState} ({SubState}), result {Result}, main pid {MainPID}\n".format(**state))
        print("\n".join(log_lines(state["Id"])[-10:]))
        code = max(code, NO_SUCH_UNIT if state["LoadState"] == "not-found" else 0)
        code = max(code, NOT_ACTIVE if state["ActiveState"] != "active" else 0)
    leave(code)


def show(units: list[str], flags: dict[str, list[str]]) -> NoReturn:
    wanted = [
        name for value in flags.get("-p", []) + flags.get("--property", []) for name in value.split(",")
    ]
    for state in states(units):
        for name in wanted or state:
            value = state.get(name, "")
            print(value if "--value" in flags else f"{name}={value}")
    leave(0)


# --- systemd-run, journalctl, shutdown ---


def systemd_run(arguments: list[str]) -> NoReturn:
    valued = {"--unit", "-u", "-p", "--property", "-E", "--setenv", "--description", "--on-active", "--uid",
              "--working-directory", "--service-type", "--slice"}  # fmt: skip
    split = next((i for i, word in enumerate(arguments) if is_command(arguments, i, valued)), len(arguments))
    flags, _ = options(arguments[:split], valued)
    command = arguments[split:]
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        leave(1, "Command line to execute required.")

    def given(*names: str) -> list[str]:
        return [value for name in names for value in flags.get(name, [])]

    lines = ["[Unit]", *(f"Description={text}" for text in given("--description"))]
    lines += ["[Service]", "ExecStart=" + " ".join(quote(word) for word in command)]
    lines += given("-p", "--property")
    lines += ["Environment=" + quote(with_value(pair)) for pair in given("-E", "--setenv")]
    for option, key in (
        ("--uid", "User"),
        ("--working-directory", "WorkingDirectory"),
        ("--service-type", "Type"),
    ):
        lines += [f"{key}={value}" for value in given(option)]
    if "-r" in flags or "--remain-after-exit" in flags:
        lines.append("RemainAfterExit=yes")
    delay = given("--on-active")
    name = (given("--unit", "-u") or [f"run-u{os.getpid()}"])[-1]
    waits = bool({"--wait", "--pipe", "-P", "--scope"} & flags.keys())
    code, text = send_request(
        verb="run", unit=name, text="\n".join(lines), wait=waits, delay=seconds(delay[-1]) if delay else None
    )
    if "--pipe" in flags or "-P" in flags:
        print("\n".join(line for line in log_lines(full_name(name)) if not line.startswith(INIT_PREFIX)))
        text = ""
    print(text, file=sys.stderr)
    leave(code)


def is_command(arguments: list[str], index: int, valued: set[str]) -> bool:
    """Return True if the command starts here: the first word that is neither an option nor an option's value."""
    if arguments[index].startswith("-") and arguments[index] != "--":
        return False
    return index == 0 or arguments[index - 1] not in valued


def quote(word: str) -> str:
    return shlex.quote(word.replace("%", "%%").replace("$", "$$"))


def with_value(pair: str) -> str:
    return pair if "=" in pair else f"{pair}={os.environ.get(pair, '')}"


def log_lines(unit: str) -> list[str]:
    path = LOGS / f"{unit}.log"
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def journalctl(arguments: list[str]) -> NoReturn:
    flags, _ = options(
        arguments, {"-u", "--unit", "-n", "--lines", "-o", "--output", "--since", "--until", "-S"}
    )
    units = [full_name(name) for name in flags.get("-u", []) + flags.get("--unit", [])]
    names = units or sorted(path.name.removesuffix(".log") for path in LOGS.glob("*.log"))
    lines = [line for name in names for line in log_lines(name)]
    count = (flags.get("-n") or flags.get("--lines") or ["0"])[-1]
    leave(0, "\n".join(lines[-int(count) :] if count.isdigit() else lines))


def shutdown(arguments: list[str]) -> NoReturn:
    flags, words = options(arguments, set())
    if "-c" in flags:
        leave(*send_request(verb="cancel-poweroff"))
    when = words[0] if words else "+1"
    minutes = re.fullmatch(r"\+(\d+)", "+0" if when == "now" else when)
    if minutes is None:
        leave(1, f"Failed to parse time specification: {when} (the local cloud supports now and +minutes)")
    leave(
        *send_request(
            verb="poweroff", seconds=int(minutes[1]) * 60, reason=f"shutdown {when}", reboot="-r" in flags
        )
    )


def power(verb: str) -> Callable[[list[str]], NoReturn]:
    return lambda arguments: systemctl([verb])


COMMANDS: dict[str, Callable[[list[str]], NoReturn]] = {
    "systemctl": systemctl,
    "systemd-run": systemd_run,
    "journalctl": journalctl,
    "shutdown": shutdown,
    **{verb: power(verb) for verb in ("poweroff", "reboot", "halt")},
}


def main() -> NoReturn:
    COMMANDS[sys.argv[1]](sys.argv[2:])
