"""ARNs and condition keys of EC2's resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ministack.core.responses import get_account_id, get_region

from localcloud.services.ec2.capacity.pools import market_of
from localcloud.services.ec2.store import records
from localcloud.services.iam.checks import Check

Context = dict[str, Any]
"""Condition keys of a request with their values."""
Base = Mapping[str, Any]
"""Condition keys of a request, without its resources' keys."""

KIND_OF_PREFIX = {
    "i": "instance",
    "vol": "volume",
    "eni": "network-interface",
    "ami": "image",
    "snap": "snapshot",
    "subnet": "subnet",
    "sg": "security-group",
    "lt": "launch-template",
    "fleet": "fleet",
    "sir": "spot-instances-request",
    "vpc": "vpc",
    "igw": "internet-gateway",
    "rtb": "route-table",
    "vpce": "vpc-endpoint",
}
UNOWNED = ("image", "snapshot")
"""Kinds of resources whose ARNs have no account."""


def arn(kind: str, resource_id: str = "*") -> str:
    """Return the ARN of an EC2 resource in the caller's account and region."""
    account = "" if kind in UNOWNED else get_account_id()
    return f"arn:aws:ec2:{get_region()}:{account}:{kind}/{resource_id}"


def existing(resource_id: str) -> tuple[str, Context]:
    """Return ARN and condition keys of an existing resource."""
    prefix = resource_id.split("-")[0]
    kind = KIND_OF_PREFIX.get(prefix, prefix)
    context = resource_tags(resource_id)
    if kind == "instance":
        found = records.instance(resource_id)
        if found is not None:
            context |= {
                "ec2:instancetype": found.instance_type,
                "ec2:instancemarkettype": market_of(found),
                "ec2:availabilityzone": found.placement.zone,
                "ec2:metadatahttptokens": found.metadata_options.http_tokens,
                "ec2:rootdevicetype": "ebs",
            }
            if found.iam_instance_profile:
                context["ec2:instanceprofile"] = found.iam_instance_profile["Arn"]
    if kind == "image":
        image = records.backend().amis.get(resource_id)
        if image is not None:
            context |= {
                "ec2:owner": image.owner_alias or image.owner_id,
                "ec2:public": str(image.is_public).lower(),
                "ec2:imagetype": "machine",
                "ec2:rootdevicetype": "ebs",
            }
    return arn(kind, resource_id), context


def resource_tags(resource_id: str) -> Context:
    tags = records.backend().tags.get(resource_id, {})
    return {
        f"{space}:resourcetag/{key}".lower(): value for key, value in tags.items() for space in ("aws", "ec2")
    }


def request_tags(tags: Mapping[str, str]) -> Context:
    if not tags:
        return {}
    return {f"aws:requesttag/{key}".lower(): value for key, value in tags.items()} | {
        "aws:tagkeys": list(tags)
    }


def check_on(action: str, resource_id: str, base: Base, extra: Mapping[str, Any] | None = None) -> Check:
    name, context = existing(resource_id)
    return Check(action, name, {**base, **context, **(extra or {})})


def checks_of_created(
    action: str, operation: str, kind: str, tags: Mapping[str, str], context: Mapping[str, Any]
) -> Iterator[Check]:
    """Check the creation of a resource and, if it has tags, CreateTags."""
    given = {**context, **request_tags(tags)}
    yield Check(action, arn(kind), given)
    if tags:
        yield Check("ec2:CreateTags", arn(kind), {**given, "ec2:createaction": operation})
