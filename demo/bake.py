"""An image of the yard's recipe: uploading it bakes one, or finds that the current image is what a bake would make."""

import time
from collections import Counter
from datetime import datetime

from demo.cloud import ROOT
from demo.say import DemoError, console, quote, say
from demo.yard import Execution, Yard, states_of

LAST_LINES = 25


def ensure_image(yard: Yard, every: float = 1.0) -> str:
    """The current image, which is made from the recipe as it is here, this software and the base image of today."""
    uploaded = datetime.now().astimezone()
    version = yard.upload(yard.recipe, (ROOT / yard.recipe).read_bytes())
    execution = follow(yard, yard.run_for(yard.recipe, version), every)
    summary = yard.summary(execution.name) or {}
    if execution.status != "SUCCEEDED":
        quote("\n".join(_log(yard, execution.name)[-LAST_LINES:]))
        raise DemoError(
            f"the bake {execution.name} {execution.status.lower()}: {execution.error} {execution.cause}".strip(),
            f"all that the builder printed: aws s3 cp s3://{yard.bucket}/runs/{execution.name}/logs/builder.log -",
        )
    took = (execution.stopped or uploaded) - execution.started
    tests = [test["outcome"] for test in summary["tests"]]
    said = ", ".join(f"{count} {outcome}" for outcome, count in Counter(tests).most_common())
    say(f"  {summary['image']} ({summary['kind']} in {took.total_seconds():.0f} s; tests: {said or 'none'})")
    return str(summary["image"])


def follow(yard: Yard, arn: str, every: float) -> Execution:
    """The execution when it is over; its states are told as they come, the builder's newest line beside them."""
    told = 0
    with console.status("bake ...") as status:
        while True:
            execution = yard.execution(arn)
            for at, state in list(states_of(yard.history(arn)))[told:]:
                told += 1
                say(f"  {at:%H:%M:%S} {state}")
            if execution.is_over:
                return execution
            status.update(_newest(_log(yard, execution.name)))
            time.sleep(every)


def _log(yard: Yard, run: str) -> list[str]:
    return (yard.read(f"runs/{run}/logs/builder.log") or b"").decode(errors="replace").splitlines()


def _newest(lines: list[str]) -> str:
    """The last line of the builder without its time and name, as long as a terminal is wide."""
    return lines[-1].partition(" | ")[2][:100].replace("[", r"\[") if lines else "bake ..."
