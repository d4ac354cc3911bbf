"""`python -m training.host run|start|stop|seal`: the boot unit calls run, the SSM documents the others."""

import argparse
import logging
import sys
import time

from training.host import orders
from training.host.places import Places

NO_AGENT = 69  # EX_UNAVAILABLE
PATIENCE_SECONDS = 10.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.host", description=__doc__)
    words = parser.add_subparsers(dest="word", required=True)
    words.add_parser("run", help="be the agent of this host")
    for word, does in (
        ("start", "start the program of an attempt"),
        ("stop", "end an attempt: checkpoint and leave"),
    ):
        order = words.add_parser(word, help=does)
        order.add_argument("--run", required=True)
        order.add_argument("--attempt", required=True, type=int)
    words.add_parser("seal", help="remove the run's traces before an image is made")
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.Formatter.converter = time.gmtime
    places = Places()
    if asked.word == "run":
        from training.host import agent  # boto3 takes a moment to import and the orders do not need it

        agent.run(places)
        return 0
    if asked.word == "seal":
        from training.host.metadata import Metadata
        from training.host.seal import seal

        for folder in seal(places, Metadata().identity().instance):
            print(f"removed {folder}")
        return 0
    orders.give(orders.Order(asked.word, asked.run, asked.attempt), places)
    if not orders.agent_is_there(places, patience=PATIENCE_SECONDS):
        print("no agent runs on this host: look at `journalctl -u trainyard-host`", file=sys.stderr)
        return NO_AGENT
    print(f"{asked.word} of attempt {asked.attempt} of {asked.run} is ordered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
