"""Images: their names, and which old ones may go."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lambdas.core.errors import Infrastructure


class BuilderNotRegistered(Infrastructure):
    """Systems Manager does not know the builder yet; the workflow asks again."""


class InstallFailed(Infrastructure):
    """The install document failed on the builder."""


class ImageFailed(Infrastructure):
    """EC2 could not make the image."""


@dataclass(frozen=True)
class Made:
    """An image of the yard, as EC2 lists it."""

    id: str
    recipe: str
    available: bool


@dataclass(frozen=True)
class Retirement:
    """An image to retire, and why."""

    id: str
    reason: str


def baked_name(yard: str, recipe: str, run: str) -> str:
    """The baked image's name: at most 128 characters that EC2 allows; one per bake, so CreateImage happens once."""
    return f"{yard}-{recipe}-{run}"[:128]


def retirements(
    made: Sequence[Made], *, current: str, in_use: Collection[str], keep: int
) -> tuple[Retirement, ...]:
    """Baked images beyond the newest `keep`, newest first in `made`; never the current one or one in use.

    Snapshots of hosts carry no recipe: they are the user's, and stay."""
    baked = [image for image in made if image.recipe]
    beyond = baked[keep:]
    return tuple(
        Retirement(image.id, f"{keep} newer baked images are kept, and nothing uses this one")
        for image in beyond
        if image.id != current and image.id not in in_use
    )
