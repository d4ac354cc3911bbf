"""CreateFleet of type `instant`: one request for the hosts of one gang, all of one type in one zone, or none. If the
request names several capacity pools, EC2 chooses one.

CreateFleet answers 200 with Errors[] if it launched nothing. Only the number of instance IDs shows success.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
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
"""The kind of refusal by EC2's error code. Any other code means that the yard is set up wrongly."""
PROFILE_UNKNOWN = "Invalid IAM Instance Profile"
"""Part of EC2's message (InvalidParameterValue) for a profile that was created seconds ago."""
ROOT_DEVICE = "/dev/sda1"
ANSWER_SECONDS = 75.0
"""The wait for an answer. A fleet of fifty hosts takes EC2 a while. After this wait Launch sends the request again; two
tries fit into its three minutes."""


@dataclass(frozen=True)
class Template:
    """The launch template of a request. Every request names the image separately."""

    id: str
    version: str


def template(templates: Collection[str], rate: int) -> Template:
    """Return the launch template with this rate for fetching the root disk, from entries `rate=id:version`. Raises
    KeyError if it is missing.

    The overrides of a fleet cannot set this rate."""
    named = dict(each.split("=") for each in templates)
    template_id, version = named[str(rate)].split(":")
    return Template(template_id, version)


@dataclass(frozen=True)
class Launched:
    """The launched hosts, all of one type."""

    instances: tuple[str, ...]
    type: str
    candidate: Candidate
    """The candidate that EC2 chose."""
    volume_charge: float = 0.0
    """Dollars, once for each host."""
    since: datetime | None = None
    """When EC2 launched them; None if it has just done so."""


Refusals = tuple[FleetRefusal, ...]
"""The refusal of each candidate of a request, in the order of the candidates."""


def launch(
    part: Part,
    candidates: Sequence[Candidate],
    template: Template,
    *,
    image: str,
    client_token: str,
    tags: Mapping[str, str],
    root_gib: int | None = None,
    key: str = "",
) -> Launched | Refusals:
    """Launch the hosts of the part from this image in the zone and market of one candidate: at least as many as it
    needs, or none. The candidates share a market and differ in type or zone. A client token launches only once.

    `root_gib` is the size of the root disk (None: the size of the image's disk), and `key` encrypts it. Network
    interfaces get their tag from the launch template. A fleet cannot tag its spot request.

    Launched may contain fewer IDs than requested: these hosts cost money, so the caller must learn of them. Raises
    ServiceUnavailable if EC2 throttles or does not answer. Then hosts may have been launched, and the caller repeats
    the request with the same client token."""
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
        "ClientToken": client_token,
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
        return Launched(ids, groups[0]["InstanceType"], _find_candidate(groups[0], candidates))
    return tuple(_refusal(candidate, candidates, answer.get("Errors", [])) for candidate in candidates)


def _find_candidate(group: Mapping[str, Any], candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that these hosts are in."""
    if len(candidates) == 1:
        return candidates[0]
    where = (group["InstanceType"], _override(group)["SubnetId"])
    return next(candidate for candidate in candidates if (candidate.type, candidate.subnet) == where)


def _refusal(
    candidate: Candidate, candidates: Sequence[Candidate], errors: Sequence[Mapping[str, Any]]
) -> FleetRefusal:
    """Return the refusal of this candidate. If EC2 names no reason, the candidate counts as full."""
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
    """Return True if the error concerns this candidate. An error without a capacity pool concerns all of them."""
    override = _override(error)
    return (override.get("InstanceType", candidate.type), override.get("SubnetId", candidate.subnet)) == (
        candidate.type,
        candidate.subnet,
    )


def _disk(root_gib: int | None, key: str) -> dict[str, Any]:
    """Return the override of the root disk's size. All other properties repeat the launch template."""
    if root_gib is None:
        return {}
    disk = {"VolumeSize": root_gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    disk |= {"KmsKeyId": key} if key else {}
    return {"BlockDeviceMappings": [{"DeviceName": ROOT_DEVICE, "Ebs": disk}]}


def _override(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the override that launched the hosts, or that the error concerns."""
    found: Mapping[str, Any] = said.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return found


def _fleet_refusal(code: str, message: str) -> FleetRefusal:
    """Return the refusal. A denial is raised instead, because every capacity pool would repeat it."""
    denied = denial(code, message, action="ec2:CreateFleet")
    if denied:
        raise denied
    kind = RefusalKind.THROTTLED if PROFILE_UNKNOWN in message else _kind(code)
    return FleetRefusal(kind, code, message)


def _kind(code: str) -> RefusalKind:
    """Return the kind of refusal. If the whole code is not listed, the part before the dot decides."""
    return KINDS.get(code) or KINDS.get(code.partition(".")[0]) or RefusalKind.CONFIGURATION
