"""Permissions to read container images in repositories of Amazon ECR."""

from stacks.constructs.permissions import allow, anywhere
from stacks.constructs.permissions.holder import Holder
from trainyard.core.model.yard.registries import Registry

NAMED = "The administrator of the yard lists these repositories, and may use wildcards."
PULL = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


def read_images(role: Holder, *registries: Registry) -> None:
    """Allow reading manifests, tags and configurations in these repositories."""
    for each in registries:
        if each.is_ecr:
            allow(role, [*PULL, "ecr:DescribeImages"], [each.text], because=NAMED)


def pull_images(role: Holder, *registries: Registry) -> None:
    """Allow pulling images from these repositories, with a password that ECR gives."""
    repositories = [each.text for each in registries if each.is_ecr]
    for each in repositories:
        allow(role, PULL, [each], because=NAMED)
    if repositories:
        anywhere(role, "ecr:GetAuthorizationToken")
