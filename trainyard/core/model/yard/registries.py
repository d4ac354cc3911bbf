"""Registries whose container images runs may use, as listed in the setting `registries`."""

import fnmatch
import re

from trainyard.protocol.image_reference import DOCKER_HUB, DOCKER_HUB_NAMES, HOST, Reference
from trainyard.values.lazy import dataclass

ARN = r"arn:aws[a-z-]*:ecr:([a-z0-9-]+):(\d{12}):repository/([a-z0-9*][a-z0-9._/*-]*)"
"""Repositories of Amazon ECR. `*` matches any text."""
PLACE = rf"(?:{ARN}|(?![^,]*\.dkr\.ecr\.)(?=[^,]*[.:]){HOST})"
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
