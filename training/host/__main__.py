"""`trainyard run|start|stop|pause|resume|generalize|hold|unhold|jupyter` (`python -m training.host ...`).

The boot unit calls `run`, users on the host call `hold` and `unhold`, `trainyard dev` on a user's computer calls
`jupyter`, and the SSM documents call the other commands."""

import argparse
import gc
import logging
import os
import sys
import time

from training.host import orders
from training.host.errors import HostTrouble
from training.host.image import pause
from training.host.image.generalize import DEPTHS, generalize
from training.host.metadata import NO_FILES, Metadata
from training.host.paths import Paths
from trainyard.protocol.orders import Order, OrderKind
from trainyard.values.quantities import format_count

NO_AGENT = 69  # EX_UNAVAILABLE
PATIENCE_SECONDS = 10.0
COLLECTOR_THRESHOLDS = (50_000, 20, 100)
"""Python's garbage collector runs less often than by default, which would take a third of the agent's time."""


def main(arguments: list[str] | None = None) -> int:
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    parser = argparse.ArgumentParser(prog="trainyard", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="run the host agent")
    for name, purpose in (
        ("start", "start the program of an attempt"),
        ("stop", "stop an attempt: the program saves and leaves"),
    ):
        order = commands.add_parser(name, help=purpose)
        order.add_argument("--run", required=True)
        order.add_argument("--attempt", required=True, type=int)
    commands.add_parser("pause", help="pause the program and sync the disks")
    commands.add_parser("resume", help="resume a paused program")
    generalizing = commands.add_parser(
        "generalize", help="remove what belongs only to this instance, before an image is made"
    )
    generalizing.add_argument("--depth", choices=DEPTHS, required=True)
    holding = commands.add_parser("hold", help="keep this host, even if it is idle")
    holding.add_argument("how_long", help="90m, 2h, 1h30m; at most 24 h at a time")
    commands.add_parser("unhold", help="end the hold")
    serving = commands.add_parser("jupyter", help="print how to reach JupyterLab on this host")
    serving.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait until it serves")
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.Formatter.converter = time.gmtime
    logging.getLogger("botocore").setLevel(logging.WARNING)  # it logs where it finds credentials
    os.environ |= NO_FILES
    paths = Paths()
    if asked.command == "run":
        from training.host.agent import boot

        boot.run(paths)
        return 0
    if asked.command in ("pause", "resume"):
        print(pause.pause(paths) if asked.command == "pause" else pause.resume(paths))
        return 0
    if asked.command in ("hold", "unhold"):
        return _hold(asked.how_long if asked.command == "hold" else None)
    if asked.command == "jupyter":
        from training.host.dev import jupyter

        print(jupyter.wait(paths, asked.wait).to_json())
        return 0
    if asked.command == "generalize":
        return _generalize(paths, asked.depth)
    orders.give(Order(OrderKind(asked.command), asked.run, asked.attempt), paths)
    if not orders.is_agent_running(paths, patience=PATIENCE_SECONDS):
        print("no agent runs on this host; see `journalctl -u trainyard-host`", file=sys.stderr)
        return NO_AGENT
    print(f"{asked.command} of attempt {asked.attempt} of {asked.run} is ordered")
    return 0


def _hold(how_long: str | None) -> int:
    """Hold this host for a time span, or end its hold (None)."""
    from training.host.agent.deadlines import hold

    try:
        until = hold.release() if how_long is None else hold.hold(how_long)
    except HostTrouble as trouble:
        print(trouble.reason, file=sys.stderr)
        return 1
    at = until.isoformat(timespec="seconds")
    print(
        f"this host is not held any more since {at}" if how_long is None else f"this host is held until {at}"
    )
    return 0


def _generalize(paths: Paths, depth: str) -> int:
    instance, command = Metadata().identity().instance, os.environ.get("SSM_COMMAND_ID", "")
    try:
        removed = generalize(paths, instance, depth=depth, command=command)
    except HostTrouble as trouble:
        print(trouble.reason, file=sys.stderr)
        return 1
    print(f"{instance} is generalized ({depth}): {format_count(len(removed), 'path')} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
