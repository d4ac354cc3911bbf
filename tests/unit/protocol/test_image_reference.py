"""References to images are read as `docker pull` reads them, and every other text has its own reason."""

import json
import re
from pathlib import Path

import pytest

from trainyard.protocol.image_reference import WRITTEN, NotAReferenceError, Reference, parse

DIGEST = "sha256:" + "0123456789abcdef" * 4
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
READ = {
    "python": ("docker.io", "library/python", "latest", ""),
    "team/train:v1": ("docker.io", "team/train", "v1", ""),
    "docker.io/python:3.12": ("docker.io", "library/python", "3.12", ""),
    "index.docker.io/team/train": ("docker.io", "team/train", "latest", ""),
    "registry-1.docker.io/python": ("docker.io", "library/python", "latest", ""),
    f"{ECR}/vision/train:v7": (ECR, "vision/train", "v7", ""),
    "nvcr.io/nvidia/tensorflow:25.02-tf2-py3": ("nvcr.io", "nvidia/tensorflow", "25.02-tf2-py3", ""),
    f"ghcr.io/a/b@{DIGEST}": ("ghcr.io", "a/b", "", DIGEST),
    f"ghcr.io/a/b:v1@{DIGEST}": ("ghcr.io", "a/b", "v1", DIGEST),
    "registry.example:5000/a_b/c--d/e__f:1": ("registry.example:5000", "a_b/c--d/e__f", "1", ""),
    "HUB.example/a:V1": ("hub.example", "a", "V1", ""),
    "a" * 200: ("docker.io", "library/" + "a" * 200, "latest", ""),
}
REFUSED = {
    "": "is empty",
    "docker://python": "begins with docker://; images have no scheme and are pulled by HTTPS: write python",
    "http://registry.example/a": "begins with http://",
    "Team/train": "has capitals in Team/train; registries have lower-case names: write team/train",
    "a" * 300: "has 300 characters; an image has up to 255",
    "a:b:c": "has several tags, b and c; write one",
    "a@sha256:12": "has 2 characters behind sha256:; a digest is sha256: and 64",
    "a@md5:abc": 'has "md5:abc"; a digest is sha256:',
    "a@": 'has ""; a digest is sha256:',
    "a b": "has a blank",
    "a\n": "has a blank",
    "team//train": "has an empty part in its repository",
    "/train": "has an empty part in its repository",
    "a/": "has an empty part in its repository",
    "-a": "has -a in its repository",
    "a:": 'has the tag ""; a tag has 1 to 128',
    "a:.x": 'has the tag ".x"',
    "a:" + "x" * 129: "a tag has 1 to 128 letters",
    ":v1": "names no repository",
    "localhost:5000/a": "names a registry on this computer",
    "-x.io/a": "has an invalid registry",
    "nvcr.io/": "names no repository",
}


@pytest.mark.parametrize(("text", "parts"), READ.items())
def test_a_reference_is_read_as_docker_reads_it(text: str, parts: tuple[str, ...]) -> None:
    registry, repository, tag, digest = parts
    assert parse(text) == Reference(registry=registry, repository=repository, tag=tag, digest=digest)


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_each_other_text_has_its_reason(text: str, reason: str) -> None:
    with pytest.raises(NotAReferenceError, match=re.escape(reason)):
        parse(text)


def test_the_pattern_for_editors_accepts_and_refuses_the_same() -> None:
    schema = json.loads((Path(__file__).parents[3] / "trainyard/job.schema.json").read_text())
    assert WRITTEN in schema["properties"]["program"]["properties"]["container"]["anyOf"][0]["pattern"]
    accepts = re.compile(f"^(?:{WRITTEN})$", re.ASCII)
    allowed_by_pattern = {"localhost:5000/a"}
    assert all(accepts.search(text) for text in READ)
    assert {text for text in REFUSED if accepts.search(text)} <= allowed_by_pattern | {"a\n"}


def test_docker_hub_has_another_address_than_name() -> None:
    assert parse("python").address == "registry-1.docker.io"
    assert parse("nvcr.io/a").address == "nvcr.io"


def test_a_registry_of_ecr_names_account_and_region() -> None:
    found = parse(f"{ECR}/a").ecr
    assert found
    assert found.groupdict() == {"account": "123456789012", "region": "eu-west-1"}
    assert parse("public.ecr.aws/a/b").ecr is None


def test_a_pinned_reference_keeps_the_tag_for_readers() -> None:
    assert str(parse(parse("team/train:v1").at(DIGEST))) == f"docker.io/team/train:v1@{DIGEST}"
