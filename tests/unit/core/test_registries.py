"""The setting `registries`: which images it allows."""

import pytest

from trainyard.core.model.yard import settings
from trainyard.core.model.yard.registries import PullThrough, Registry, arn_of
from trainyard.protocol.image_reference import parse

ARN = "arn:aws:ecr:eu-west-1:123456789012:repository/team/*"
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("word", "image", "holds"),
    [
        (ARN, f"{ECR}/team/train:v1", True),
        (ARN, f"{ECR}/other/train:v1", False),
        (ARN, "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/train", False),
        (ARN, "999999999999.dkr.ecr.eu-west-1.amazonaws.com/team/train", False),
        (ARN, "docker.io/team/train", False),
        ("docker.io", "team/train", True),
        ("index.docker.io", "python", True),
        ("docker.io", "nvcr.io/a", False),
        ("nvcr.io", "nvcr.io/a/b", True),
        ("registry.example:5000", "registry.example:5000/a", True),
        ("registry.example:5000", "registry.example/a", False),
    ],
)
def test_a_word_allows_images(word: str, image: str, holds: bool) -> None:
    assert Registry.of(word).holds(parse(image)) is holds


@pytest.mark.parametrize("word", ["", "docker", "https://nvcr.io", f"{ECR}", "arn:aws:s3:::bucket", "a b.c"])
def test_any_other_word_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="neither an ARN"):
        Registry.of(word)


def test_the_setting_has_several_words() -> None:
    found = settings.READERS["registries"]("registries", f"{ARN}, docker.io")
    assert [str(each) for each in found] == [ARN, "docker.io"]


def test_an_image_of_ecr_has_an_arn() -> None:
    assert arn_of(parse(f"{ECR}/team/train")) == ARN.replace("*", "train")
    assert arn_of(parse("python")) == ""


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        ("python:3.12", f"{ECR}/docker-hub/library/python:3.12"),
        ("docker.io/team/train@sha256:" + "a" * 64, f"{ECR}/docker-hub/team/train@sha256:" + "a" * 64),
        ("ghcr.io/team/train", None),
    ],
)
def test_an_image_of_a_cached_registry_has_a_name_in_ecr(image: str, pulled: str | None) -> None:
    assert PullThrough.of(f"docker.io={ECR}/docker-hub").rewrite(parse(image)) == pulled


def test_the_setting_of_the_cache_is_a_mapping_or_words() -> None:
    read = settings.READERS["pull_through"]
    expected = (PullThrough("docker.io", "docker-hub"), PullThrough("ghcr.io", "github"))
    assert read("pull_through", {"docker.io": "docker-hub", "ghcr.io": "github"}) == expected
    assert read("pull_through", "docker.io=docker-hub, ghcr.io=github") == expected
    assert read("pull_through", "") == ()


@pytest.mark.parametrize(
    "word", ["docker.io", "docker=hub", f"{ECR}=mine", "docker.io=Hub", "docker.io=a//b"]
)
def test_any_other_rule_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="expected registries, each with the prefix"):
        settings.READERS["pull_through"]("pull_through", word)
