"""A container image in a plan: pools of other processors are excluded, and the disk must hold it."""

from dataclasses import replace

from lambdas.core.capacity import candidates, container
from lambdas.core.capacity.candidates import NoPlan
from tests.unit.core.builders import NOON, job, plan_inputs
from tests.unit.core.capacity.planning import planned
from trainyard.core.model.instance_types import instance_type
from trainyard.core.model.job import Job
from trainyard.core.model.program import Program
from trainyard.protocol.containers import Container, Manifest

DIGEST = "sha256:" + "a" * 64
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/vision/train:v7"


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
    found = container.describe(
        _with("docker.io/team/train:v1").program.container, instance_type("g6.xlarge"), 4, 100
    )
    expected = (
        "docker.io/team/train:v1: each of 4 hosts pulls 3.2 GiB (through a NAT gateway $0.61 for all hosts) and needs "
        "10 GiB of 100."
    )
    assert found == expected


def test_an_image_that_no_registry_described_has_no_size() -> None:
    unknown = Container(image="docker.io/team/train:v1")
    found = container.describe(unknown, instance_type("g6.xlarge"), 2, 100)
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
