"""`trainyard run|start|stop|pause|resume|generalize|hold|release|jupyter` (`python -m training.host ...`).

The boot unit calls run, people on the host hold and release, their own `trainyard dev` jupyter, the SSM documents the
others."""

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
from trainyard.values.quantities import counted

NO_AGENT = 69  # EX_UNAVAILABLE
PATIENCE_SECONDS = 10.0
SELDOM = (50_000, 20, 100)
"""When Python looks for garbage: by default a third of the agent's time goes into that, which the program lacks."""


def main(arguments: list[str] | None = None) -> int:
    gc.set_threshold(*SELDOM)
    parser = argparse.ArgumentParser(prog="trainyard", description=__doc__)
    words = parser.add_subparsers(dest="word", required=True)
    words.add_parser("run", help="be the agent of this host")
    for word, does in (
        ("start", "start the program of an attempt"),
        ("stop", "end an attempt: checkpoint and leave"),
    ):
        order = words.add_parser(word, help=does)
        order.add_argument("--run", required=True)
        order.add_argument("--attempt", required=True, type=int)
    words.add_parser("pause", help="let the program stand still and its disk be whole")
    words.add_parser("resume", help="let a paused program go on")
    generalizing = words.add_parser(
        "generalize", help="before an image is made: take off what is this instance's alone"
    )
    generalizing.add_argument("--depth", choices=DEPTHS, required=True)
    holding = words.add_parser("hold", help="leave this host alone for so long, whatever it does")
    holding.add_argument("how_long", help="90m, 2h, 1h30m: at most 24 h at a time")
    words.add_parser("release", help="end the hold")
    serving = words.add_parser("jupyter", help="say how JupyterLab of this host is to be reached")
    serving.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for it to serve")
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.Formatter.converter = time.gmtime
    logging.getLogger("botocore").setLevel(logging.WARNING)  # where it found its credentials is no news
    os.environ |= NO_FILES
    paths = Paths()
    if asked.word == "run":
        from training.host.agent import boot

        boot.run(paths)
        return 0
    if asked.word in ("pause", "resume"):
        print(pause.pause(paths) if asked.word == "pause" else pause.resume(paths))
        return 0
    if asked.word in ("hold", "release"):
        return _hold(asked.how_long if asked.word == "hold" else None)
    if asked.word == "jupyter":
        from training.host.dev import jupyter

        print(jupyter.wait(paths, asked.wait).to_json())
        return 0
    if asked.word == "generalize":
        return _generalize(paths, asked.depth)
    orders.give(Order(OrderKind(asked.word), asked.run, asked.attempt), paths)
    if not orders.agent_is_there(paths, patience=PATIENCE_SECONDS):
        print("no agent runs on this host: look at `journalctl -u trainyard-host`", file=sys.stderr)
        return NO_AGENT
    print(f"{asked.word} of attempt {asked.attempt} of {asked.run} is ordered")
    return 0


def _hold(how_long: str | None) -> int:
    """None releases."""
    from training.host.agent.deadlines import hold

    try:
        until = hold.release() if how_long is None else hold.hold(how_long)
    except HostTrouble as trouble:
        print(trouble.reason, file=sys.stderr)
        return 1
    at = until.isoformat(timespec="seconds")
    print(f"nobody holds this host since {at}" if how_long is None else f"this host is held until {at}")
    return 0


def _generalize(paths: Paths, depth: str) -> int:
    instance, command = Metadata().identity().instance, os.environ.get("SSM_COMMAND_ID", "")
    try:
        removed = generalize(paths, instance, depth=depth, command=command)
    except HostTrouble as trouble:
        print(trouble.reason, file=sys.stderr)
        return 1
    print(f"{instance} is generalized ({depth}): {counted(len(removed), 'path')} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
