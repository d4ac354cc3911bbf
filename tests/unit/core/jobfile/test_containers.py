"""The section program.container of a job file: its forms, its bad inputs, and the digest of a run that is repeated."""

from dataclasses import replace
from typing import Any

import pytest

from trainyard.core.jobfile import check, program_archive, program_warnings, written
from trainyard.core.jobfile.program_archive import Archive
from trainyard.core.model.job import Job
from trainyard.protocol.containers import Container, Manifest
from trainyard.values import serialization
from trainyard.values.validation import InputFaults

ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/vision/train:v7"
DIGEST = "sha256:" + "a" * 64


def _check(container: Any, **more: Any) -> Job | InputFaults:
    hardware = more.pop("hardware", {})
    program = {"container": container, **more}
    return check.check(
        {"name": "train", "program": program, "hardware": hardware}, source="job.yaml", bucket="b"
    )


def _reason(container: Any, **more: Any) -> str:
    found = _check(container, **more)
    assert isinstance(found, InputFaults)
    return found.reason


def test_a_container_is_a_name_or_a_mapping() -> None:
    short, long = _check(ECR), _check({"image": ECR, "entrypoint": False, "login": None})
    assert isinstance(short, Job)
    assert isinstance(long, Job)
    assert short.program.container == Container(image=ECR)
    assert long.program.container == Container(image=ECR, entrypoint=False)
    assert short.program.called == ECR


def test_the_module_may_be_one_of_the_image() -> None:
    assert isinstance(_check("team/train", module="train.main"), Job)
    assert isinstance(_check("team/train", command=["python", "train.py"]), Job)


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        ("", 'program.container: "" is empty'),
        (5, "program.container: found the number 5; the name of an image"),
        (True, "program.container: found the boolean true; the name of an image"),
        (["a"], "program.container: found a list; the name of an image"),
        ("a:b:c", 'program.container: "a:b:c" has several tags'),
        ({}, "program.container.image: is missing"),
        ({"image": "A"}, "program.container.image: "),
        ({"image": "a", "entrypoint": "no"}, 'program.container.entrypoint: found "no"'),
        ({"image": "a", "login": "user:password"}, "program.container.login: "),
        ({"image": ECR, "login": "ngc"}, "program.container.login: is for other registries"),
        ({"image": "a", "tag": "v1"}, "program.container.tag: unknown key"),
    ],
)
def test_bad_containers_have_their_own_sentences(container: Any, reason: str) -> None:
    assert reason in _reason(container)


def test_a_module_that_the_source_lacks_may_be_one_of_the_image() -> None:
    job = _check("team/train", module="installed.main", source="s3://b/programs/p.tar.gz")
    assert isinstance(job, Job)
    archive = Archive(frozenset({"train.py"}), {"train.py": b"import tensorflow as tf\ntf.Session()\n"})
    assert program_archive.faults(job, archive) == ()
    started = replace(job, program=replace(job.program, module="train"))
    assert program_warnings.warnings(started, archive) == ()
    outside = replace(started, program=replace(started.program, container=None))
    assert program_warnings.warnings(outside, archive)


def test_a_container_has_its_own_tensorflow() -> None:
    reason = _reason("team/train", hardware={"image": {"tensorflow": "2.18"}})
    assert "hardware.image: selects a TensorFlow for the hosts" in reason


def test_requirements_need_a_source_also_in_a_container() -> None:
    assert "program.requirements: needs program.source" in _reason("a", requirements="requirements.txt")


def test_a_run_is_repeated_with_the_digest_that_it_had() -> None:
    job = _check({"image": "team/train:v1", "login": "hub"})
    assert isinstance(job, Job)
    admitted = serialization.to_json(job)
    manifest = serialization.to_json(Manifest(digest="sha256:" + "b" * 64, size=5))
    admitted["program"]["container"] |= {"digest": DIGEST, "manifests": {"amd64": manifest}}
    again = written.as_file(admitted)
    assert again["program"]["container"] == {
        "image": f"docker.io/team/train:v1@{DIGEST}",
        "entrypoint": True,
        "login": "hub",
    }
    assert isinstance(check.check(again, source="job.yaml", bucket="b"), Job)
    assert serialization.from_json(Job, admitted).program.container == Container(
        image="team/train:v1",
        login="hub",
        digest=DIGEST,
        manifests={"amd64": Manifest(digest="sha256:" + "b" * 64, size=5)},
    )


def test_a_host_finds_the_manifest_of_its_machine() -> None:
    container = Container(image="a", manifests={"arm64": Manifest(digest=DIGEST)})
    assert container.for_machine("x86_64") is None
    assert container.for_machine("arm64") == Manifest(digest=DIGEST)
