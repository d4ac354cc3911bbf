"""EC2 instances: find them by their tags; start, stop, terminate and tag many at a time. A refusal for one host does
not affect the others."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import list_items
from lambdas.aws.clients import client
from trainyard.core.model.errors import AccessDenied, Infrastructure, ServiceUnavailable
from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import Market
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

LIVE = ("pending", "running", "stopping", "stopped")
PAGE = 1000
WHEN = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
"""The time in EC2's reason of a state: `User initiated (2026-11-20 12:00:00 GMT)`."""
GIB = re.compile(r"[1-9][0-9]{0,4}")
DOLLARS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,9})?")
CHUNK = 500
MOST_TAGGED = 1000
MOST_VALUES = 200
"""The most values of a filter."""
GONE = "InvalidInstanceID.NotFound"


@dataclass(frozen=True)
class Refusal:
    """The refusal of an action on a host."""

    code: str
    message: str
    passing: bool = False
    """The action may succeed soon."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


NEVER_RAN = ("Client.InternalError", "Client.InvalidKMSKey")
"""State reasons of hosts that never ran, mostly because EC2 may not use the key of the disk
(docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html)."""
FORGOTTEN = Refusal(GONE, "EC2 no longer lists it", passing=True)
NOT_SHOWN = Refusal(GONE, "EC2 does not show it or its tags yet", passing=True)


@dataclass(frozen=True)
class Instance:
    id: str
    type: str
    zone: str
    market: Market
    state: str
    state_reason: str
    address: str | None
    launched: datetime
    image: str
    tags: Mapping[str, str]
    changed: datetime | None = None
    """The time of the last change of state, if EC2 gives it."""
    attached: datetime | None = None
    """The time at which the root disk was attached. `launched` is the time of the last start."""

    @property
    def volume_charge(self) -> float:
        """Return the one-time charge in dollars for fetching the disk at its rate, from the tag that Launch wrote."""
        noted = self.tags.get(Tag.VOLUME_CHARGE, "")
        return float(noted) if DOLLARS.fullmatch(noted) else 0.0

    @property
    def price(self) -> float | None:
        """Return the highest expected dollars an hour, from the tag that Launch wrote."""
        noted = self.tags.get(Tag.PRICE, "")
        return float(noted) if DOLLARS.fullmatch(noted) else None

    @property
    def disk_gib(self) -> int | None:
        """Return the size of the disk, from the tag that Launch wrote."""
        noted = self.tags.get(Tag.DISK, "")
        return int(noted) if GIB.fullmatch(noted) else None

    @property
    def gang(self) -> Gang:
        return Gang(int(self.tags.get(Tag.GANG, Gang.MAIN)))

    @property
    def state_and_why(self) -> str:
        """Return the state and its reason as EC2 words them."""
        return f"{self.state} ({self.state_reason or 'no reason given'})"

    @property
    def never_ran(self) -> bool:
        """Return True if EC2 ended the host before it ran, because of a wrong launch request."""
        return self.state_reason.startswith(NEVER_RAN)

    @property
    def gone(self) -> bool:
        return self.state in ("shutting-down", "terminated", "stopping", "stopped")


def find_by_run(
    run: str, *, attempt: int | None = None, states: Iterable[str] = LIVE
) -> tuple[Instance, ...]:
    """Return every instance with the tag of this run. A crash cannot hide one, because the ledger is not consulted."""
    filters = [
        {"Name": f"tag:{Tag.RUN}", "Values": [run]},
        {"Name": "instance-state-name", "Values": list(states)},
    ]
    if attempt is not None:
        filters.append({"Name": f"tag:{Tag.ATTEMPT}", "Values": [str(attempt)]})
    return _describe(Filters=filters)


def find_by_id(ids: Collection[str]) -> tuple[Instance, ...]:
    """Return the instances that EC2 lists. The query is a filter, so an instance that is not visible yet
    raises no error."""
    asked = sorted(ids)
    parts = [asked[first : first + MOST_VALUES] for first in range(0, len(asked), MOST_VALUES)]
    return tuple(
        host for part in parts for host in _describe(Filters=[{"Name": "instance-id", "Values": part}])
    )


def find_dev_hosts(yard: str, name: str) -> tuple[Instance, ...]:
    """Return the running and stopped instances of the dev host of that name."""
    filters = [
        {"Name": f"tag:{Tag.YARD}", "Values": [yard]},
        {"Name": f"tag:{Tag.DEV}", "Values": [name]},
        {"Name": "instance-state-name", "Values": list(LIVE)},
    ]
    return _describe(Filters=filters)


def find_in_yard(yard: str) -> tuple[Instance, ...]:
    """Return every instance of the yard, including those that ended within the last hour. One call reads 1,000."""
    chosen = [{"Name": f"tag:{Tag.YARD}", "Values": [yard]}]
    return _describe(Filters=chosen, PaginationConfig={"PageSize": PAGE})


def images_in_use() -> frozenset[str]:
    """Return the images of all instances of the account that are not terminated."""
    return frozenset(instance.image for instance in _describe() if instance.state != "terminated")


def stop(ids: Collection[str], *, new: Collection[str] = ()) -> dict[str, Refusal]:
    """Stop these on-demand hosts; return the refusals. EC2 may not show the hosts in `new` yet."""
    return _drop_forgotten(_each(client("ec2").stop_instances, sorted(ids), new=new))


def terminate(ids: Collection[str], *, new: Collection[str] = ()) -> dict[str, Refusal]:
    """Terminate these hosts; return the refusals. The call may be repeated. EC2 may not show the hosts in `new` yet."""
    return _drop_forgotten(_each(client("ec2").terminate_instances, sorted(ids), new=new))


def start(ids: Collection[str]) -> dict[str, Refusal]:
    """Start these hosts; return the refusals. A running host keeps running."""
    return _each(client("ec2").start_instances, sorted(ids))


def check_refusals(refused: Mapping[str, Refusal]) -> None:
    """Raise ServiceUnavailable if every refusal is transient, else Infrastructure. Return if nothing was refused."""
    if refused:
        problems = "; ".join(f"{host}: {why}" for host, why in list(refused.items())[:3])
        passing = all(why.passing for why in refused.values())
        raise (ServiceUnavailable if passing else Infrastructure)(
            f"EC2 refuses {format_count(len(refused), 'host')}: {problems}"
        )


def keep_disks(ids: Collection[str]) -> None:
    """Make these hosts stop, not terminate, when they shut themselves down. EC2 takes one host a call. A host that is
    gone is skipped; any other refusal raises Infrastructure."""
    check_refusals(_drop_gone(_each(_stop_at_shutdown, sorted(ids), chunk=1)))


def tag(hosts: Mapping[str, Sequence[str]], key: str) -> None:
    """Write the tag on the hosts under each value. Hosts that are gone are skipped; any other refusal raises
    Infrastructure."""
    refused: dict[str, Refusal] = {}
    for value, ids in hosts.items():
        refused |= _each(_tagger(key, value), ids, chunk=MOST_TAGGED)
    check_refusals(_drop_gone(refused))


def retag(ids: Collection[str], tags: Mapping[str, str]) -> None:
    """Write all these tags on all hosts in one call. Hosts that are gone are skipped; any other refusal raises
    Infrastructure."""
    written = [{"Key": key, "Value": value} for key, value in tags.items()]

    def write(InstanceIds: Sequence[str]) -> Any:  # noqa: N803 - as the other calls name it
        return client("ec2").create_tags(Resources=list(InstanceIds), Tags=written)

    check_refusals(_drop_gone(_each(write, sorted(ids), chunk=MOST_TAGGED)))


def subnets(ids: Iterable[str]) -> dict[str, str]:
    """Return one of these subnets for each Availability Zone."""
    answer = client("ec2").describe_subnets(SubnetIds=list(ids))
    return {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in reversed(answer["Subnets"])}


def _drop_gone(refused: Mapping[str, Refusal]) -> dict[str, Refusal]:
    """Drop the refusals of hosts that are gone."""
    return {host: why for host, why in refused.items() if why.code != GONE}


def _drop_forgotten(refused: Mapping[str, Refusal]) -> dict[str, Refusal]:
    """Drop the refusals of hosts that ended long ago."""
    return {host: why for host, why in refused.items() if why != FORGOTTEN}


def _stop_at_shutdown(InstanceIds: Sequence[str]) -> Any:  # noqa: N803 - as the other calls name it
    (host,) = InstanceIds
    behaviour = {"Value": "stop"}
    return client("ec2").modify_instance_attribute(
        InstanceId=host, InstanceInitiatedShutdownBehavior=behaviour
    )


def _tagger(key: str, value: str) -> Callable[..., Any]:
    def write(InstanceIds: Sequence[str]) -> Any:  # noqa: N803 - as the other calls name it
        return client("ec2").create_tags(Resources=list(InstanceIds), Tags=[{"Key": key, "Value": value}])

    return write


def _each(
    call: Callable[..., Any], ids: Sequence[str], chunk: int = CHUNK, new: Collection[str] = ()
) -> dict[str, Refusal]:
    """Call EC2 with `chunk` hosts at a time; return the refusals.

    EC2 refuses a call as a whole. Then each half is tried again, down to the refused host, unless EC2 itself fails. A
    denial is raised, unless it only concerns hosts whose tags are invisible: EC2 no longer lists them, or does not show
    those in `new` yet."""
    refused: dict[str, Refusal] = {}
    waiting = [list(ids[first : first + chunk]) for first in range(0, len(ids), chunk)]
    while waiting:
        some = waiting.pop()
        try:
            call(InstanceIds=some)
        except ServiceUnavailable as error:
            refused |= dict.fromkeys(some, Refusal(error.code, error.reason, passing=True))
        except AccessDenied:
            unseen = _find_invisible(some)
            if not unseen:
                raise
            refused |= {host: NOT_SHOWN if host in new else FORGOTTEN for host in unseen}
            waiting += [rest] if (rest := [host for host in some if host not in unseen]) else []
        except ClientError as error:
            if len(some) == 1:
                refused |= dict.fromkeys(some, _refusal(**error.response["Error"]))
            else:
                middle = len(some) // 2
                waiting += [some[:middle], some[middle:]]
    return refused


def _refusal(Code: str, Message: str = "", **_: Any) -> Refusal:  # noqa: N803 - as EC2 has them
    return Refusal(Code, Message, passing=Code == GONE)


def _find_invisible(ids: Collection[str]) -> frozenset[str]:
    """Return the instances that EC2 no longer lists, or lists without tags because they were terminated. Return none if
    the caller lacks ec2:DescribeInstances."""
    try:
        known = {host.id for host in find_by_id(ids) if host.state != "terminated"}
    except AccessDenied:
        return frozenset()
    return frozenset(ids) - known


def _describe(**request: Any) -> tuple[Instance, ...]:
    found = list_items("ec2", "describe_instances", "Reservations", **request)
    return tuple(_instance(instance) for reservation in found for instance in reservation["Instances"])


def _instance(data: Mapping[str, Any]) -> Instance:
    return Instance(
        id=data["InstanceId"],
        type=data["InstanceType"],
        zone=data["Placement"]["AvailabilityZone"],
        market=Market.SPOT if data.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND,
        state=data["State"]["Name"],
        state_reason=data.get("StateReason", {}).get("Message", ""),
        address=data.get("PrivateIpAddress"),
        launched=data["LaunchTime"],
        image=data["ImageId"],
        tags={tag["Key"]: tag["Value"] for tag in data.get("Tags", [])},
        changed=_parse_change(str(data.get("StateTransitionReason", ""))),
        attached=next((_attached(disk) for disk in data.get("BlockDeviceMappings", [])), None),
    )


def _attached(disk: Mapping[str, Any]) -> datetime | None:
    when: datetime | None = disk.get("Ebs", {}).get("AttachTime")
    return when


def _parse_change(reason: str) -> datetime | None:
    found = WHEN.search(reason)
    return datetime.strptime(found.group(1), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if found else None
