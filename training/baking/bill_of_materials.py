"""The content of an image, as an SBOM in CycloneDX's JSON: every package of Python and of the system.

The fields follow cyclonedx.org/docs/1.6/json, and the names of packages github.com/package-url/purl-spec.
"""

import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from packaging.utils import canonicalize_name

from training.baking.builder import Builder, image_settings
from trainyard.protocol.tags import PREFIX, Tag
from trainyard.values.serialization import timestamp

DPKG = ("dpkg-query", "--show", "--showformat=${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n")
INSTALLED = "ii"
Component = dict[str, Any]


def bill_of_materials(builder: Builder) -> dict[str, Any]:
    """Return the SBOM. An image without a package database, as in the local cloud, has only Python's packages."""
    found = [*python_packages(), *system_packages(builder)]
    recipe = builder.recipe
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(datetime.now(UTC)),
            "component": {
                "type": "operating-system",
                "bom-ref": "image",
                "name": recipe.name,
                "version": recipe.hash,
                "properties": [
                    {"name": Tag.RUN, "value": builder.run},
                    {"name": f"{PREFIX}base", "value": builder.identity.image},
                    {"name": f"{PREFIX}kernel", "value": platform.release()},
                ],
            },
        },
        "components": sorted(found, key=lambda component: str(component["bom-ref"])),
    }


def python_packages() -> Iterator[Component]:
    """Yield the packages of this Python, which is the hosts'. The first one on the path counts."""
    seen = set()
    for distribution in importlib.metadata.distributions():
        name = canonicalize_name(distribution.name)
        if name not in seen:
            seen.add(name)
            yield _component(name, distribution.version, f"pkg:pypi/{name}@{_quote(distribution.version)}")


def system_packages(builder: Builder) -> Iterator[Component]:
    """Yield the installed packages of dpkg; none if the image has no dpkg."""
    system = image_settings(builder.paths.root / "etc/os-release").get("ID", "debian")
    if not shutil.which(DPKG[0]):
        return
    output = subprocess.run(DPKG, capture_output=True, text=True, timeout=60, check=False).stdout
    for line in output.splitlines():
        status, *facts = line.split("\t")
        if status.strip() == INSTALLED and len(facts) == 3:
            name, version, architecture = facts
            url = f"pkg:deb/{system}/{_quote(name)}@{_quote(version)}?arch={architecture}"
            yield _component(name, version, url)


def _component(name: str, version: str, url: str) -> Component:
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


def _quote(text: str) -> str:
    return quote(text, safe="~")
