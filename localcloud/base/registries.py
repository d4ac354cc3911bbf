"""The names of registries that hosts and functions resolve to the local cloud."""

from __future__ import annotations

import re
from pathlib import Path

from localcloud.base.context import ACCOUNT

DOCKER_HUB, DOCKER_HUB_ADDRESS = "docker.io", "registry-1.docker.io"
TOKENS_OF_DOCKER_HUB = "auth.docker.io"
OTHER_ACCOUNT = "999999999999"
"""Another account. It allows no access to its repositories."""
REGIONS = (
    "us-east-1",
    "us-east-2",
    "us-west-2",
    "ca-central-1",
    "eu-central-1",
    "eu-west-1",
    "eu-west-2",
    "ap-northeast-1",
    "ap-south-1",
    "ap-southeast-2",
)
"""Regions whose ECR has a name here."""
OTHERS = (DOCKER_HUB_ADDRESS, "ghcr.io", "nvcr.io", "public.ecr.aws", "quay.io", "registry.example.com")
LAYERS = "prod-us-east-1-starport-layer-bucket.s3.us-east-1.amazonaws.com"
"""The bucket of ECR that holds the layers."""
ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com")


def all_names() -> tuple[str, ...]:
    """Return every name that resolves to the local cloud."""
    ecr = (
        f"{account}.dkr.ecr.{region}.amazonaws.com"
        for account in (ACCOUNT, OTHER_ACCOUNT)
        for region in REGIONS
    )
    return (*OTHERS, TOKENS_OF_DOCKER_HUB, LAYERS, *ecr)


ALL = frozenset(all_names())


def registry_of(host: str) -> str:
    """Return the registry behind a name: its name in references."""
    return DOCKER_HUB if host in (DOCKER_HUB_ADDRESS, TOKENS_OF_DOCKER_HUB) else host


def scope_of(registry: str) -> tuple[str, str]:
    """Return the account and the region under which ministack keeps the images of a registry."""
    found = ECR.fullmatch(registry)
    return (found[1], found[2]) if found else (registry, "registry")


def hosts_lines(address: str) -> str:
    """Return lines for /etc/hosts."""
    return "".join(f"{address} {name}\n" for name in all_names())


def trusted_in(state: Path) -> Path:
    """Return the file of the authorities that hosts and functions trust: the machine's, and the registries' own."""
    return state / "registry" / "trusted.pem"
