"""Common parts of EC2's requests: known parameters, filters, pages, tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeVar

from simulation.aws.endpoint.api import ServiceError

Item = TypeVar("Item")
MOST_FILTER_VALUES = 200
MOST_TAGS = 50
METADATA_TAG_KEY = re.compile(r"[A-Za-z0-9+\-=.,_:@]+")


def expect(request: Mapping[str, Any], *known: str) -> None:
    """Refuse parameters that this model does not implement."""
    unknown = sorted(set(request) - set(known) - {"DryRun"})
    if unknown or request.get("DryRun"):
        raise ServiceError("NotSimulated", f"EC2 does not simulate {', '.join(unknown) or 'DryRun'}")


def tags_for(request: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the tags in TagSpecifications for this type of resource."""
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in request.get("TagSpecifications") or ()
        if specification["ResourceType"] == kind
        for tag in specification.get("Tags") or ()
    }


def check_tags(tags: Mapping[str, str]) -> None:
    for key in tags:
        if key.lower().startswith("aws:"):
            raise ServiceError(
                "InvalidParameterValue",
                f"Value ( {key} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for "
                "internal use",
            )
    if len(tags) > MOST_TAGS:
        raise ServiceError("TagLimitExceeded", f"The maximum number of tags for a resource is {MOST_TAGS}.")


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def filters_of(request: Mapping[str, Any], known: Collection[str]) -> dict[str, list[str]]:
    """Return the values of filters by name. Tag filters are always allowed."""
    wanted: dict[str, list[str]] = {}
    for each in request.get("Filters") or ():
        name, values = each["Name"], list(each["Values"])
        if name not in known and not name.startswith("tag:") and name != "tag-key":
            raise ServiceError("NotSimulated", f"EC2 does not simulate the filter {name}")
        if len(values) > MOST_FILTER_VALUES:
            raise ServiceError(
                "FilterLimitExceeded",
                f"The maximum number of filter values specified on a single call is {MOST_FILTER_VALUES}",
            )
        wanted[name] = wanted.get(name, []) + values
    return wanted


@cache
def _is_pattern(value: str) -> bool:
    return "*" in value or "?" in value


def exact(values: Sequence[str]) -> bool:
    return not any(map(_is_pattern, values))


def fits(fact: str | None, values: Sequence[str]) -> bool:
    if fact is None:
        return False
    return fact in values or any(_is_pattern(value) and fnmatchcase(fact, value) for value in values)


def all_fit(
    facts: Mapping[str, str | None], tags: Mapping[str, str], wanted: Mapping[str, Sequence[str]]
) -> bool:
    """Return True if every filter matches one of its values."""
    for name, values in wanted.items():
        if name == "tag-key":
            if not any(fits(key, values) for key in tags):
                return False
        elif not fits(tags.get(name[4:]) if name.startswith("tag:") else facts.get(name), values):
            return False
    return True


def page(rows: Sequence[Item], request: Mapping[str, Any], usual: int) -> tuple[Sequence[Item], str | None]:
    """Return the requested page, and the token of the next one (its position)."""
    size, token = request.get("MaxResults"), request.get("NextToken")
    if size is not None and not 5 <= int(size) <= 1000:
        raise ServiceError(
            "InvalidParameterValue",
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value greater than 5.",
        )
    first, count = int(token or 0), int(size or usual)
    return rows[first : first + count], str(first + count) if first + count < len(rows) else None


def unknown_ids(kind: str, ids: Iterable[str]) -> ServiceError:
    """Return EC2's error for unknown ids."""
    unknown = list(ids)
    listing = ", ".join(unknown)
    if kind == "instance":
        noun = f"instance ID '{listing}' does" if len(unknown) == 1 else f"instance IDs '{listing}' do"
        return ServiceError("InvalidInstanceID.NotFound", f"The {noun} not exist")
    if kind == "image":
        return ServiceError("InvalidAMIID.NotFound", f"The image id '[{listing}]' does not exist")
    if kind == "snapshot":
        return ServiceError("InvalidSnapshot.NotFound", f"The snapshot '{listing}' does not exist.")
    return ServiceError("InvalidSubnetID.NotFound", f"The subnet ID '{listing}' does not exist")
