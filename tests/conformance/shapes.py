"""Shapes: the paths and types that AWS returns in almost every answer to an operation, against our answers' model.

Recorded answers of real accounts say which paths an answer always has. Ours is asked with a store that has one of each.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from tests.conformance.clients import Clients
from tests.conformance.recordings import Oracle, UnreadableError, read
from tests.conformance.result import Result, Verdict

OFTEN, FEWEST = 0.95, 10
"""A path counts if this share of an operation's items has it, and if there are at least FEWEST items."""
NAME = re.compile(r"(?P<service>[a-z0-9-]+)\.(?P<operation>[A-Z]\w+)_\d+")
ASKED: Mapping[str, tuple[str, str]] = {
    "ec2.DescribeSecurityGroups": ("describe_security_groups", "SecurityGroups"),
    "ec2.DescribeSubnets": ("describe_subnets", "Subnets"),
    "ec2.DescribeVpcs": ("describe_vpcs", "Vpcs"),
    "ec2.DescribeRouteTables": ("describe_route_tables", "RouteTables"),
    "ec2.DescribeImages": ("describe_images", "Images"),
    "ec2.DescribeRegions": ("describe_regions", "Regions"),
    "ec2.DescribeAvailabilityZones": ("describe_availability_zones", "AvailabilityZones"),
}
"""Operations of yards that list what every cloud has from the start, and the list in their answers."""


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Compare each operation's items with ours: a path that AWS always gives must be there, with its type."""
    items: dict[str, list[Any]] = defaultdict(list)
    for file in sorted((oracle.folder / "custodian").rglob("*.json")):
        found = NAME.fullmatch(file.stem)
        key = f"{found['service']}.{found['operation']}" if found else ""
        if key in ASKED:
            try:
                recorded = read(file)
            except UnreadableError as error:
                print(error)
                continue
            data = recorded.get("data") if isinstance(recorded, dict) else None
            if isinstance(data, dict):
                items[key] += data.get(ASKED[key][1]) or []
    for key, recorded in sorted(items.items()):
        service, call = key.partition(".")[0], ASKED[key]
        try:
            ours = getattr(clients.of(service), call[0])()[call[1]]
        except ClientError as refused:
            yield Result("shapes", service, "local cloud", key, Verdict.STRICTER, str(refused))
            continue
        if len(recorded) >= FEWEST and ours:
            yield from _compared(service, key, recorded, ours)


def _compared(service: str, key: str, recorded: list[Any], ours: list[Any]) -> Iterator[Result]:
    counted, types = Counter[str](), defaultdict[str, set[str]](set)
    for item in recorded:
        paths = dict(_paths(item))
        counted.update(list(paths))
        for path, kind in paths.items():
            types[path].add(kind)
    have: dict[str, set[str]] = defaultdict(set)
    for item in ours:
        for path, kind in _paths(item):
            have[path].add(kind)
    for path in sorted(path for path, number in counted.items() if number >= OFTEN * len(recorded)):
        if path not in have:
            yield Result(
                "shapes", service, "local cloud", f"{key} {path}", Verdict.WRONG, "we have no such path"
            )
        elif not have[path] & types[path]:
            difference = f"{sorted(have[path])}, AWS {sorted(types[path])}"
            yield Result("shapes", service, "local cloud", f"{key} {path}", Verdict.WRONG, difference)
        else:
            yield Result("shapes", service, "local cloud", f"{key} {path}", Verdict.SAME)


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and type of each value of an item, except values inside its lists, which may be empty."""
    if isinstance(value, dict):
        if value.get("__class__") == "datetime":
            yield path, "datetime"
            return
        for key, each in value.items():
            yield from _paths(each, f"{path}.{key}" if path else key)
    else:
        yield path, "datetime" if hasattr(value, "isoformat") else type(value).__name__
