"""The recipe of an image and its check, which results in a Recipe or in all of its faults; and the request for a bake.

docs/contracts/images.md ("Images") lists the keys for users and for the builder, which reads recipe.json.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from trainyard.core.jobfile import document
from trainyard.core.model.hardware import BUILDER_TYPES, Hardware
from trainyard.core.model.images import tensorflow_releases
from trainyard.core.model.images.image import AMI
from trainyard.core.model.images.tensorflow_releases import Release
from trainyard.core.model.instance_types import MarketChoice
from trainyard.core.model.job_fields import ANY_TYPES
from trainyard.protocol import keys
from trainyard.protocol.containers import MOST_BAKED, Container, ImageReference
from trainyard.protocol.file_systems import Client
from trainyard.values import serialization
from trainyard.values.fields import Choice, Count, Flag, Number, Several, Text, choices, key, required, texts
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Anything, Record, section_key
from trainyard.values.validation import Fault, InputFaults, any_of

NAME = r"[a-z][a-z0-9-]{0,29}"
PUBLIC = "/aws/service/"
"""Parameters that AWS publishes. Every account may read them."""
PARAMETER = r"/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+"
REQUIREMENT = r"(~=|==|!=|<=|>=|<|>) ?[0-9][0-9A-Za-z.*+-]{0,39}"
REQUIREMENTS = rf"{REQUIREMENT}( ?, ?{REQUIREMENT}){{0,4}}"
SYSTEM_PACKAGE = r"[a-z0-9][a-z0-9+.-]{1,99}(:[a-z0-9]+)?(=[A-Za-z0-9.+~:-]{1,99})?"
PYTHON_PACKAGE = r"[A-Za-z0-9][ -~]{0,299}"
LINE = r"(?=[^\u0000]*\S)[^\u0000]+"
UPLOADED = r"\S{1,1024}"
MOST_PACKAGES = 200
MOST_LINES = 100
REPORT = f"{keys.IMAGES}report.json"
"""The report of kept and retired images, in the folder of the recipes."""


@dataclass(frozen=True, kw_only=True)
class Builder:
    """The instance that an image is made on."""

    instance_types: tuple[str, ...] = key(
        BUILDER_TYPES,
        ANY_TYPES,
        "The instance types on which the image is made and tested. A type without a GPU is used only if no type with "
        "a GPU is available, for example in an account without a quota for GPUs; the tests that need a GPU are "
        "skipped then.",
    )
    market: MarketChoice = key(
        MarketChoice.SPOT_THEN_ON_DEMAND,
        Choice(MarketChoice),
        "`spot_then_on_demand`: every spot pool before any on-demand pool.",
    )
    hours: float = key(
        3.0,
        Number(most=24, unit="hours"),
        "The longest duration of a bake, including the search for an instance.",
    )

    @property
    def hardware(self) -> Hardware:
        return Hardware(instance_types=self.instance_types, market=self.market)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe without faults."""

    name: str = field(
        metadata=required(
            Text(NAME, "a name of 1 to 30 lower-case letters, digits and hyphens that begins with a letter"),
            "The image's family: what `hardware.image` of a job may name.",
        )
    )
    base: str | None = key(
        None,
        Text(
            f"{AMI}|{PARAMETER}",
            f"an AMI's id, or a parameter under {PUBLIC} or of the yard, as in {PUBLIC}deeplearning/ami/...",
        ),
        "The image that the builder starts from.",
        usual="the yard's base image",
    )
    tensorflow: str | None = key(
        None,
        Text(REQUIREMENTS, 'a version requirement as pip writes it, in quotes, as in "~=2.21.0"'),
        f"The TensorFlow version to install, of {tensorflow_releases.RANGE}, with the Keras of its time; the bake's "
        "tests check it.",
        usual=f"`{tensorflow_releases.USUAL.tensorflow}`",
    )
    cuda: str | None = key(
        None,
        Text(REQUIREMENTS, 'a version requirement as pip writes it, in quotes, as in ">=12.5"'),
        "The CUDA version of the TensorFlow build (12.3 up to 2.17, 12.5 from 2.18). The bake installs the newest "
        "release with this version, and its tests check it.",
    )
    upgrade: bool = key(
        False,
        Flag(),
        "`true`: first update the packages of the base image (`apt-get upgrade`; the kernel stays). `--force` bakes "
        "again if nothing else has changed.",
    )
    current: bool = key(
        True,
        Flag(),
        "`true`: the image becomes the yard's current image. `false`: jobs select it by `hardware.image`.",
    )
    system_packages: tuple[str, ...] = key(
        (),
        texts(SYSTEM_PACKAGE, "the name of an apt package", most=MOST_PACKAGES, distinct=True),
        "Installed first.",
    )
    python_packages: tuple[str, ...] = key(
        (),
        texts(
            PYTHON_PACKAGE,
            "a package as pip writes it, as in pandas~=2.2 (no options)",
            most=MOST_PACKAGES,
            distinct=True,
        ),
        "Installed beside TensorFlow.",
    )
    file_systems: tuple[Client, ...] = key(
        (),
        choices(Client),
        "The commands that mount file systems as data: `efs` builds efs-utils for Amazon EFS, `lustre` installs AWS's "
        "client for FSx for Lustre, whose module must load on the kernel of the base image.",
    )
    commands: tuple[str, ...] = key(
        (),
        texts(LINE, "a line for the shell", most=MOST_LINES),
        "Run as root after the packages; one item may be several lines of a script.",
    )
    containers: tuple[str, ...] = key(
        (),
        Several(each=ImageReference(), named=f"up to {MOST_BAKED} container images", most=MOST_BAKED),
        "Container images of the setting `registries` that the image of the hosts contains, so that a job with "
        "`program.container` pulls nothing ([containers](tasks/containers.md#images-on-the-hosts-image)).",
    )
    tests: tuple[str, ...] = key(
        (),
        texts(LINE, "a line for the shell", most=MOST_LINES),
        "Run at the end. An image with a failed test is not published.",
    )
    root_gib: int = key(
        100,
        Count(least=30, most=16_384, because="the size of the root disk in GiB"),
        "The size of the root disk.",
    )
    builder: Builder = section_key(Builder, "The instance that the image is made of.")


@dataclass(frozen=True, kw_only=True)
class BakeRequest:
    """A request for a bake by a recipe, or for an exchange of the current and the previous image."""

    recipe_key: str | None = key(
        None,
        Text(
            keys.IMAGES + r"[^\x00-\x1f]+\.(?i:yaml|yml|json)",
            "a key under images/ that ends in .yaml, .yml or .json",
        ),
        "A recipe in the bucket.",
        usual="the yard's own recipe",
    )
    version_id: str | None = key(None, Text(UPLOADED, "a text"), "The version that was uploaded.")
    etag: str | None = key(None, Text(UPLOADED, "a text"), "Its key, for a bucket without versioning.")
    recipe: Mapping[str, Any] | None = key(None, Anything(), "The recipe itself.")
    force: bool = key(False, Flag(), "`true`: bake even if nothing has changed.")
    rollback: bool = key(False, Flag(), "`true`: bake nothing, and swap the current and the previous image.")


def read_input(execution_input: object, *, usual: str) -> BakeRequest | InputFaults:
    """Read the input of an execution. `usual` is the key of the yard's own recipe, the default for an empty input."""
    request, section = Record(BakeRequest).read_document(execution_input)
    given = [each for each in ("recipe_key", "recipe") if section.has(each)]
    if len(given) > 1:
        section.fault("", "found both recipe_key and recipe; give one, or neither for the yard's own recipe")
    if request.rollback and (given or request.force):
        section.fault("rollback", f"does not bake, so it cannot be combined with {any_of([*given, 'force'])}")
    if section.faults:
        return InputFaults("The execution's input", tuple(section.faults))
    return request if given else replace(request, recipe_key=usual)


def parse(text: bytes, *, source: str) -> Recipe | InputFaults:
    """Read the recipe in a file, or return its faults."""
    found = document.parse(text, source=source, what="a recipe")
    return found if isinstance(found, InputFaults) else check(found, source=source)


def check(recipe: object, *, source: str) -> Recipe | InputFaults:
    """Read the recipe in a mapping such as an inline `{"recipe": {...}}`, or return its faults."""
    found = document.open_document(recipe, Recipe, source=source, what="a recipe")
    if isinstance(found, InputFaults):
        return found
    read, section = found
    if section.faults:
        return InputFaults(source, tuple(section.faults))
    settled = _with_exact_release(read)
    return InputFaults(source, (settled,)) if isinstance(settled, Fault) else settled


def _with_exact_release(recipe: Recipe) -> Recipe | Fault:
    """Return the recipe with the exact version of TensorFlow, unless it is the usual one."""
    if recipe.tensorflow is None and recipe.cuda is None:
        return recipe
    fits = [
        release
        for release in tensorflow_releases.RELEASES
        if _is_requested(release.tensorflow, recipe.tensorflow) and _is_requested(release.cuda, recipe.cuda)
    ]
    if not fits:
        return _no_release(recipe)
    usual = fits[0] == tensorflow_releases.USUAL
    return recipe if usual else replace(recipe, tensorflow=f"=={fits[0].tensorflow}")


def _is_requested(version: str, asked: str | None) -> bool:
    from packaging.specifiers import SpecifierSet  # Imported here, because only bakes need it.

    return asked is None or SpecifierSet(asked).contains(version)


def _no_release(recipe: Recipe) -> Fault:
    known = tensorflow_releases.RELEASES
    mine = [release for release in known if _is_requested(release.tensorflow, recipe.tensorflow)]
    if not mine:
        versions = ", ".join(release.tensorflow for release in known)
        return Fault(
            "tensorflow",
            f"no release that images can have matches {recipe.tensorflow}; the releases are {versions}",
        )
    have = "; ".join(dict.fromkeys(f"TensorFlow {release.minor} has CUDA {release.cuda}" for release in mine))
    return Fault("cuda", f"no release is built with CUDA {recipe.cuda}: {have}; a release has one CUDA")


def release_of(recipe: Recipe) -> Release | None:
    """Return the release to install instead of the usual TensorFlow, or None for the usual one."""
    return next(
        (each for each in tensorflow_releases.RELEASES if recipe.tensorflow == f"=={each.tensorflow}"), None
    )


def readable(parameter: str, *, usual: str, yard: str) -> bool:
    """Return True if Admit may read this parameter for a base image: AWS's public parameters, the yard's, and
    `usual`."""
    return parameter == usual or parameter.startswith((PUBLIC, f"/{yard}/"))


def is_ami(value: str) -> bool:
    return re.fullmatch(AMI, value) is not None


def hash_of(
    recipe: Recipe, *, software: str, base: str, base_made: str, containers: Sequence[Container] = ()
) -> str:
    """Return 16 hexadecimal digits that change when the resulting image would change.

    `base` is the AMI's id. `base_made` is its time, because the local cloud's base image changes with its packages.
    `containers` have the digests that the recipe's container images have now.
    """
    facts = serialization.to_json(replace(recipe, base=base)) | {"software": software, "base_made": base_made}
    facts["containers"] = [each.pinned.image for each in containers]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def complete_recipe(
    recipe: Recipe, *, software: str, base: str, base_made: str, containers: Sequence[Container] = ()
) -> dict[str, Any]:
    """Return recipe.json: every key with its default, the AMI instead of the base's name, the digests of the container
    images, and the hash."""
    document: dict[str, Any] = serialization.to_json(replace(recipe, base=base))
    release = release_of(recipe)
    document |= {"release": serialization.to_json(release) if release != tensorflow_releases.USUAL else None}
    document |= {"containers": [serialization.to_json(each) for each in containers]}
    digits = hash_of(recipe, software=software, base=base, base_made=base_made, containers=containers)
    return document | {"software": software, "hash": digits}
