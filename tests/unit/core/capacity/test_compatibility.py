"""Instance types that an image cannot use, with reasons. Each row tests one rule."""
# ruff: noqa: E501 - one line a row

from dataclasses import replace

import pytest

from lambdas.core.capacity.compatibility import Software, find_conflicts, software_of
from tests.unit.core.builders import an_image
from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import catalog, instance_type

BASE = Software("x86_64")
"""AWS's current base image, and every image without tags of its software."""
BAKED = Software("x86_64", driver="595.71.05", cuda="12.5.1", tensorflow="2.21.0")
OLD = Software("x86_64", driver="570.195.03", proprietary=True, cuda="12.5.1", tensorflow="2.21.0")
"""An image made from AWS's base image with the proprietary driver."""

RULES = [
    # name, type, image, part of the reason (None: compatible)
    ("every type of today on a base image", "g4dn.xlarge", BASE, None),
    ("Ampere on a base image", "g5.xlarge", BASE, None),
    ("Blackwell on a base image, for a bake", "p6-b200.48xlarge", BASE, None),
    (
        "Kepler on a base image",
        "p2.xlarge",
        BASE,
        "K80 (Kepler), which the NVIDIA driver of AWS's current base images does not support",
    ),
    (
        "Volta on a base image",
        "p3.2xlarge",
        BASE,
        "V100 (Volta), which the NVIDIA driver of AWS's current base images",
    ),
    ("Volta with more memory", "p3dn.24xlarge", BASE, "need a Turing or newer"),
    ("Turing on a baked image", "g4dn.xlarge", BAKED, None),
    ("Hopper on a baked image", "p5.48xlarge", BAKED, None),
    (
        "Kepler after its last driver",
        "p2.xlarge",
        BAKED,
        "K80 (Kepler), whose last driver branch was 470; the image's NVIDIA driver is 595.71.05",
    ),
    ("Volta after its last driver", "p3.2xlarge", BAKED, "whose last driver branch was 580"),
    (
        "Volta on its last driver with open modules",
        "p3.2xlarge",
        replace(BAKED, driver="580.105.08"),
        "with the open kernel modules, which need a Turing or newer",
    ),
    ("Volta on a proprietary driver", "p3.8xlarge", OLD, None),
    ("Kepler on a proprietary driver that is too new", "p2.8xlarge", OLD, "last driver branch was 470"),
    (
        "Kepler on a proprietary driver of its time, with today's TensorFlow",
        "p2.xlarge",
        replace(OLD, driver="470.256.02"),
        "uses CUDA 12.5.1, which needs an NVIDIA driver of 525.60.13 or newer; the image has 470.256.02",
    ),
    (
        "Kepler with a TensorFlow of its time",
        "p2.xlarge",
        replace(OLD, driver="470.256.02", cuda="11.2", tensorflow="2.10.1"),
        None,
    ),
    (
        "Blackwell before its first driver",
        "g7.2xlarge",
        replace(BAKED, driver="550.54.15", tensorflow=None),
        "RTX-PRO-4500 (Blackwell), which needs a driver of branch 570 or newer; the image's NVIDIA driver is 550.54.15",
    ),
    (
        "Blackwell with TensorFlow's own release",
        "p6-b300.48xlarge",
        BAKED,
        "for which TensorFlow 2.21.0 of the image is not built",
    ),
    (
        "the same with an unknown driver",
        "g7e.2xlarge",
        Software("x86_64", tensorflow="2.20.0"),
        "CUDA_ERROR_INVALID_PTX",
    ),
    (
        "Blackwell with another's build of TensorFlow",
        "p6-b200.48xlarge",
        replace(BAKED, tensorflow="2.17.0+nv25.2"),
        None,
    ),
    (
        "Blackwell with an untested release",
        "p6-b200.48xlarge",
        replace(BAKED, tensorflow="2.23.0"),
        None,
    ),
    ("CUDA 12 on a driver that just suffices", "g5.xlarge", replace(BAKED, driver="525.60.13"), None),
    (
        "CUDA 12 on a driver that just does not",
        "g5.xlarge",
        replace(BAKED, driver="525.60.11"),
        "needs an NVIDIA driver of 525.60.13",
    ),
    (
        "CUDA 13 on a driver for 12",
        "g6.xlarge",
        replace(BAKED, driver="570.86.10", cuda="13.0"),
        "CUDA 13.0, which needs an NVIDIA driver of 580",
    ),
    ("CUDA 13 on its driver", "g6.xlarge", replace(BAKED, driver="580.65.06", cuda="13.0"), None),
    ("a CUDA of tomorrow", "g6.xlarge", replace(BAKED, cuda="15.0"), None),
    (
        "an arm64 type, an x86_64 image",
        "g5g.xlarge",
        BAKED,
        "The type's processors are arm64, the image is for x86_64.",
    ),
    (
        "an x86_64 type, an arm64 image",
        "g5.xlarge",
        replace(BAKED, architecture="arm64"),
        "The type's processors are x86_64, the image is for arm64.",
    ),
    ("an arm64 type, an arm64 image", "g5g.xlarge", replace(BAKED, architecture="arm64"), None),
    ("an image of unknown architecture", "g5g.xlarge", replace(BAKED, architecture=None), None),
    (
        "a type without a GPU: only its processors count",
        "m7i.xlarge",
        replace(BAKED, driver="1.0", cuda="13.0"),
        None,
    ),
    (
        "a type without a GPU of the wrong processors",
        "m7i.xlarge",
        Software("arm64"),
        "processors are x86_64",
    ),
    (
        "two reasons at once",
        "p3.2xlarge",
        Software("arm64", driver="595.71.05"),
        "the image is for arm64. The type has a V100 (Volta), whose last",
    ),
]


@pytest.mark.parametrize(("name", "image", "said"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_an_image_works_on_a_type_or_there_is_a_reason(name: str, image: Software, said: str | None) -> None:
    reason = find_conflicts(instance_type(name), image)
    if said is None:
        assert reason is None
    else:
        assert said in str(reason)


def test_a_base_image_serves_every_generation_that_is_sold_and_no_older_one() -> None:
    refused = {kind.name.split(".")[0] for kind in catalog().types.values() if find_conflicts(kind, BASE)}
    assert refused == {"p2", "p3", "p3dn", "g5g"}


SAID = [
    ("a base image", an_image(), Software("x86_64")),
    (
        "a baked one",
        an_image(driver="595.71.05", cuda="12.5.1", tensorflow="2.21.0"),
        Software("x86_64", "595.71.05", False, "12.5.1", "2.21.0"),
    ),
    ("one with the closed modules", an_image(driver="570.195.03 proprietary"), Software("x86_64", "570.195.03", True)),
    ("one with the open modules said", an_image(driver="595.71.05 open"), Software("x86_64", "595.71.05")),
    ("one baked without a GPU", an_image(driver="none", cuda="none", tensorflow="2.21.0"), Software("x86_64", tensorflow="2.21.0")),
    ("one that EC2 says nothing of", Image("ami-1", "", "available", "", "", {}), Software(None)),
]  # fmt: skip


@pytest.mark.parametrize(("image", "known"), [row[1:] for row in SAID], ids=[row[0] for row in SAID])
def test_the_tags_say_what_an_image_holds(image: Image, known: Software) -> None:
    assert software_of(image) == known
