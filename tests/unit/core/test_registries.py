"""The setting `registries`: which images it allows."""

import pytest

from trainyard.core.model.yard import settings
from trainyard.core.model.yard.registries import Registry, arn_of
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
