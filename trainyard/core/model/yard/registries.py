"""Registries whose container images runs may use, as listed in the setting `registries`."""

import fnmatch
import re
from dataclasses import replace

from trainyard.protocol.image_reference import DOCKER_HUB, DOCKER_HUB_NAMES, ECR, HOST, PART, Reference
from trainyard.values.lazy import dataclass

ARN = r"arn:aws[a-z-]*:ecr:([a-z0-9-]+):(\d{12}):repository/([a-z0-9*][a-z0-9._/*-]*)"
"""Repositories of Amazon ECR. `*` matches any text."""
PLACE = rf"(?:{ARN}|(?![^,]*\.dkr\.ecr\.)(?=[^,]*[.:]){HOST})"
PREFIX = rf"{PART}(?:/{PART})*"
PLACE_IN_ECR = re.sub(r"[?]P<[a-z]+>", "?:", ECR)
RULE = rf"(?![^=]*\.dkr\.ecr\.)(?=[^=]*[.:]){HOST}=(?:{PLACE_IN_ECR}/)?{PREFIX}"
RULES_EXPECTED = (
    "expected registries, each with the prefix of its pull-through cache rule, like "
    "docker.io=docker-hub,ghcr.io=github, or nothing"
)
EXPECTED = (
    "expected ARNs of repositories of Amazon ECR, or hosts of other registries, like "
    "arn:aws:ecr:us-east-1:123456789012:repository/team/*,docker.io, or nothing"
)


@dataclass(frozen=True)
class Registry:
    """A word of the setting: an ARN of repositories, or the host of a registry."""

    text: str

    @classmethod
    def of(cls, text: str) -> "Registry":
        """Parse one word of the setting. Raise ValueError for an invalid word."""
        if re.fullmatch(PLACE, text, re.ASCII) is None:
            raise ValueError(f"{text} is neither an ARN of repositories nor the host of a registry")
        host = text.lower()
        return cls(DOCKER_HUB if host in DOCKER_HUB_NAMES else text if text.startswith("arn:") else host)

    @property
    def is_ecr(self) -> bool:
        return self.text.startswith("arn:")

    def holds(self, image: Reference) -> bool:
        """Return True if the image is in the registry, or in one of the repositories."""
        found, ecr = re.fullmatch(ARN, self.text, re.ASCII), image.ecr
        if found is None:
            return image.registry == self.text
        named = (ecr["region"], ecr["account"]) if ecr else None
        return named == (found[1], found[2]) and fnmatch.fnmatchcase(image.repository, found[3])

    def __str__(self) -> str:
        """Return the word as the setting contains it."""
        return self.text


def arn_of(image: Reference, partition: str = "aws") -> str:
    """Return the ARN of the image's repository of Amazon ECR, or an empty text for another registry."""
    ecr = image.ecr
    if ecr is None:
        return ""
    return f"arn:{partition}:ecr:{ecr['region']}:{ecr['account']}:repository/{image.repository}"


@dataclass(frozen=True)
class PullThrough:
    """A rule of Amazon ECR's pull-through cache: a registry, and the repositories below which ECR keeps its images."""

    registry: str
    place: str
    """The rule's prefix of repositories. For functions, the host of ECR stands before it."""

    @classmethod
    def of(cls, text: str) -> "PullThrough":
        """Parse one word of the setting. Raise ValueError for an invalid word."""
        if re.fullmatch(RULE, text, re.ASCII) is None:
            raise ValueError(f"{text} is not REGISTRY=PREFIX; {RULES_EXPECTED}")
        registry, _, place = text.partition("=")
        return cls(DOCKER_HUB if registry in DOCKER_HUB_NAMES else registry, place)

    def rewrite(self, image: Reference) -> str | None:
        """Return the name of the image in Amazon ECR; None for another registry."""
        if image.registry != self.registry:
            return None
        return str(replace(image, registry=self.place.partition("/")[0], repository=self._below(image)))

    def holds(self, image: Reference) -> bool:
        """Return True for an image by its name in Amazon ECR, such as the one of an earlier run."""
        return image.name.startswith(f"{self.place}/")

    def _below(self, image: Reference) -> str:
        return f"{self.place.partition('/')[2]}/{image.repository}"

    def __str__(self) -> str:
        """Return the word as the setting contains it."""
        return f"{self.registry}={self.place}"
