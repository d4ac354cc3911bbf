"""A container image in a plan: pools of other processors are excluded, and the disk must hold it."""

from dataclasses import replace
from typing import Any

import pytest

from lambdas.core.capacity import candidates, container, container_driver
from lambdas.core.capacity.candidates import NoPlan
from lambdas.core.capacity.compatibility import software_of
from tests.unit.core.builders import NOON, job, plan_inputs
from tests.unit.core.capacity.planning import planned
from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import instance_type
from trainyard.core.model.job import Job
from trainyard.core.model.program import Program
from trainyard.protocol.containers import Container, Manifest, write_tag
from trainyard.protocol.tags import Tag

DIGEST = "sha256:" + "a" * 64
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/vision/train:v7"

TAGS = {Tag.KIND: "baked", Tag.SOFTWARE: "s", Tag.FAMILY: "gpu"}
CURRENT = Image("ami-1", "current", "available", "", "2026-11-21", TAGS, "x86_64")


def _baked(name: str, **changes: Any) -> Image:
    """Return an image that contains the container image."""
    tags = {**CURRENT.tags, Tag.CONTAINERS: write_tag(["sha256:" + "b" * 64, DIGEST]), Tag.FAMILY: "mine"}
    return replace(CURRENT, id=name, tags=tags | changes.pop("tags", {}), **changes)


def _with(image: str = ECR, size: int = 3_400_000_000, *names: str) -> Job:
    made = {name: Manifest(digest=DIGEST, size=size) for name in names or ("amd64",)}
    hardware = {"instance_types": ["g6.xlarge", "g5.xlarge"], "disk_gib": 100}
    return replace(
        job(hardware=hardware),
        program=Program(container=Container(image=image, digest=DIGEST, manifests=made)),
    )


def test_the_plan_names_what_each_host_pulls_and_needs() -> None:
    reason = planned(_with()).reason
    assert reason.endswith(f" {ECR}: each of 2 hosts pulls 3.2 GiB and needs 10 GiB of 100.")


def test_another_registry_has_the_price_of_the_gateway() -> None:
    wanted = _with("docker.io/team/train:v1").program.container
    found = container.describe(wanted, CURRENT, instance_type("g6.xlarge"), 4, 100)
    expected = (
        "docker.io/team/train:v1: each of 4 hosts pulls 3.2 GiB (through a NAT gateway $0.61 for all hosts) and needs "
        "10 GiB of 100."
    )
    assert found == expected


def test_an_image_that_no_registry_described_has_no_size() -> None:
    unknown = Container(image="docker.io/team/train:v1")
    found = container.describe(unknown, CURRENT, instance_type("g6.xlarge"), 2, 100)
    assert found == "docker.io/team/train:v1 is pulled by 2 hosts; its size is unknown."
    assert container.find_conflict(unknown, instance_type("g5g.xlarge")) is None


def test_types_of_another_architecture_are_excluded_with_the_reason() -> None:
    found = container.find_conflict(_with().program.container, instance_type("g5g.xlarge"))
    assert found == ("The type's processors are arm64 (linux/arm64), the container image is for linux/amd64.")
    refused = candidates.make_plan(_with(ECR, 5, "arm64"), plan_inputs(), now=NOON)
    assert isinstance(refused, NoPlan)
    assert {each.code for each in refused.excluded} == {"incompatible"}
    assert "the container image is for linux/arm64" in refused.reason


def test_an_image_that_does_not_fit_on_the_disk_is_refused() -> None:
    refused = candidates.make_plan(_with(ECR, 10**12), plan_inputs(), now=NOON)
    assert isinstance(refused, NoPlan)
    assert refused.error == "JobRefused"
    assert (
        f"hardware.disk_gib: {ECR} needs 2794 GiB on each host, 3 times its compressed layers"
        in refused.reason
    )


def test_hosts_start_from_an_image_that_contains_the_container_image() -> None:
    wanted = _with().program.container
    older, newer = _baked("ami-2"), _baked("ami-3", created="2026-11-22")
    assert container.prefer(wanted, CURRENT, [CURRENT, older, newer]) is newer
    said = container.describe(wanted, newer, instance_type("g6.xlarge"), 4, 100)
    assert said == f"{ECR} is already on the image ami-3 (mine): hosts pull nothing."
    assert container.find_fault(_with(ECR, 10**12).program.container, newer, 100) is None
    assert container.prefer(None, CURRENT, [newer]) is CURRENT


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "failed"},
        {"architecture": "arm64"},
        {"tags": {Tag.SOFTWARE: "another"}},
        {"tags": {Tag.KIND: "snapshot"}},
        {"tags": {Tag.CONTAINERS: "none"}},
    ],
)
def test_another_image_is_not_preferred(changes: dict[str, Any]) -> None:
    assert container.prefer(_with().program.container, CURRENT, [_baked("ami-2", **changes)]) is CURRENT


BRANDS = "cuda>=12.4 brand=tesla,driver>=535,driver<536 brand=unknown,driver>=470,driver<471"


@pytest.mark.parametrize(
    ("driver", "cuda", "requires", "says"),
    [
        ("550.54", "12.4.0", BRANDS, None),
        ("535.104 proprietary", "12.4.0", BRANDS, None),
        (
            "545.23",
            "12.4.0",
            BRANDS,
            "requires cuda>=12.4 (NVIDIA_REQUIRE_CUDA), and the image of the hosts has",
        ),
        ("545.23", "12.4.0", "", None),
        (
            "570.1",
            "13.0.1",
            "",
            "has CUDA 13.0.1, which needs an NVIDIA driver of 580 or newer; the image of the",
        ),
        ("595.1", "13.2", "cuda>=13.2", None),
        ("none", "13.0.1", "cuda>=13.0", None),
        ("570.1", "", "", None),
        ("570.1", "somewhat", "brand=grid", None),
    ],
)
def test_a_container_with_a_newer_cuda_than_the_driver_is_excluded(
    driver: str, cuda: str, requires: str, says: str | None
) -> None:
    software = software_of(replace(CURRENT, tags={Tag.DRIVER: driver}))
    found = container_driver.find_conflict(Manifest(digest=DIGEST, cuda=cuda, requires=requires), software)
    assert (found is None) if says is None else says in str(found)


def test_a_plan_names_the_driver_that_is_too_old() -> None:
    made = _with()
    wanted = made.program.container
    assert wanted
    newer = {"amd64": Manifest(digest=DIGEST, cuda="13.0.1")}
    made = replace(made, program=replace(made.program, container=replace(wanted, manifests=newer)))
    inputs = plan_inputs()
    hosts = replace(inputs.image.image or CURRENT, tags={Tag.YARD: "trainyard", Tag.DRIVER: "570.1"})
    refused = candidates.make_plan(made, replace(inputs, image=replace(inputs.image, image=hosts)), now=NOON)
    assert isinstance(refused, NoPlan)
    assert (
        "The container image has CUDA 13.0.1, which needs an NVIDIA driver of 580 or newer" in refused.reason
    )
