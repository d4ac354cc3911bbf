"""An agent in a separate process: `python -m tests.contract.agent.process ROOT METADATA_SERVICE`."""

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

from training.host import account
from training.host.agent.agent import Agent
from training.host.agent.tags import run_tags
from training.host.metadata import Metadata
from training.host.paths import Paths


def main(root: str, service: str) -> None:
    logging.basicConfig(level=logging.INFO)
    metadata = Metadata(service)
    identity = metadata.identity()
    post = run_tags(identity, now=datetime.now(UTC))
    assert post
    paths, programs = Paths(Path(root)), account.own()
    Agent(paths, metadata, identity, post, account=programs, put_up_fence=print, power_off=print).work()


if __name__ == "__main__":
    main(*sys.argv[1:])
