"""A bake's decisions: whether there is anything to do, whether a lost builder is followed by another, what the image is
called and tagged, where the image parameters point afterwards."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from lambdas.core.capacity.kept_hosts import KeptHosts
from lambdas.core.run.recovery import EndRun, Retry, Trouble
from trainyard.core.model import errors
from trainyard.core.model.errors import Refused
from trainyard.core.model.images.image import Image
from trainyard.protocol.tags import PREFIX, Tag
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault

NO_IMAGE = "none"
"""An image parameter's value while there is no such image."""
MOST_BUILDERS = 3
"""Of one bake, each after a trouble that may pass: also where Systems Manager knows none of them."""
VERSIONS = ("driver", "cuda", "tensorflow", "architecture")
"""What tests.json says about the image beside its tests; the first three are tags."""
BUILDER_SECONDS = {"Interrupted": 0}
"""Seconds before the next builder; 10 for every other trouble."""


@dataclass(frozen=True)
class Unchanged:
    """The current image is what the bake would make again."""

    kind: ClassVar[str] = "unchanged"
    image: str
    reason: str


@dataclass(frozen=True)
class RollbackPlan:
    """Current and previous image may change places."""

    kind: ClassVar[str] = "rollback"
    reason: str


def unchanged(current: Image | None, *, yard: str, recipe_hash: str) -> Unchanged | None:
    """None when there is something to bake. `current`: the image that a bake would follow."""
    if current is None or not current.is_of(yard) or not current.available:
        return None
    if current.tags.get(Tag.RECIPE) != recipe_hash:
        return None
    reason = (
        f"{current.id} was made from this recipe, this software and this base image "
        f'({recipe_hash}); {{"force": true}} bakes it anew'
    )
    return Unchanged(current.id, reason)


def disk_fault(root_gib: int, base: Image) -> Fault | None:
    """Whether the disk that the recipe asks for could not hold the base image's."""
    least = base.snapshots[0].gib if base.snapshots else 0
    if root_gib >= least:
        return None
    return Fault(
        "root_gib", f"found {root_gib}; the disk of the base image {base.id} has {least} GiB, none is smaller"
    )


def roll_back(
    previous: str | None, image: Image | None, *, yard: str, current: str | None
) -> RollbackPlan | Refused:
    """`previous` and `current` are the parameters' values, `image` what EC2 knows of the previous one."""
    word = errors.RollbackRefused.__name__
    if previous is None or previous == NO_IMAGE:
        return Refused(
            word, "There is no previous image yet: the yard has published one image at most. Bake another."
        )
    if image is None:
        return Refused(word, f"The previous image {previous} does not exist any more. Bake another.")
    if not image.is_of(yard):
        return Refused(
            word, f"The previous image {previous} lacks the tag {Tag.YARD}={yard}: no host may use it."
        )
    if not image.available:
        return Refused(word, f"The previous image {previous} is {image.state}, not available. Bake another.")
    return RollbackPlan(f"{previous} becomes the current image again, {current} the previous one")


def under_way(run: str) -> Refused:
    reason = (
        f"The bake {run} is under way, and one bake at a time moves the image parameter. Start this one again when "
        "that one is over; if both are to make the same image, there is no need to."
    )
    return Refused(errors.BakeUnderWay.__name__, reason)


def after(trouble: Trouble, *, attempt: int, now: datetime, deadline: datetime) -> Retry | EndRun:
    """Another builder, or the end of the bake. What the recipe, the tests or EC2's image made fail is final: another
    builder would come out alike."""
    stop = partial(EndRun, attempt=attempt)
    happened = f"Builder {attempt} of at most {MOST_BUILDERS}: {_what(trouble)}"
    if trouble.final or not trouble.is_passing:
        return stop(error=trouble.error, reason=_what(trouble))
    pause = BUILDER_SECONDS.get(trouble.error, 10)
    if now + timedelta(seconds=pause) >= deadline:
        return stop(
            error="LimitReached", reason=f"{happened} The recipe's builder.hours are used up; raise them."
        )
    if attempt >= MOST_BUILDERS:
        return stop(error=trouble.error, reason=f"{happened} No further builder is tried; bake again later.")
    where = (
        "on demand, where a pool has room" if trouble.error == errors.Interrupted.__name__ else "as planned"
    )
    return Retry(
        seconds=pause,
        keep=KeptHosts.NONE,
        reason=f"{happened} Another builder follows, {where}, and begins anew.",
        attempt=attempt + 1,
    )


def tests_failed(results: Mapping[str, Any]) -> str | None:
    """The failed tests with their reasons, from tests.json; None when it names none."""
    failed = [test for test in results.get("tests", ()) if test.get("outcome") == "failed"]
    if not failed:
        return None
    count = len(results["tests"])
    reasons = "; ".join(f"{test['name']}: {test.get('reason') or 'no reason given'}" for test in failed)
    return f"{len(failed)} of {count} tests failed, so there is no image: {reasons}"


def last_word(step: str, tail: str) -> str | None:
    """Why a document failed, as it says itself at its end: `install failed: ...`; None when it could not."""
    found = [line for line in tail.splitlines() if line.startswith(f"{step} failed: ")]
    return found[-1] if found else None


def test_counts(results: Mapping[str, Any]) -> str:
    """`8 passed, 2 skipped`: the tag Tag.TESTS."""
    outcomes = [str(test.get("outcome")) for test in results.get("tests", ())]
    return ", ".join(
        f"{outcomes.count(each)} {each}" for each in ("passed", "failed", "skipped") if each in outcomes
    )


def baked_name(yard: str, run: str, *, attempt: int) -> str:
    """The image's name: at most 128 characters that EC2 allows; one per builder, so CreateImage happens once."""
    return f"{yard}-baked-{run}-{attempt}"


def baked_tags(
    yard: str, recipe: Mapping[str, Any], results: Mapping[str, Any], run: str, *, name: str
) -> dict[str, str]:
    """The tags of image and snapshots, as docs/contracts/images.md has them."""
    versions = {f"{PREFIX}{what}": str(results.get(what) or "none") for what in VERSIONS[:3]}
    return {
        Tag.YARD: yard,
        Tag.RUN: run,
        Tag.KIND: "baked",
        Tag.FAMILY: str(recipe["name"]),
        Tag.PARENT: str(recipe["base"]),
        Tag.RECIPE: str(recipe["hash"]),
        Tag.SOFTWARE: str(recipe["software"]),
        Tag.TESTS: test_counts(results) or "none",
        "Name": name,
        **versions,
    }


def discarded(made: Iterable[Image], *, run: str, keep: Collection[str]) -> tuple[str, ...]:
    """Of the yard's images those that this bake made and that nobody will use: neither published nor pointed to."""
    return tuple(
        image.id
        for image in made
        if image.run == run and image.tags.get(Tag.KIND) == "baked" and image.id not in keep
    )


def _what(trouble: Trouble) -> str:
    why = f": {trouble.reason.strip()}" if trouble.reason.strip() else ""
    text = f"{trouble.error}{why}"
    return text if text.endswith((".", "!", "?")) else f"{text}."
