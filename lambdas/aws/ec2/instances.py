"""EC2 instances: found by their tags; stopped, ended and tagged many at a time. One that EC2 refuses keeps no other
running."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import listed
from lambdas.aws.clients import client
from trainyard.core.model.errors import AccessDenied, Infrastructure, ServiceUnavailable
from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import Market
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import counted

LIVE = ("pending", "running", "stopping", "stopped")
PAGE = 1000
WHEN = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
"""How EC2 writes when a state changed: `User initiated (2026-11-20 12:00:00 GMT)`."""
GIB = re.compile(r"[1-9][0-9]{0,4}")
DOLLARS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,9})?")
CHUNK = 500
MOST_TAGGED = 1000
MOST_VALUES = 200
"""Of a filter."""
GONE = "InvalidInstanceID.NotFound"


@dataclass(frozen=True)
class Refusal:
    """Why EC2 does not do what it was asked for a host. `passing`: it may do so soon."""

    code: str
    message: str
    passing: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


NEVER_RAN = ("Client.InternalError", "Client.InvalidKMSKey")
"""docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html: mostly a disk's key that may not be used."""
FORGOTTEN = Refusal(GONE, "EC2 has forgotten it", passing=True)
NOT_SHOWN = Refusal(GONE, "EC2 does not show it, nor its tags, yet", passing=True)


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
    """When its state changed last, where EC2 says so."""
    attached: datetime | None = None
    """When its root disk came to be; `launched` is when it was started last."""

    @property
    def volume_charge(self) -> float:
        """Dollars once, for the rate that its disk was fetched at: what Launch noted."""
        noted = self.tags.get(Tag.VOLUME_CHARGE, "")
        return float(noted) if DOLLARS.fullmatch(noted) else 0.0

    @property
    def price(self) -> float | None:
        """Dollars an hour, the most that Launch expected, where that is noted."""
        noted = self.tags.get(Tag.PRICE, "")
        return float(noted) if DOLLARS.fullmatch(noted) else None

    @property
    def disk_gib(self) -> int | None:
        """The size of its disk, where Launch has noted it."""
        noted = self.tags.get(Tag.DISK, "")
        return int(noted) if GIB.fullmatch(noted) else None

    @property
    def gang(self) -> Gang:
        return Gang(int(self.tags.get(Tag.GANG, Gang.MAIN)))

    @property
    def state_and_why(self) -> str:
        """In EC2's words."""
        return f"{self.state} ({self.state_reason or 'no reason given'})"

    @property
    def never_ran(self) -> bool:
        """EC2 took it back before it ran, for a fault of whoever launched it."""
        return self.state_reason.startswith(NEVER_RAN)

    @property
    def gone(self) -> bool:
        return self.state in ("shutting-down", "terminated", "stopping", "stopped")


def of_run(run: str, *, attempt: int | None = None, states: Iterable[str] = LIVE) -> tuple[Instance, ...]:
    """Every instance that carries this run's tag, whatever the ledger knows: a crash cannot hide one."""
    filters = [
        {"Name": f"tag:{Tag.RUN}", "Values": [run]},
        {"Name": "instance-state-name", "Values": list(states)},
    ]
    if attempt is not None:
        filters.append({"Name": f"tag:{Tag.ATTEMPT}", "Values": [str(attempt)]})
    return _describe(Filters=filters)


def of_ids(ids: Collection[str]) -> tuple[Instance, ...]:
    """These instances, as far as EC2 knows them (a filter, not ids: one that is not visible yet is no error)."""
    asked = sorted(ids)
    parts = [asked[first : first + MOST_VALUES] for first in range(0, len(asked), MOST_VALUES)]
    return tuple(
        host for part in parts for host in _describe(Filters=[{"Name": "instance-id", "Values": part}])
    )


def of_dev(yard: str, name: str) -> tuple[Instance, ...]:
    """The instances of the dev host of that name which are there, stopped ones too."""
    filters = [
        {"Name": f"tag:{Tag.YARD}", "Values": [yard]},
        {"Name": f"tag:{Tag.DEV}", "Values": [name]},
        {"Name": "instance-state-name", "Values": list(LIVE)},
    ]
    return _describe(Filters=filters)


def of_yard(yard: str) -> tuple[Instance, ...]:
    """Every instance of the yard, also those that ended within the last hour: a call for each thousand."""
    chosen = [{"Name": f"tag:{Tag.YARD}", "Values": [yard]}]
    return _describe(Filters=chosen, PaginationConfig={"PageSize": PAGE})


def images_in_use() -> frozenset[str]:
    """The images that any instance of the account still runs from."""
    return frozenset(instance.image for instance in _describe() if instance.state != "terminated")


def stop(ids: Collection[str], *, new: Collection[str] = ()) -> dict[str, Refusal]:
    """Stop these, on-demand ones only; why EC2 refuses which of them. `new`: launched a moment ago, so that EC2 may not
    show them yet."""
    return _remembered(_each(client("ec2").stop_instances, sorted(ids), new=new))


def terminate(ids: Collection[str], *, new: Collection[str] = ()) -> dict[str, Refusal]:
    """End these, which may happen twice; why EC2 refuses which of them. `new` as in `stop`."""
    return _remembered(_each(client("ec2").terminate_instances, sorted(ids), new=new))


def start(ids: Collection[str]) -> dict[str, Refusal]:
    """Start these again, one that runs goes on; why EC2 refuses which of them."""
    return _each(client("ec2").start_instances, sorted(ids))


def all_done(refused: Mapping[str, Refusal]) -> None:
    """Where EC2 has refused any of what was asked for: ServiceUnavailable if it may do so soon (it is in trouble, or
    does not know a new host yet), else Infrastructure."""
    if refused:
        problems = "; ".join(f"{host}: {why}" for host, why in list(refused.items())[:3])
        passing = all(why.passing for why in refused.values())
        raise (ServiceUnavailable if passing else Infrastructure)(
            f"EC2 refuses {counted(len(refused), 'host')}: {problems}"
        )


def keep_disks(ids: Collection[str]) -> None:
    """From now on these stop where they would end by shutting themselves down. EC2 takes one a call. One that is gone
    meanwhile is no error; Infrastructure for any other refusal."""
    all_done(_there(_each(_stop_at_shutdown, sorted(ids), chunk=1)))


def tag(hosts: Mapping[str, Sequence[str]], key: str) -> None:
    """Write the tag: hosts by value. One that is gone meanwhile is no error; Infrastructure for any other refusal."""
    refused: dict[str, Refusal] = {}
    for value, ids in hosts.items():
        refused |= _each(_tagger(key, value), ids, chunk=MOST_TAGGED)
    all_done(_there(refused))


def retag(ids: Collection[str], tags: Mapping[str, str]) -> None:
    """Write all these tags on all of them, in one call. One that is gone meanwhile is no error; Infrastructure for any
    other refusal."""
    written = [{"Key": key, "Value": value} for key, value in tags.items()]

    def write(InstanceIds: Sequence[str]) -> Any:  # noqa: N803 - as the other calls name it
        return client("ec2").create_tags(Resources=list(InstanceIds), Tags=written)

    all_done(_there(_each(write, sorted(ids), chunk=MOST_TAGGED)))


def subnets(ids: Iterable[str]) -> dict[str, str]:
    """One of these subnets by Availability Zone."""
    answer = client("ec2").describe_subnets(SubnetIds=list(ids))
    return {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in reversed(answer["Subnets"])}


def _there(refused: Mapping[str, Refusal]) -> dict[str, Refusal]:
    """Without those that are gone."""
    return {host: why for host, why in refused.items() if why.code != GONE}


def _remembered(refused: Mapping[str, Refusal]) -> dict[str, Refusal]:
    """Without those that have long ended: nothing is left to stop or to end."""
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
    """All in calls of `chunk`. EC2 refuses a call whole: of one that it refuses, each half is asked again, down to the
    host that it is about, unless EC2 itself is in trouble. A missing permission is raised, unless it is missing for
    hosts alone whose tag nobody can see: EC2 has forgotten them, or does not show those that are `new` yet."""
    refused: dict[str, Refusal] = {}
    waiting = [list(ids[first : first + chunk]) for first in range(0, len(ids), chunk)]
    while waiting:
        some = waiting.pop()
        try:
            call(InstanceIds=some)
        except ServiceUnavailable as error:
            refused |= dict.fromkeys(some, Refusal(error.code, error.reason, passing=True))
        except AccessDenied:
            unseen = _unseen(some)
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


def _unseen(ids: Collection[str]) -> frozenset[str]:
    """Those of which EC2 knows nothing, or no tags since they have ended; none for whom may not look."""
    try:
        known = {host.id for host in of_ids(ids) if host.state != "terminated"}
    except AccessDenied:
        return frozenset()
    return frozenset(ids) - known


def _describe(**request: Any) -> tuple[Instance, ...]:
    found = listed("ec2", "describe_instances", "Reservations", **request)
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
        changed=_changed(str(data.get("StateTransitionReason", ""))),
        attached=next((_attached(disk) for disk in data.get("BlockDeviceMappings", [])), None),
    )


def _attached(disk: Mapping[str, Any]) -> datetime | None:
    when: datetime | None = disk.get("Ebs", {}).get("AttachTime")
    return when


def _changed(reason: str) -> datetime | None:
    found = WHEN.search(reason)
    return datetime.strptime(found.group(1), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if found else None
