"""An image for this recipe: the one there is, or a new one by the bake workflow."""

import time

from demo.say import DemoError, console, say
from demo.yard import Yard, states_of


def ensure_image(yard: Yard, every: float = 2.0) -> str:
    """The image that the parameter points to and that was made from this recipe; bakes one if there is none."""
    if (image := yard.image()) is not None:
        say(f"  {image} was baked from this recipe ({yard.recipe})")
        return image
    arn = yard.start(yard.bake, {})
    told = 0
    with console.status("bake ..."):
        while True:
            execution = yard.execution(arn)
            for at, state in list(states_of(yard.history(arn)))[told:]:
                told += 1
                say(f"  {at:%H:%M:%S} {state}")
            if execution.is_over:
                break
            time.sleep(every)
    if execution.status != "SUCCEEDED":
        raise DemoError(
            f"the bake {execution.name} {execution.status.lower()}: {execution.error} {execution.cause}".strip(),
            "the builder's output is in the bucket under runs/ and in: aws ssm list-command-invocations --details",
        )
    if (image := yard.image()) is None:
        raise DemoError(
            f"the bake {execution.name} succeeded, but /trainyard/image names no image of recipe {yard.recipe}",
            "look at: aws ec2 describe-images --owners self",
        )
    say(f"  {image}")
    return image
