"""The recipe as the control plane admitted it: `runs/<run>/recipe.json`. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from training.host.errors import HostTrouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`hash` is the image's: of recipe, software and base. `tensorflow` and `cuda` are version requirements as pip
    writes them, empty where the recipe has none."""

    name: str
    hash: str
    tensorflow: str = ""
    cuda: str = ""
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


def named(key: str, entries: tuple[str, ...], index: int) -> str:
    """An entry as its writer finds it: `python_packages[1] "scipy"`."""
    return f'{key}[{index}] "{entries[index]}"'


def _lines(document: dict[str, Any], key: str) -> tuple[str, ...]:
    lines = document.get(key) or []
    if not isinstance(lines, list):
        raise TypeError(f"{key} is no list")
    return tuple(str(line) for line in lines)
