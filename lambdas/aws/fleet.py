"""EC2 CreateFleet `instant`: one ask for a whole gang in one pool, all or nothing.

CreateFleet answers 200 with Errors[] when it launched nothing: success is the number of ids, never the
absence of an exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client, denial
from lambdas.core.catalogue import Market
from lambdas.core.offers import Offer
from lambdas.core.placement import RefusalKind

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
    "RequestLimitExceeded": RefusalKind.THROTTLED,
    "Throttling": RefusalKind.THROTTLED,
    "InternalError": RefusalKind.THROTTLED,
    "InternalFailure": RefusalKind.THROTTLED,
    "ServiceUnavailable": RefusalKind.THROTTLED,
    "Unavailable": RefusalKind.THROTTLED,
    "Unsupported": RefusalKind.UNSUPPORTED,
    "UnsupportedOperation": RefusalKind.UNSUPPORTED,
    "InvalidInstanceType": RefusalKind.UNSUPPORTED,
}
"""What kind of no each of EC2's codes is. Any other code means the yard is set up wrongly."""
GRAVEST = (
    RefusalKind.ACCESS,
    RefusalKind.CONFIGURATION,
    RefusalKind.QUOTA,
    RefusalKind.UNSUPPORTED,
    RefusalKind.CAPACITY,
    RefusalKind.THROTTLED,
)


@dataclass(frozen=True)
class Template:
    """The launch template to launch from. It names the image by parameter, which EC2 resolves at launch."""

    id: str
    version: str


@dataclass(frozen=True)
class Launched:
    fleet: str
    instances: tuple[str, ...]


@dataclass(frozen=True)
class Turned:
    """EC2's no, with its code and message."""

    kind: RefusalKind
    code: str
    reason: str


def launch(
    offer: Offer, count: int, template: Template, *, token: str, tags: Mapping[str, str]
) -> Launched | Turned:
    """`count` hosts in this pool, or none. The same token never launches twice.

    Network interfaces get their tag from the template; a fleet's spot request cannot be tagged from here.
    Fewer ids than asked for are answered as Launched all the same: they cost money, so the caller must know."""
    spot = offer.market is Market.SPOT
    options = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": count}
    request: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template.id, "Version": template.version},
                "Overrides": [{"InstanceType": offer.type, "SubnetId": offer.subnet}],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
        "SpotOptions" if spot else "OnDemandOptions": options
        | {"AllocationStrategy": "capacity-optimized" if spot else "lowest-price"},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
            for kind in ("fleet", "instance", "volume")
        ],
    }
    try:
        answer = client("ec2").create_fleet(**request)
    except ClientError as error:
        return _turned([(error.response["Error"]["Code"], error.response["Error"].get("Message", ""))])
    instances = tuple(i for group in answer.get("Instances", []) for i in group["InstanceIds"])
    if instances:
        return Launched(answer.get("FleetId", ""), instances)
    errors = [(error["ErrorCode"], error.get("ErrorMessage", "")) for error in answer.get("Errors", [])]
    return _turned(errors or [("UnfulfillableCapacity", "EC2 launched nothing and gave no reason")])


def _turned(errors: list[tuple[str, str]]) -> Turned:
    """The gravest of these errors; a missing permission is raised, since every pool would say the same."""
    noes = []
    for code, message in errors:
        denied = denial(code, message, action="ec2:CreateFleet")
        if denied:
            raise denied
        noes.append(Turned(_kind(code), code, message))
    return min(noes, key=lambda no: GRAVEST.index(no.kind))


def _kind(code: str) -> RefusalKind:
    """EC2 sometimes gives a sub-code behind a dot: the part before it decides when the whole is unknown."""
    return KINDS.get(code) or KINDS.get(code.partition(".")[0]) or RefusalKind.CONFIGURATION
