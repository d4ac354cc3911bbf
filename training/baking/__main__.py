"""`python -m training.baking install|test --recipe URI --sha256 H --run R`: called by the SSM documents install and
test."""

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import boto3

from training.baking.builder import Builder, for_gpus
from training.baking.install import install
from training.baking.log import BuilderLog
from training.baking.recipe import Recipe, as_admitted
from training.baking.shell import Shell
from training.baking.tests import run_all
from training.host.bucket import Bucket
from training.host.credentials import CALLS
from training.host.errors import HostTrouble, ProgramFault
from training.host.metadata import Metadata
from training.host.orders import write_whole
from training.host.paths import Paths
from training.host.reporting import gpus

COMMANDS: dict[str, tuple[Callable[[Builder], None], float]] = {
    "install": (install, 6000),
    "test": (run_all, 3000),
}
"""The function of each command, and the time limit in seconds of its commands, which is less than its SSM
document's."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.baking", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--recipe", required=True, help="S3 URI of the run's recipe.json")
    parser.add_argument("--sha256", required=True, help="SHA-256 that recipe.json must have")
    parser.add_argument("--run", required=True)
    asked = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    logging.Formatter.converter = time.gmtime
    try:
        bake(asked.command, asked.recipe, asked.sha256, asked.run, paths=Paths(), metadata=Metadata())
    except HostTrouble as trouble:
        print(f"{asked.command} failed: {trouble.reason}", file=sys.stderr)
        return 1
    return 0


def bake(command: str, uri: str, sha256: str, run: str, *, paths: Paths, metadata: Metadata) -> None:
    """Run a command. Raises HostTrouble with the reason of a failure, which the log in the bucket contains, too."""
    act, seconds = COMMANDS[command]
    identity = metadata.identity()
    session = boto3.Session(region_name=identity.region)
    bucket = Bucket(session.client("s3", config=CALLS), uri.removeprefix("s3://").partition("/")[0])
    with BuilderLog(f"{command} {run} on {identity.instance}", bucket, run, identity.instance, paths) as log:
        try:
            builder = Builder(
                run=run,
                recipe=Recipe.from_json(as_admitted(bucket.read(bucket.of(uri)[1]), sha256)),
                identity=identity,
                bucket=bucket,
                paths=paths,
                session=session,
                for_gpus=for_gpus(paths),
                gpus=gpus.count_of_host(identity.tags),
                log=log,
                shell=Shell(log, paths, until=time.monotonic() + seconds),
            )
            once(paths.work / "bake" / f"{command}.json", run, lambda: act(builder))
            log.note(f"{command} is done")
        except HostTrouble as trouble:
            log.note(f"{command} failed: {trouble.reason}")
            raise
        except OSError as error:
            reason = f"{command} failed: this builder's disk or network has failed: {error}"
            log.note(reason)
            raise HostTrouble(reason) from error


def once(path: Path, run: str, act: Callable[[], None]) -> None:
    """Call `act`, unless the file `path` has its result for this run: Systems Manager may deliver an SSM document
    twice. Raises the errors of `act`, and the ProgramFault of an earlier call."""
    try:
        earlier = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        earlier = {}
    if earlier.get("run") != run:
        try:
            act()
        except ProgramFault as fault:
            write_whole(path, json.dumps({"run": run, "fault": fault.reason}))
            raise
        write_whole(path, json.dumps({"run": run, "fault": None}))
    elif earlier["fault"]:
        raise ProgramFault(earlier["fault"])


if __name__ == "__main__":
    sys.exit(main())
