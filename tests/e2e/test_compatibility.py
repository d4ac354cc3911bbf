"""Hosts start from the planned image on compatible types; the plan names the reason for all other types."""

from typing import Any

import pytest

from tests.e2e.runs import Runs
from tests.support import quick
from trainyard.client import Run

SMALL: dict[str, Any] = {"cluster": {"workers": 1}, "program": {"args": {"steps": 20, "step-delay": 0.01}}}


def image_of(runs: Runs, ami: str) -> dict[str, str]:
    """Return the tags of an image without their prefix."""
    (image,) = runs.yard.session.client("ec2").describe_images(ImageIds=[ami])["Images"]
    return {tag["Key"].removeprefix("trainyard:"): tag["Value"] for tag in image["Tags"]}


def started_from(run: Run) -> set[str]:
    return {instance["ImageId"] for instance in run.yard.instances(run.id)}


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            ["p3.2xlarge"],
            "V100 (Volta), which the NVIDIA driver of AWS's current base images does not support",
        ),
        (
            ["p2.xlarge"],
            "K80 (Kepler), which the NVIDIA driver of AWS's current base images does not support",
        ),
        (["g5g.xlarge"], "The type's processors are arm64, the image is for x86_64."),
        (["g7.2xlarge"], "for which TensorFlow 2.21.0 of the image is not built"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_type_that_the_image_does_not_work_on_is_refused_with_the_reason(
    runs: Runs, types: list[str], message: str
) -> None:
    name = types[0].replace(".", "-")
    run = runs.run(runs.job(name, hardware={"instance_types": types, "market": "spot_then_on_demand"}))
    assert (run.execution.status, run.execution.error) == ("FAILED", "NoCapacity"), run.why()
    assert message in run.execution.cause
    assert message in run.summary["reason"]
    excluded = run.json("plan.json")["excluded"]
    assert {each["code"] for each in excluded} == {"incompatible"}
    assert {each["market"] for each in excluded} == {"spot", "on_demand"}
    assert run.yard.instances(run.id) == []


def test_the_other_types_of_the_job_are_used(runs: Runs) -> None:
    types = ["p3.2xlarge", "g5g.xlarge", "g6.xlarge"]
    run = runs.run(runs.job("old-and-new", hardware={"instance_types": types}, **SMALL))
    assert run.succeeded, run.why()
    plan = run.json("plan.json")
    assert {candidate["type"] for candidate in plan["candidates"]} == {"g6.xlarge"}
    assert {each["type"]: each["code"] for each in plan["excluded"]} == dict.fromkeys(
        types[:2], "incompatible"
    )


@pytest.mark.parametrize("called", ["id", "run", "family"])
def test_a_job_starts_from_the_image_that_it_names(runs: Runs, called: str) -> None:
    baked = runs.yard.image()
    name = baked if called == "id" else image_of(runs, baked)[called]
    run = runs.run(runs.job(f"named-by-{called}", hardware={"image": name}, **SMALL))
    assert run.succeeded, run.why()
    if called != "family":  # a family may have a newer image
        assert started_from(run) == {baked}
    assert started_from(run) == {run.json("plan.json")["image"]}


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("ami-0123456789abcdef0", "hardware.image: the yard has no image"),
        (
            "unknown-family",
            "hardware.image: the yard has no image, run with an image, or image family called 'unknown-family'",
        ),
    ],
)
def test_an_image_that_there_is_not_is_refused(runs: Runs, image: str, message: str) -> None:
    run = runs.run(runs.job("no-such-image", hardware={"image": image}))
    assert (run.execution.status, run.execution.error) == ("FAILED", "JobRefused"), run.why()
    assert message in run.summary["reason"]
    assert run.yard.instances(run.id) == []


def test_a_base_image_of_amazon_is_no_image_of_the_yard(runs: Runs) -> None:
    ec2 = runs.yard.session.client("ec2")
    base = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    run = runs.run(runs.job("foreign-image", hardware={"image": base}))
    assert run.execution.error == "JobRefused", run.why()
    assert f"{base}, which this yard did not make" in run.summary["reason"]


def test_a_run_keeps_its_image_when_the_current_one_changes(runs: Runs) -> None:
    """Change the current image as a bake does. After an interruption the next host starts from the old image."""
    ssm, planned = runs.yard.session.client("ssm"), runs.yard.image()
    job = runs.job("keeps-its-image", cluster={"workers": 1}, program={"args": quick.LONG_AT_FIRST})
    run = runs.in_mid_training(job)
    try:
        ssm.put_parameter(Name="/trainyard/image", Value="ami-00000000000000000", Overwrite=True)
        runs.cloud.fault("interrupt", runs.host_of(run, "chief"))
        runs.finish(run)
    finally:
        ssm.put_parameter(Name="/trainyard/image", Value=planned, Overwrite=True)
    assert run.succeeded, run.why()
    assert run.summary["restarts"] == 1
    assert len(run.yard.instances(run.id)) == 2
    assert started_from(run) == {planned}
