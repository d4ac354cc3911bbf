"""The TensorFlow of a recipe, and the image of a job that names a version."""

from pathlib import Path

import pytest

from trainyard.core.jobfile import recipe
from trainyard.core.jobfile.recipe import Recipe
from trainyard.core.model.images.image import Image, select_image
from trainyard.core.model.images.tensorflow_releases import USUAL, is_known
from trainyard.locks import pins
from trainyard.values import serialization
from trainyard.values.validation import InputFaults

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("name", ["requirements/host.txt", "requirements/host-local.txt"])
def test_the_usual_release_is_what_hosts_are_made_with(name: str) -> None:
    pinned = dict(pins((ROOT / name).read_text()))
    assert USUAL.keras == pinned["keras"]
    assert USUAL.tensorflow in (pinned.get("tensorflow"), pinned.get("tensorflow-cpu"))


@pytest.mark.parametrize(
    ("tensorflow", "cuda", "comes_to"),
    [
        ("~=2.21.0", ">=12.5", "~=2.21.0"),
        ("~=2.18.0", None, "==2.18.1"),
        ("==2.18.0", None, "==2.18.0"),
        (">=2.16, <2.18", None, "==2.17.1"),
        (None, "~=12.3.0", "==2.17.1"),
        (">=2.16", "==12.3", "==2.17.1"),
        (None, ">=12.4", None),
    ],
)
def test_a_recipe_comes_to_the_newest_release_that_it_asks_for(
    tensorflow: str | None, cuda: str | None, comes_to: str | None
) -> None:
    found = recipe.check({"name": "x", "tensorflow": tensorflow, "cuda": cuda}, source="x")
    assert isinstance(found, Recipe), found
    assert found.tensorflow == comes_to
    release = recipe.complete_recipe(found, software="s", base="ami-12345678", base_made="")["release"]
    assert release == (
        None if comes_to in ("~=2.21.0", None) else serialization.to_json(recipe.release_of(found))
    )


@pytest.mark.parametrize(
    ("tensorflow", "cuda", "says"),
    [
        (
            "~=2.15.0",
            None,
            "tensorflow: no release that images can have matches ~=2.15.0; the releases are 2.21.0, 2.20.0",
        ),
        (
            "~=2.18.0",
            "~=12.3.0",
            "cuda: no release is built with CUDA ~=12.3.0: TensorFlow 2.18 has CUDA 12.5",
        ),
        (None, ">=13", "TensorFlow 2.16 has CUDA 12.3; a release has one CUDA"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_builder_starts(
    tensorflow: str | None, cuda: str | None, says: str
) -> None:
    found = recipe.check({"name": "x", "tensorflow": tensorflow, "cuda": cuda}, source="x")
    assert isinstance(found, InputFaults)
    assert says in found.reason


def image(ami: str, tensorflow: str, created: str, *, kind: str = "baked", state: str = "available") -> Image:
    tags = {"trainyard:tensorflow": tensorflow, "trainyard:kind": kind}
    return Image(ami, ami, state, "", created, tags)


SHELF = (
    image("ami-old", "2.18.0", "2026-01-01"),
    image("ami-new", "2.18.1", "2026-02-01"),
    image("ami-failed", "2.18.1", "2026-03-01", state="failed"),
    image("ami-snapshot", "2.18.1", "2026-04-01", kind="snapshot"),
    image("ami-usual", "2.21.0", "2026-05-01"),
    image("ami-theirs", "2.17.0+nv25.2", "2026-05-01"),
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("2.18", "ami-new"),
        ("2.18.0", "ami-old"),
        ("2.1", None),
        ("2.21", "ami-usual"),
        ("2.17", "ami-theirs"),
        ("2.19", None),
    ],
)
def test_a_version_means_the_newest_good_image_that_was_baked_with_it(asked: str, found: str | None) -> None:
    image = select_image({"tensorflow": asked}, SHELF)
    assert (image.id if image else None) == found


def test_what_recipes_know() -> None:
    asked = ("2.15", "2.16", "2.18.1", "2.18.9", "2.21", "2.22")
    assert [version for version in asked if is_known(version)] == ["2.16", "2.18.1", "2.21"]
