"""The teardown of a yard: the resources it deletes, the resources that stay, and their monthly cost.

The prices come from the ledger, where patrol has stored them for the region, otherwise from us-east-1. The costs are
upper limits: a snapshot stores only the blocks that differ from the image before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from trainyard.client.admin import people, retained
from trainyard.client.errors import BucketNotEmptied, HostsRunning, RunsRunning, StackNotDeleted
from trainyard.client.session import Session
from trainyard.protocol import webhooks
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.tags import Tag
from trainyard.values.quantities import format_count

SHUTTING_DOWN = "shutting-down"
ENDING = (SHUTTING_DOWN, "terminated")
MOST_LOOKS = 600
"""An instance with GPUs takes minutes to shut down, and keeps its network interface until then."""
PRICES = {"pk": "patrol", "sk": "prices"}
"""The key of patrol's row of prices."""
US_EAST_1 = {"snapshot": 0.05, "disk": 0.08, "bucket": 0.023, "table": 0.25, "logs": 0.03}
"""Dollars a GiB and month in us-east-1, as of November 2026, by the keys of the row."""
GIB = 2**30
LOOK_SECONDS = 2.0
PAGE = 1000
"""The most versions that S3 deletes in one call."""


class Kind(StrEnum):
    """The kinds of resources that the stacks retain on purpose."""

    IMAGE = "image"
    SNAPSHOT = "snapshot"
    VOLUME = "volume"
    BUCKET = "bucket"
    TABLE = "table"
    LOG_GROUP = "log group"
    PARAMETER = "parameter"


BILLED_AS = {
    Kind.IMAGE: "snapshot",
    Kind.SNAPSHOT: "snapshot",
    Kind.VOLUME: "disk",
    Kind.BUCKET: "bucket",
    Kind.TABLE: "table",
    Kind.LOG_GROUP: "logs",
}
"""The prices that apply. Standard parameters are free."""
IMAGES = frozenset({Kind.IMAGE, Kind.SNAPSHOT})
DATA = frozenset({Kind.BUCKET, Kind.TABLE, Kind.VOLUME, Kind.LOG_GROUP, Kind.PARAMETER})


@dataclass(frozen=True)
class Leftover:
    """A resource that outlives the stacks, with its size and its highest monthly cost in dollars."""

    kind: Kind
    name: str
    gib: float
    dollars: float
    prices: str
    about: str = ""


@dataclass(frozen=True)
class Prices:
    """Dollars a GiB and month in the region, as far as they are known, read on `day`."""

    region: str
    gib_month: Mapping[str, float]
    day: str

    def leftover(self, kind: Kind, name: str, gib: float, about: str = "") -> Leftover:
        word = BILLED_AS.get(kind)
        if word is None:
            return Leftover(kind, name, gib, 0.0, f"a {kind} costs nothing", about)
        own = self.gib_month.get(word)
        if own is not None:
            return Leftover(kind, name, gib, gib * own, f"prices of {self.region}, {self.day}", about)
        whose = (
            f"prices of us-east-1, November 2026: the yard's ledger has none of {self.region} for a {kind}"
        )
        return Leftover(kind, name, gib, gib * US_EAST_1[word], whose, about)


def hosts(session: Session, yard: str) -> list[str]:
    """Return the yard's instances that have not ended. Stopped ones count: their disks are billed, and they use the
    network."""
    return [host for host, state in _hosts(session, yard) if state not in ENDING]


def _hosts(session: Session, yard: str) -> Iterator[tuple[str, str]]:
    """Yield the yard's instances with their states."""
    filters = [{"Name": f"tag:{Tag.YARD}", "Values": [yard.lower()]}]
    for page in session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters):
        for held in page["Reservations"]:
            for instance in held["Instances"]:
                yield str(instance["InstanceId"]), str(instance["State"]["Name"])


def executions(session: Session, yard: str) -> list[str]:
    """Return the ARNs of the running executions of the yard's state machines."""
    client = session.client("stepfunctions")
    machines = [
        machine
        for page in client.get_paginator("list_state_machines").paginate()
        for machine in page["stateMachines"]
        if machine["name"].startswith(f"{yard.lower()}-")
    ]
    return [
        str(execution["executionArn"])
        for machine in machines
        for page in client.get_paginator("list_executions").paginate(
            stateMachineArn=machine["stateMachineArn"], statusFilter="RUNNING"
        )
        for execution in page["executions"]
    ]


def stacks(session: Session, yard: str) -> list[str]:
    """Return the yard's stacks in the order of their deletion: a stack that imports comes before the exporting one."""
    pages = session.client("cloudformation").get_paginator("describe_stacks").paginate()
    ours = [
        stack
        for page in pages
        for stack in page["Stacks"]
        if {"Key": Tag.YARD, "Value": yard.lower()} in stack.get("Tags", [])
    ]
    newest_first = sorted(ours, key=lambda stack: stack["CreationTime"], reverse=True)
    return [str(stack["StackName"]) for stack in newest_first]


def delete_stacks(session: Session, yard: str, said: Callable[[str], None] = lambda _: None) -> None:
    """Delete the grants of the yard's policies, which would block the deletion, and then its stacks. `said` is called
    before each deletion. Raise RunsRunning, HostsRunning or StackNotDeleted."""
    if going := executions(session, yard):
        raise RunsRunning(
            f"the yard {yard} runs {format_count(len(going), 'execution')}: {', '.join(going)}",
            "they would launch hosts, and nothing would stop these hosts without patrol",
            f"aws stepfunctions stop-execution --region {session.region} --execution-arn {going[0]}",
        )
    _refuse_hosts(session, yard)
    _await_ending_hosts(session, yard, said)
    client, names = session.client("cloudformation"), stacks(session, yard)
    if held := people.grants(session, names):
        said(f"deleting the grants of {', '.join(holders_of(held))}")
        people.detach(session, held)
    for name in names:
        said(f"deleting {name}")
        client.delete_stack(StackName=name)
        if reason := _reason_to_stay(session, name):
            raise StackNotDeleted(
                f"the stack {name} was not deleted", reason, "fix the reason, then run the same command again"
            )
    _refuse_hosts(session, yard)


def holders_of(held: Mapping[str, Iterable[people.Holder]]) -> list[str]:
    """Return the roles, users and groups of these grants, each once: `user/ada`."""
    return sorted({str(holder) for holders in held.values() for holder in holders})


def find_leftovers(session: Session, yard: str) -> list[Leftover]:
    """Return the resources with the yard's tag or name that no stack deletes."""
    tables = retained.tables(session, yard)
    prices = _prices(session, tables)
    found = [
        *_images(session, yard),
        *_volumes(session, yard),
        *_buckets(session, yard),
        *(
            (Kind.TABLE, each["TableName"], each["TableSizeBytes"] / GIB, f"{each['ItemCount']} rows")
            for each in tables
        ),
        *_log_groups(session, yard),
        *_parameters(session, yard),
    ]
    return [prices.leftover(*each) for each in found]


def remove(session: Session, things: Collection[Leftover]) -> None:
    """Delete resources permanently."""
    ec2 = session.client("ec2")
    for thing in things:
        match thing.kind:
            case Kind.IMAGE:
                ec2.deregister_image(ImageId=thing.name, DeleteAssociatedSnapshots=True)
            case Kind.SNAPSHOT:
                ec2.delete_snapshot(SnapshotId=thing.name)
            case Kind.VOLUME:
                ec2.delete_volume(VolumeId=thing.name)
            case Kind.BUCKET:
                _empty(session, thing.name)
                session.client("s3").delete_bucket(Bucket=thing.name)
            case Kind.TABLE:
                dynamodb = session.client("dynamodb")
                dynamodb.update_table(TableName=thing.name, DeletionProtectionEnabled=False)
                dynamodb.delete_table(TableName=thing.name)
            case Kind.LOG_GROUP:
                session.client("logs").delete_log_group(logGroupName=thing.name)
            case Kind.PARAMETER:
                session.client("ssm").delete_parameter(Name=thing.name)


def _empty(session: Session, bucket: str) -> None:
    """Delete every version of every object, page by page until the bucket is empty, including objects that are written
    meanwhile. Raise BucketNotEmptied."""
    client = session.client("s3")
    while True:
        page = client.list_object_versions(Bucket=bucket, MaxKeys=PAGE)
        versions = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if not versions:
            return
        names = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in versions]
        done = client.delete_objects(Bucket=bucket, Delete={"Objects": names, "Quiet": True})
        if refused := done.get("Errors"):
            first, number = refused[0], format_count(len(refused), "version")
            raise BucketNotEmptied(
                f"S3 refused to delete {number} of objects in {bucket}; {first['Key']}: {first['Message']}",
                "the bucket stays, and its storage is still billed; some objects are already deleted",
                f"allow s3:DeleteObjectVersion on arn:aws:s3:::{bucket}/*, then run the same command again",
            )


def _refuse_hosts(session: Session, yard: str) -> None:
    if living := hosts(session, yard):
        raise HostsRunning(
            f"the yard {yard} has {format_count(len(living), 'host')}: {', '.join(living)}",
            "nothing would stop them without patrol",
            f"aws ec2 terminate-instances --region {session.region} --instance-ids {' '.join(living)}",
        )


def _await_ending_hosts(session: Session, yard: str, said: Callable[[str], None]) -> None:
    """Wait for instances that are shutting down, because they block the deletion of the network. Raise HostsRunning."""
    ending = [host for host, state in _hosts(session, yard) if state == SHUTTING_DOWN]
    if not ending:
        return
    said(
        f"waiting for {format_count(len(ending), 'host')} that {'is' if len(ending) == 1 else 'are'} shutting down"
    )
    waiter = session.client("ec2").get_waiter("instance_terminated")
    try:
        waiter.wait(InstanceIds=ending, WaiterConfig={"Delay": LOOK_SECONDS, "MaxAttempts": MOST_LOOKS})
    except WaiterError as error:
        raise HostsRunning(
            f"{', '.join(ending)} did not end: {error}",
            "hosts block the deletion of the yard's network; nothing was deleted",
            "wait until EC2 has ended the host, then run the same command again",
        ) from error


def _reason_to_stay(session: Session, stack: str) -> str:
    """Wait until the stack is deleted and return an empty text. Return the reason if it is not deleted. A stack whose
    export is in use returns to its earlier state."""
    client = session.client("cloudformation")
    while True:
        try:
            (found,) = client.describe_stacks(StackName=stack)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return ""
            raise
        if found["StackStatus"] == "DELETE_FAILED":
            return "; ".join(_refusals(session, stack))
        if found["StackStatus"] != "DELETE_IN_PROGRESS":
            return str(found.get("StackStatusReason", found["StackStatus"]))
        time.sleep(LOOK_SECONDS)


def _refusals(session: Session, stack: str) -> Iterator[str]:
    """Yield CloudFormation's reasons for each resource that was not deleted."""
    pages = session.client("cloudformation").get_paginator("describe_stack_events").paginate(StackName=stack)
    for page in pages:
        for event in page["StackEvents"]:
            of_the_stack = event.get("PhysicalResourceId") == event["StackId"]
            if event["ResourceStatus"] == "DELETE_FAILED" and not of_the_stack:
                yield f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"


FoundResource = tuple[Kind, str, float, str]
"""A resource's kind and name, its GiB, and a description."""


def _prices(session: Session, tables: Iterable[Mapping[str, Any]]) -> Prices:
    """Return the prices in the ledger, or no prices without a ledger or before patrol has read them."""
    for table in tables:
        row = session.resource("dynamodb").Table(table["TableName"]).get_item(Key=PRICES).get("Item", {})
        if row.get("read"):
            known = reading.read(PriceList, row)
            return Prices(session.region, known.storage, f"{known.read:%Y-%m-%d}")
    return Prices(session.region, {}, "")


def _images(session: Session, yard: str) -> Iterator[FoundResource]:
    """Yield the images, which include their snapshots, and then snapshots whose image is gone."""
    ec2, filters = session.client("ec2"), [{"Name": f"tag:{Tag.YARD}", "Values": [yard.lower()]}]
    snapshots = {
        each["SnapshotId"]: each
        for page in ec2.get_paginator("describe_snapshots").paginate(OwnerIds=["self"], Filters=filters)
        for each in page["Snapshots"]
    }
    for page in ec2.get_paginator("describe_images").paginate(Owners=["self"], Filters=filters):
        for image in page["Images"]:
            disks = [mapping["Ebs"] for mapping in image["BlockDeviceMappings"] if "Ebs" in mapping]
            gib = float(sum(disk.get("VolumeSize", 0) for disk in disks))
            yield Kind.IMAGE, image["ImageId"], gib, image.get("Name", "")
            for disk in disks:
                snapshots.pop(disk.get("SnapshotId"), None)
    for name, snapshot in snapshots.items():
        yield Kind.SNAPSHOT, name, float(snapshot["VolumeSize"]), snapshot.get("Description", "")


def _volumes(session: Session, yard: str) -> Iterator[FoundResource]:
    filters = [
        {"Name": f"tag:{Tag.YARD}", "Values": [yard.lower()]},
        {"Name": "status", "Values": ["available"]},
    ]
    for page in session.client("ec2").get_paginator("describe_volumes").paginate(Filters=filters):
        for volume in page["Volumes"]:
            yield Kind.VOLUME, volume["VolumeId"], float(volume["Size"]), ""


def _buckets(session: Session, yard: str) -> Iterator[FoundResource]:
    for name in retained.buckets(session, yard):
        sizes = [version.size or 0 for version in session.resource("s3").Bucket(name).object_versions.all()]
        yield (
            Kind.BUCKET,
            name,
            sum(sizes) / GIB,
            f"{format_count(len(sizes), 'object')}, including older versions",
        )


def _log_groups(session: Session, yard: str) -> Iterator[FoundResource]:
    """Yield the log groups that functions created again by writing while their stack was deleted."""
    pages = session.client("logs").get_paginator("describe_log_groups")
    for page in pages.paginate(logGroupNamePrefix=f"/{yard.lower()}/"):
        for group in page["logGroups"]:
            yield Kind.LOG_GROUP, group["logGroupName"], group.get("storedBytes", 0) / GIB, ""


def _parameters(session: Session, yard: str) -> Iterator[FoundResource]:
    """Yield the secrets of jobs and the webhooks that users stored, and other parameters with the yard's prefix."""
    pages = session.client("ssm").get_paginator("describe_parameters")
    below = [{"Key": "Name", "Option": "BeginsWith", "Values": [f"/{yard.lower()}/"]}]
    for page in pages.paginate(ParameterFilters=below):
        for each in page["Parameters"]:
            about = str(each.get("Description", ""))
            if each["Type"] == "SecureString":
                is_hook = each["Name"].startswith(f"{webhooks.folder(yard.lower())}/")
                about = "a webhook" if is_hook else "a secret of jobs"
            yield Kind.PARAMETER, each["Name"], 0.0, about
