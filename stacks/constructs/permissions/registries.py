"""Permissions to read container images in repositories of Amazon ECR."""

from collections.abc import Sequence

from stacks.constructs.names import by_name
from stacks.constructs.permissions import allow, anywhere
from stacks.constructs.permissions.holder import Holder
from trainyard.core.model.yard.registries import PullThrough, Registry

NAMED = "The administrator of the yard lists these repositories, and may use wildcards."
PULL = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


CACHED = "Amazon ECR makes a repository below this prefix for each image that it caches."
FILL = ("ecr:BatchImportUpstreamImage", "ecr:CreateRepository")


def read_images(role: Holder, listed: Sequence[Registry], cached: Sequence[PullThrough]) -> None:
    """Allow reading manifests, tags and configurations in these repositories, and filling the pull-through cache."""
    for each in listed:
        if each.is_ecr:
            allow(role, [*PULL, "ecr:DescribeImages"], [each.text], because=NAMED)
    for rule in cached:
        allow(role, [*PULL, "ecr:DescribeImages", *FILL], [_repositories(role, rule)], because=CACHED)


def pull_images(role: Holder, listed: Sequence[Registry], cached: Sequence[PullThrough]) -> None:
    """Allow pulling images from these repositories, with a password that ECR gives."""
    repositories = [each.text for each in listed if each.is_ecr]
    for each in repositories:
        allow(role, PULL, [each], because=NAMED)
    for rule in cached:
        allow(role, PULL, [_repositories(role, rule)], because=CACHED)
    if repositories or cached:
        anywhere(role, "ecr:GetAuthorizationToken")


def _repositories(role: Holder, rule: PullThrough) -> str:
    return by_name(role, "ecr", f"repository/{rule.place}/*")
