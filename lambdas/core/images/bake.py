"""Decisions of a bake: whether to bake, whether to replace a lost builder, the image's name and tags, and the image
parameters afterwards."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from lambdas.core.capacity.retained_hosts import RetainedHosts
from lambdas.core.run.recovery import EndRun, Retry, Trouble
from trainyard.core.model import errors
from trainyard.core.model.errors import Refused
from trainyard.core.model.images.image import Image
from trainyard.protocol.containers import Container, write_tag
from trainyard.protocol.tags import PREFIX, Tag
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault

NO_IMAGE = "none"
"""The value of an image parameter before the first image."""
MOST_BUILDERS = 3
"""Builders of one bake, each after a trouble that may pass, for example a builder that Systems Manager never listed."""
VERSIONS = ("driver", "cuda", "tensorflow", "architecture")
"""Versions in tests.json. The first three are tags of the image."""
BUILDER_SECONDS = {"Interrupted": 0}
"""Seconds before the next builder; 10 for every other trouble."""


@dataclass(frozen=True)
class Unchanged:
    """The current image is the same as the bake would make."""

    kind: ClassVar[str] = "unchanged"
    image: str
    reason: str


@dataclass(frozen=True)
class RollbackPlan:
    """The current and the previous image swap."""

    kind: ClassVar[str] = "rollback"
    reason: str


def find_unchanged(current: Image | None, *, yard: str, recipe_hash: str) -> Unchanged | None:
    """Return that a bake would change nothing; None if it has to bake. `current` is the current image."""
    if current is None or not current.is_of(yard) or not current.available:
        return None
    if current.tags.get(Tag.RECIPE) != recipe_hash:
        return None
    reason = (
        f"{current.id} was made from this recipe, this software and this base image "
        f'({recipe_hash}); {{"force": true}} bakes it again'
    )
    return Unchanged(current.id, reason)


def disk_fault(root_gib: int, base: Image) -> Fault | None:
    """Return the fault of a recipe whose disk is smaller than the base image's; None otherwise."""
    least = base.snapshots[0].gib if base.snapshots else 0
    if root_gib >= least:
        return None
    return Fault(
        "root_gib",
        f"found {root_gib}; the disk of the base image {base.id} has {least} GiB, and no disk may be smaller",
    )


def roll_back(
    previous: str | None, image: Image | None, *, yard: str, current: str | None
) -> RollbackPlan | Refused:
    """Decide a rollback. `previous` and `current` are the values of the parameters; `image` is the previous image in
    EC2."""
    word = errors.RollbackRefused.__name__
    if previous is None or previous == NO_IMAGE:
        return Refused(word, "The yard has no previous image yet. Bake another image.")
    if image is None:
        return Refused(word, f"The previous image {previous} no longer exists. Bake another image.")
    if not image.is_of(yard):
        return Refused(
            word, f"The previous image {previous} lacks the tag {Tag.YARD}={yard}, so no host may use it."
        )
    if not image.available:
        return Refused(
            word, f"The previous image {previous} is {image.state}, not available. Bake another image."
        )
    return RollbackPlan(f"{previous} becomes the current image again, {current} the previous one")


def refuse_second(run: str) -> Refused:
    reason = (
        f"The bake {run} is running, and only one bake at a time may change the image parameter. Start this one after "
        "it has ended, unless both make the same image."
    )
    return Refused(errors.BakeUnderWay.__name__, reason)


def decide_after(trouble: Trouble, *, attempt: int, now: datetime, deadline: datetime) -> Retry | EndRun:
    """Decide whether another builder follows. A failure of the recipe, the tests or EC2's image is final, because
    another builder would fail the same way."""
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
    where = "on demand if possible" if trouble.error == errors.Interrupted.__name__ else "as planned"
    return Retry(
        seconds=pause,
        keep=RetainedHosts.NONE,
        reason=f"{happened} Another builder follows, {where}, and starts from the beginning.",
        attempt=attempt + 1,
    )


def tests_failed(results: Mapping[str, Any]) -> str | None:
    """Return the failed tests of tests.json with their reasons; None if none failed."""
    failed = [test for test in results.get("tests", ()) if test.get("outcome") == "failed"]
    if not failed:
        return None
    count = len(results["tests"])
    reasons = "; ".join(f"{test['name']}: {test.get('reason') or 'no reason given'}" for test in failed)
    return f"{len(failed)} of {count} tests failed, so no image was made: {reasons}"


def find_failure(step: str, tail: str) -> str | None:
    """Return the last line of a failed step (`install failed: ...`); None if it wrote none."""
    found = [line for line in tail.splitlines() if line.startswith(f"{step} failed: ")]
    return found[-1] if found else None


def test_counts(results: Mapping[str, Any]) -> str:
    """Return the value of the tag Tag.TESTS: `8 passed, 2 skipped`."""
    outcomes = [str(test.get("outcome")) for test in results.get("tests", ())]
    return ", ".join(
        f"{outcomes.count(each)} {each}" for each in ("passed", "failed", "skipped") if each in outcomes
    )


def baked_name(yard: str, run: str, *, attempt: int) -> str:
    """Return the name of the image. Each builder has its own, so CreateImage happens once. EC2 allows 128
    characters."""
    return f"{yard}-baked-{run}-{attempt}"


def baked_tags(
    yard: str, recipe: Mapping[str, Any], results: Mapping[str, Any], run: str, *, name: str
) -> dict[str, str]:
    """Return the tags of the image and its snapshots (docs/contracts/images.md)."""
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
        Tag.CONTAINERS: _containers(recipe, str(results.get("architecture") or "")),
        "Name": name,
        **versions,
    }


def _containers(recipe: Mapping[str, Any], architecture: str) -> str:
    """Return the value of the tag Tag.CONTAINERS. `architecture` is the builder's, by EC2's name."""
    listed = [serialization.from_json(Container, each) for each in recipe.get("containers", ())]
    found = [each.for_machine(architecture) for each in listed]
    return write_tag(each.digest for each in found if each)


def find_discarded(made: Iterable[Image], *, run: str, keep: Collection[str]) -> tuple[str, ...]:
    """Return this bake's images that are neither published nor named by a parameter."""
    return tuple(
        image.id
        for image in made
        if image.run == run and image.tags.get(Tag.KIND) == "baked" and image.id not in keep
    )


def _what(trouble: Trouble) -> str:
    why = f": {trouble.reason.strip()}" if trouble.reason.strip() else ""
    text = f"{trouble.error}{why}"
    return text if text.endswith((".", "!", "?")) else f"{text}."
