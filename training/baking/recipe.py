"""The recipe that the control plane has admitted (`keys.recipe`). Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training.host.errors import HostTrouble
from trainyard.protocol.containers import Container
from trainyard.values import serialization


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe."""

    name: str
    hash: str
    """The hash of the image: of its recipe, software, and base image."""
    tensorflow: str = ""
    """A version requirement in pip's format; empty if the recipe has none."""
    cuda: str = ""
    release: Mapping[str, str] | None = None
    """The versions of `tensorflow` and `keras` to install instead of the pinned TensorFlow."""
    upgrade: bool = False
    system_packages: tuple[str, ...] = ()
    python_packages: tuple[str, ...] = ()
    file_systems: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    containers: tuple[Container, ...] = ()
    """The container images, with their digests."""

    @staticmethod
    def from_json(text: str | bytes) -> "Recipe":
        """Parse a recipe. Raises HostTrouble if it is not of this version."""
        try:
            document = json.loads(text)
            return Recipe(
                name=str(document["name"]),
                hash=str(document["hash"]),
                tensorflow=document.get("tensorflow") or "",
                cuda=document.get("cuda") or "",
                release=document.get("release"),
                upgrade=document.get("upgrade") is True,
                system_packages=_lines(document, "system_packages"),
                python_packages=_lines(document, "python_packages"),
                file_systems=_lines(document, "file_systems"),
                commands=_lines(document, "commands"),
                tests=_lines(document, "tests"),
                containers=tuple(
                    serialization.from_json(Container, each) for each in document.get("containers") or ()
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HostTrouble(
                f"the host's software cannot read recipe.json ({error!r}): deploy the yard again, so that workflow and "
                "software have the same version",
                final=True,
            ) from error


def as_admitted(text: bytes, sha256: str) -> bytes:
    """Return the text if it is the admitted one. Others may write to the bucket, but the recipe's commands run as root,
    and every run uses the resulting image. Raises HostTrouble for another text."""
    found = hashlib.sha256(text).hexdigest()
    if found != sha256:
        raise HostTrouble(
            f"recipe.json has changed since the bake was admitted (its SHA-256 is {found[:16]}..., not "
            f"{sha256[:16]}...), so none of its commands was run: find out who wrote it, from its versions in the "
            "bucket, and bake again",
            final=True,
        )
    return text


def named(key: str, entries: tuple[str, ...], index: int) -> str:
    """Return the name of an entry for users: `python_packages[1] "scipy"`."""
    return f'{key}[{index}] "{entries[index]}"'


def _lines(document: dict[str, Any], key: str) -> tuple[str, ...]:
    lines = document.get(key) or []
    if not isinstance(lines, list):
        raise TypeError(f"{key} is not a list")
    return tuple(str(line) for line in lines)
