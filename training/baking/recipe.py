"""The recipe as the control plane admitted it: `keys.recipe`. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training.host.errors import HostTrouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`hash` is the image's: of recipe, software and base. `tensorflow` and `cuda` are version requirements as pip
    writes them, empty where the recipe has none; `release` is what to install in place of the usual TensorFlow:
    `tensorflow` and `keras` with their versions."""

    name: str
    hash: str
    tensorflow: str = ""
    cuda: str = ""
    release: Mapping[str, str] | None = None
    upgrade: bool = False
    system_packages: tuple[str, ...] = ()
    python_packages: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @staticmethod
    def from_json(text: str | bytes) -> "Recipe":
        """Raises HostTrouble for what no control plane of this version has written."""
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
                commands=_lines(document, "commands"),
                tests=_lines(document, "tests"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HostTrouble(
                f"recipe.json is not what the host's software understands ({error!r}): deploy the yard anew, so that "
                "workflow and software are of one version",
                final=True,
            ) from error


def as_admitted(text: bytes, sha256: str) -> bytes:
    """The text that the bake was admitted with, whoever may write into the bucket: its commands are root's here, and
    what comes of them is every run's. Raises HostTrouble for another."""
    found = hashlib.sha256(text).hexdigest()
    if found != sha256:
        raise HostTrouble(
            f"recipe.json has been changed since the bake was admitted (its SHA-256 is {found[:16]}..., not "
            f"{sha256[:16]}...), so nothing of it was run: find out who wrote it, from its versions in the bucket, and "
            "bake again",
            final=True,
        )
    return text


def named(key: str, entries: tuple[str, ...], index: int) -> str:
    """An entry as its writer finds it: `python_packages[1] "scipy"`."""
    return f'{key}[{index}] "{entries[index]}"'


def _lines(document: dict[str, Any], key: str) -> tuple[str, ...]:
    lines = document.get(key) or []
    if not isinstance(lines, list):
        raise TypeError(f"{key} is no list")
    return tuple(str(line) for line in lines)
