"""References to container images, as `docker pull` reads them: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`.

The grammar is defined by https://github.com/distribution/reference. A reference without a registry names Docker Hub.
"""

import re

from trainyard.values.lazy import dataclass
from trainyard.values.validation import show_value

DOCKER_HUB = "docker.io"
DOCKER_HUB_NAMES = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io")
DOCKER_HUB_ADDRESS = "registry-1.docker.io"
"""The host of Docker Hub's API."""
LATEST = "latest"
"""The tag of a reference without a tag and without a digest."""
MOST_CHARACTERS = 255
MOST_TAG_CHARACTERS = 128
DIGEST_CHARACTERS = 64
EXAMPLE = "tensorflow/tensorflow:2.21.0-gpu"
DIGEST = rf"sha256:[0-9a-f]{{{DIGEST_CHARACTERS}}}"
TAG = rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MOST_TAG_CHARACTERS - 1}}}"
PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
"""A part of a repository, between slashes."""
HOST = (
    r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]{1,5})?"
)
"""A registry, with or without a port."""
ECR = r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?"
"""A private registry of Amazon ECR."""
WRITTEN = (
    rf"(?=.{{1,{MOST_CHARACTERS}}}$)(?:(?=[^/]*[.:]){HOST}/)?{PART}(?:/{PART})*(?::{TAG})?(?:@{DIGEST})?"
)
"""A reference as a whole, for editors."""
WORDS = f"the name of an image (its registry, tag and digest are optional), as in {EXAMPLE}"


class NotAReferenceError(ValueError):
    """A text that does not follow the grammar. The message begins with the text and names the remedy."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The parts of a reference."""

    registry: str
    """The registry as the setting `registries` names it: `docker.io`, `nvcr.io`, or an address with a port."""
    repository: str
    """The path below the registry. An official image of Docker Hub is below `library/`."""
    tag: str = ""
    """Empty if the reference has only a digest."""
    digest: str = ""
    """`sha256:` and 64 hex digits, or empty."""

    @property
    def address(self) -> str:
        """Return the host of the registry's API, with its port if it has one."""
        return DOCKER_HUB_ADDRESS if self.registry == DOCKER_HUB else self.registry

    @property
    def version(self) -> str:
        """Return the digest, or the tag without one: the word of a manifest in the registry's API."""
        return self.digest or self.tag

    @property
    def name(self) -> str:
        """Return the registry and the repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def ecr(self) -> re.Match[str] | None:
        """Return `account` and `region` of a private registry of Amazon ECR, or None for another registry."""
        return re.fullmatch(ECR, self.registry, re.ASCII)

    def at(self, digest: str) -> str:
        """Return the reference with a digest, which always names the same bytes."""
        return f"{self.name}{f':{self.tag}' if self.tag else ''}@{digest}"

    def __str__(self) -> str:
        tag, digest = f":{self.tag}" if self.tag else "", f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def parse(text: str) -> Reference:
    """Return the parts of a reference. Raise NotAReferenceError for any other text."""
    _check_characters(text)
    rest, at, digest = text.partition("@")
    if at:
        _check_digest(text, digest)
    registry, path = _split_registry(rest)
    repository, colon, tag = path.partition(":")
    _check_repository(text, repository)
    if colon:
        _check_tag(text, tag)
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(
        registry=registry, repository=repository, tag=tag or ("" if digest else LATEST), digest=digest
    )


def _split_registry(rest: str) -> tuple[str, str]:
    """Return the registry and the path below it. The first part is a registry if it contains a dot or a colon, or is
    localhost."""
    first, slash, path = rest.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return DOCKER_HUB, rest
    if not re.fullmatch(HOST, first, re.ASCII):
        problem = "has an invalid registry; a registry is a host, with or without a port, as in nvcr.io"
        raise NotAReferenceError(f"{show_value(rest)} {problem}")
    if first.partition(":")[0] in ("localhost", "127.0.0.1"):
        problem = (
            "names a registry on this computer, which no host reaches; push the image to a registry first"
        )
        raise NotAReferenceError(f"{show_value(rest)} {problem}")
    host = first.lower()
    return (DOCKER_HUB if host in DOCKER_HUB_NAMES else host), path


def _check_characters(text: str) -> None:
    shown = show_value(text)
    if not text:
        raise NotAReferenceError(f"{shown} is empty; {WORDS} is allowed")
    scheme, separator, without = text.partition("://")
    if separator:
        problem = f"begins with {scheme}://; images have no scheme and are pulled by HTTPS: write {without}"
        raise NotAReferenceError(f"{shown} {problem}")
    if len(text) > MOST_CHARACTERS:
        problem = f"has {len(text)} characters; an image has up to {MOST_CHARACTERS}"
        raise NotAReferenceError(f"{shown} {problem}")
    if re.search(r"[^!-~]", text):
        problem = f"has a blank or another character that no image has; {WORDS} is allowed"
        raise NotAReferenceError(f"{shown} {problem}")


def _check_repository(text: str, repository: str) -> None:
    shown = show_value(text)
    if repository != repository.lower():
        problem = (
            f"has capitals in {repository}; registries have lower-case names: write {repository.lower()}"
        )
        raise NotAReferenceError(f"{shown} {problem}")
    if not repository:
        raise NotAReferenceError(f"{shown} names no repository; {WORDS} is allowed")
    for part in repository.split("/"):
        if not re.fullmatch(PART, part, re.ASCII):
            allowed = "each part of a repository has lower-case letters and digits, with . _ - between them"
            where = f"{part} in its repository" if part else "an empty part in its repository"
            raise NotAReferenceError(f"{shown} has {where}; {allowed}")


def _check_tag(text: str, tag: str) -> None:
    if ":" in tag:
        raise NotAReferenceError(
            f"{show_value(text)} has several tags, {tag.replace(':', ' and ')}; write one"
        )
    if not re.fullmatch(TAG, tag, re.ASCII):
        allowed = (
            f"a tag has 1 to {MOST_TAG_CHARACTERS} letters, digits and _ . -, and begins with none of . -"
        )
        raise NotAReferenceError(f"{show_value(text)} has the tag {show_value(tag)}; {allowed}")


def _check_digest(text: str, digest: str) -> None:
    if re.fullmatch(DIGEST, digest, re.ASCII):
        return
    algorithm, _, hexadecimal = digest.partition(":")
    allowed = f"a digest is sha256: and {DIGEST_CHARACTERS} of the digits 0-9 and a-f"
    found = f"{len(hexadecimal)} characters behind sha256:" if algorithm == "sha256" else show_value(digest)
    raise NotAReferenceError(f"{show_value(text)} has {found}; {allowed}")
