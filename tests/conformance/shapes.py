"""Shapes: the paths and types that AWS returns in almost every answer to an operation, against our answers' model.

Recorded answers of real accounts say which paths an answer always has. Ours is asked with a store that has one of each.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from tests.conformance.clients import Clients
from tests.conformance.recordings import Oracle, UnreadableError, read
from tests.conformance.result import Result, Verdict
from tests.contract.refusable import named_by
from tests.contract.refused import filled

OFTEN, FEWEST = 0.95, 10
"""A path counts if this share of an operation's items has it, and if there are at least FEWEST items."""
NAME = re.compile(r"(?P<service>[a-z0-9-]+)\.(?P<operation>[A-Z]\w+)_\d+")


@dataclass(frozen=True)
class Asked:
    """A read of a yard, and where its answer has the items to compare."""

    call: str
    items: str = ""
    """The list or the object in the answer; the whole answer if empty."""
    request: Mapping[str, Any] = field(default_factory=dict)


ASKED: Mapping[str, Asked] = {
    "ec2.DescribeSecurityGroups": Asked("describe_security_groups", "SecurityGroups"),
    "ec2.DescribeSubnets": Asked("describe_subnets", "Subnets"),
    "ec2.DescribeVpcs": Asked("describe_vpcs", "Vpcs"),
    "ec2.DescribeRouteTables": Asked("describe_route_tables", "RouteTables"),
    "ec2.DescribeImages": Asked("describe_images", "Images"),
    "ec2.DescribeRegions": Asked("describe_regions", "Regions"),
    "ec2.DescribeAvailabilityZones": Asked("describe_availability_zones", "AvailabilityZones"),
    "ec2.DescribeVolumes": Asked("describe_volumes", "Volumes"),
    "ec2.DescribeSnapshots": Asked("describe_snapshots", "Snapshots", {"OwnerIds": ["self"]}),
    "ec2.DescribeLaunchTemplateVersions": Asked(
        "describe_launch_template_versions", "LaunchTemplateVersions", {"LaunchTemplateName": "$NAME"}
    ),
    "cloudformation.DescribeStacks": Asked("describe_stacks", "Stacks"),
    "monitoring.DescribeAlarms": Asked("describe_alarms", "MetricAlarms"),
    "dynamodb.DescribeTable": Asked("describe_table", "Table", {"TableName": "$TABLE"}),
    "events.DescribeRule": Asked("describe_rule", "", {"Name": "$RULE"}),
    "iam.GetRole": Asked("get_role", "Role", {"RoleName": "$ROLE_NAME"}),
    "iam.ListRoles": Asked("list_roles", "Roles"),
    "kms.DescribeKey": Asked("describe_key", "KeyMetadata", {"KeyId": "$KEY"}),
    "lambda.GetFunction": Asked("get_function", "", {"FunctionName": "$FUNCTION"}),
    "lambda.ListFunctions": Asked("list_functions", "Functions"),
    "logs.DescribeLogGroups": Asked("describe_log_groups", "logGroups"),
    "s3.HeadObject": Asked("head_object", "", {"Bucket": "$BUCKET", "Key": "key"}),
    "s3.ListBuckets": Asked("list_buckets", "Buckets"),
    "sns.GetTopicAttributes": Asked("get_topic_attributes", "Attributes", {"TopicArn": "$TOPIC"}),
}
"""Reads of yards with at least FEWEST recorded items."""
NAMES = {"monitoring": "cloudwatch"}
"""boto3's names of services whose recordings have others."""
UNREAD = ("ResponseMetadata", "HTTPHeaders", "Tags", "AssumeRolePolicyDocument")
"""Members that describe the HTTP answer, that a resource only has if its owner gave it some, or that boto3 decodes."""
IMAGE = {"InstanceType": "m7i.large", "ImageId": "ami-0123456789abcdef0"}


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Compare each operation's items with ours: a path that AWS always gives must be there, with its type."""
    items: dict[str, list[Any]] = defaultdict(list)
    for file in sorted((oracle.folder / "custodian").rglob("*.json")):
        found = NAME.fullmatch(file.stem)
        key = f"{found['service']}.{found['operation']}" if found else ""
        if key not in ASKED:
            continue
        try:
            recorded = read(file)
        except UnreadableError as error:
            print(error)
            continue
        if isinstance(recorded, dict) and recorded.get("status_code") == 200:
            items[key] += _items(recorded.get("data"), ASKED[key])
    named = {**named_by(clients.of), "$NAME": _make_rest(clients)}
    for key, recorded in sorted(items.items()):
        if len(recorded) < FEWEST:
            continue
        service, asked = NAMES.get(key.partition(".")[0], key.partition(".")[0]), ASKED[key]
        try:
            answer = getattr(clients.of(service), asked.call)(**filled(asked.request, named))
        except ClientError as refused:
            yield Result("shapes", service, "local cloud", key, Verdict.STRICTER, str(refused))
            continue
        yield from _compared(service, key, recorded, _items(answer, asked))


def _items(answer: Any, asked: Asked) -> list[Any]:
    found = answer.get(asked.items) if asked.items and isinstance(answer, dict) else answer
    return found if isinstance(found, list) else [found] if isinstance(found, dict) else []


def _make_rest(clients: Clients) -> str:
    """Create what refused requests do not need; return its name."""
    name, ec2 = f"shapes-{uuid.uuid4().hex[:8]}", clients.of("ec2")
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    volume = ec2.create_volume(AvailabilityZone=zone, Size=8, VolumeType="gp3")["VolumeId"]
    ec2.create_snapshot(VolumeId=volume, Description="made here")
    ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=IMAGE)
    clients.of("cloudwatch").put_metric_alarm(
        AlarmName=name,
        Namespace="shapes",
        MetricName="metric",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    return name


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
            if key in UNREAD:
                continue
            yield from _paths(each, f"{path}.{key}" if path else key)
    else:
        yield path, "datetime" if hasattr(value, "isoformat") else type(value).__name__
