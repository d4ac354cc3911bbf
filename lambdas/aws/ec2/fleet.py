"""EC2 CreateFleet `instant`: one ask for the hosts of one gang, all of one type in one zone, or none, where there are
fewer than it needs at least. It may name several pools, of which EC2 takes one.

CreateFleet answers 200 with Errors[] when it launched nothing: success is the number of ids, never the
absence of an exception.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, assert_never

from botocore.exceptions import ClientError

from lambdas.aws.clients import THROTTLED, client, denial
from lambdas.core.capacity.placement import FleetRefusal, answer_of
from lambdas.core.capacity.plan import Part
from trainyard.protocol.plan import Candidate, Market, RefusalKind
from trainyard.values.lazy import dataclass

KINDS = {
    "InsufficientInstanceCapacity": RefusalKind.CAPACITY,
    "InsufficientCapacity": RefusalKind.CAPACITY,
    "InsufficientHostCapacity": RefusalKind.CAPACITY,
    "InsufficientFreeAddressesInSubnet": RefusalKind.CAPACITY,
    "UnfulfillableCapacity": RefusalKind.CAPACITY,
    "ReservationCapacityExceeded": RefusalKind.CAPACITY,
    "SpotMaxPriceTooLow": RefusalKind.CAPACITY,
    "MaxSpotInstanceCountExceeded": RefusalKind.QUOTA,
    "VcpuLimitExceeded": RefusalKind.QUOTA,
    "InstanceLimitExceeded": RefusalKind.QUOTA,
    "MaxFleetCountExceeded": RefusalKind.QUOTA,
    "Unsupported": RefusalKind.UNSUPPORTED,
    "UnsupportedOperation": RefusalKind.UNSUPPORTED,
    "InvalidInstanceType": RefusalKind.UNSUPPORTED,
    **dict.fromkeys(THROTTLED, RefusalKind.THROTTLED),
}
"""What kind of no each of EC2's codes is. Any other code means the yard is set up wrongly."""
ROOT_DEVICE = "/dev/sda1"
ANSWER_SECONDS = 75.0
"""A fleet of fifty hosts takes EC2 a while, and who gives up asks for it once more: twice, in the three minutes that
Launch has."""


@dataclass(frozen=True)
class Template:
    """The launch template to launch from; every request names the image beside it."""

    id: str
    version: str


def template(templates: Collection[str], rate: int) -> Template:
    """The one whose root disk is fetched at this rate, of those named `rate=id:version`; KeyError where there is none.

    An override of a fleet may say much of a disk, but not that."""
    named = dict(each.split("=") for each in templates)
    template_id, version = named[str(rate)].split(":")
    return Template(template_id, version)


@dataclass(frozen=True)
class Launched:
    """The hosts, all of the type that EC2 chose, in the candidate that it took; `volume_charge` is dollars once for
    each."""

    instances: tuple[str, ...]
    type: str
    candidate: Candidate
    volume_charge: float = 0.0


Refusals = tuple[FleetRefusal, ...]
"""What each of the candidates that a request asks was refused with, in their order."""


def launch(
    part: Part,
    candidates: Sequence[Candidate],
    template: Template,
    *,
    image: str,
    token: str,
    tags: Mapping[str, str],
    root_gib: int | None = None,
    key: str = "",
) -> Launched | Refusals:
    """Launch the part's hosts from this image in the zone and market of one candidate, at least as many as it needs, or
    none. The candidates share a market, and no two share a type and zone. The same token never launches twice.

    `root_gib`: the size of the root disk (None: as large as the image's own); `key` is the one it is encrypted with.
    Network interfaces get their tag from the template; a fleet's spot request cannot be tagged from here.
    Fewer ids than asked for are answered as Launched all the same: they cost money, so the caller must know.
    Raises ServiceUnavailable where EC2 throttles or does not answer: no pool has said no, and hosts may be launched;
    the same ask, with the same token, is made again."""
    match candidates[0].market:
        case Market.SPOT:
            market, options_of, allocation = "spot", "SpotOptions", "capacity-optimized"
        case Market.ON_DEMAND:
            market, options_of, allocation = "on-demand", "OnDemandOptions", "lowest-price"
        case _:
            assert_never(candidates[0].market)
    options = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": part.least}
    request: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template.id, "Version": template.version},
                "Overrides": [
                    {"InstanceType": choice.type, "SubnetId": candidate.subnet, "ImageId": image}
                    | _disk(root_gib, key)
                    for candidate in candidates
                    for choice in candidate.choices(part.gang)
                    if choice in part.choices
                ],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": part.count,
            "DefaultTargetCapacityType": market,
        },
        options_of: options | {"AllocationStrategy": allocation},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
            for kind in ("fleet", "instance", "volume")
        ],
    }
    try:
        answer = client("ec2", read_seconds=ANSWER_SECONDS).create_fleet(**request)
    except ClientError as error:
        no = _fleet_refusal(error.response["Error"]["Code"], error.response["Error"].get("Message", ""))
        return (no,) * len(candidates)
    groups = answer.get("Instances", [])
    if groups:
        ids = tuple(instance for group in groups for instance in group["InstanceIds"])
        return Launched(ids, groups[0]["InstanceType"], _taken(groups[0], candidates))
    return tuple(_refusal(candidate, candidates, answer.get("Errors", [])) for candidate in candidates)


def _taken(group: Mapping[str, Any], candidates: Sequence[Candidate]) -> Candidate:
    """The one of the candidates in which these hosts are."""
    if len(candidates) == 1:
        return candidates[0]
    where = (group["InstanceType"], _override(group)["SubnetId"])
    return next(candidate for candidate in candidates if (candidate.type, candidate.subnet) == where)


def _refusal(
    candidate: Candidate, candidates: Sequence[Candidate], errors: Sequence[Mapping[str, Any]]
) -> FleetRefusal:
    """What was said of this candidate. Of one that EC2 says nothing of, it has found no room there."""
    mine = [
        (_override(error).get("InstanceType", "EC2"), no)
        for error in errors
        if len(candidates) == 1 or _is_about(error, candidate)
        for no in [_fleet_refusal(error["ErrorCode"], error.get("ErrorMessage", ""))]
    ]
    if not mine:
        return _fleet_refusal("UnfulfillableCapacity", "EC2 launched nothing there and gave no reason")
    return answer_of(mine)


def _is_about(error: Mapping[str, Any], candidate: Candidate) -> bool:
    """An error that names no pool is about all of them."""
    override = _override(error)
    return (override.get("InstanceType", candidate.type), override.get("SubnetId", candidate.subnet)) == (
        candidate.type,
        candidate.subnet,
    )


def _disk(root_gib: int | None, key: str) -> dict[str, Any]:
    """The override of a root disk's size, as the launch templates have that disk in all else."""
    if root_gib is None:
        return {}
    disk = {"VolumeSize": root_gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    disk |= {"KmsKeyId": key} if key else {}
    return {"BlockDeviceMappings": [{"DeviceName": ROOT_DEVICE, "Ebs": disk}]}


def _override(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The override that hosts were launched by, or that an error is about."""
    found: Mapping[str, Any] = said.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return found


def _fleet_refusal(code: str, message: str) -> FleetRefusal:
    """A missing permission is raised, since every pool would say the same."""
    denied = denial(code, message, action="ec2:CreateFleet")
    if denied:
        raise denied
    return FleetRefusal(_kind(code), code, message)


def _kind(code: str) -> RefusalKind:
    """EC2 sometimes gives a sub-code behind a dot: the part before it decides when the whole is unknown."""
    return KINDS.get(code) or KINDS.get(code.partition(".")[0]) or RefusalKind.CONFIGURATION
