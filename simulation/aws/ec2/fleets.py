"""CreateFleet of type `instant`: one attempt, all or nothing if requested, with Errors[] in a 200 answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from localcloud.services.ec2.capacity import initialization
from localcloud.services.ec2.capacity.allocation import Batch, Grant, Refusal, Rules, plan
from simulation.aws.ec2.launches import Launch, Launches
from simulation.aws.ec2.model import Instance
from simulation.aws.ec2.requests import expect
from simulation.aws.endpoint.api import Answer, Caller, Request, ServiceError, Structure

MARKETS = {"spot": "SpotOptions", "on-demand": "OnDemandOptions"}
OPTIONS = ("AllocationStrategy", "SingleInstanceType", "SingleAvailabilityZone", "MinTargetCapacity")


class FleetCalls(Launches):
    """CreateFleet. `short`, `refusals` and `errors_beside` are faults of the next fleets, one entry each."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.short: list[int] = []
        """The maximum number of hosts of a fleet, even below its minimum."""
        self.refusals: list[Refusal] = []
        """Errors with which a fleet launches nothing."""
        self.errors_beside: list[Refusal] = []
        """Errors in the answers of fleets that launch all hosts."""
        self.fleets: dict[str, list[Instance]] = {}
        self._answered: dict[str, tuple[str, Answer]] = {}

    def create_fleet(self, caller: Caller, request: Request) -> Answer:
        """Create a fleet. A repeated client token returns the same answer, or an error if the request differs."""
        token = request.get("ClientToken") or ""
        if len(token) > 64:
            raise ServiceError("InvalidParameterValue", "Client token must be at most 64 ASCII characters.")
        signature = json.dumps(request, sort_keys=True, default=str)
        known = self._answered.get(token) if token else None
        if known is None:
            answer = self._new_fleet(request, token)
            self._answered[token] = (signature, answer)
            return answer
        if known[0] != signature:
            raise ServiceError(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            )
        return known[1]

    def _new_fleet(self, request: Request, token: str) -> Answer:
        market, wanted, rules = read_request(request)
        launches, errors = self.launches(request, market)
        subnets = {(each.pool.zone, each.subnet.id) for each in launches}
        if len(subnets) > len({zone for zone, _ in subnets}):
            raise ServiceError(
                "InvalidParameterCombination", "A fleet cannot use two subnets of one Availability Zone."
            )
        refusal = self.refusals.pop(0) if self.refusals else None
        ranked = self._rank(launches, rules)
        planned = plan(ranked, wanted, rules, lambda one, count: self._grant(one, count, refusal))
        errors += [_error(launch.shown, market, why) for launch, why in planned.refusals]
        if self.errors_beside and launches:
            errors.append(_error(launches[0].shown, market, self.errors_beside.pop(0)))
        fleet, groups = self.world.new_id("fleet-", 32), []
        members = self.fleets[fleet] = []
        for batch in self._shorten(planned.batches):
            some = self._launch_group(batch.override, batch.count, fleet, token)
            groups.append(_group(batch.override, [each.id for each in some], market))
            members += some
        self.world.note(
            "ec2", "fleet", market=market, wanted=wanted, hosts=[each.id for each in members],
            refused=[f"{each['ErrorCode']}" for each in errors],
        )  # fmt: skip
        return {"FleetId": fleet, "Instances": groups, "Errors": errors}

    def launches(self, request: Mapping[str, Any], market: str) -> tuple[list[Launch], list[Structure]]:
        """Return the launches of the overrides, and the errors of invalid overrides as in the answer."""
        found: list[Launch] = []
        errors: list[Structure] = []
        for config in request["LaunchTemplateConfigs"]:
            expect(config, "LaunchTemplateSpecification", "Overrides")
            template, number = self._version(config["LaunchTemplateSpecification"])
            for override in config["Overrides"]:
                try:
                    found.append(self._prepare(template, number, override, market, request))
                except ServiceError as wrong:
                    if wrong.code == "NotSimulated":
                        raise
                    specification = {"LaunchTemplateId": template.id, "Version": str(number)}
                    shown = {"LaunchTemplateSpecification": specification, "Overrides": dict(override)}
                    errors.append(_error(shown, market, Refusal(wrong.code, wrong.message)))
        return found, errors

    def _rank(self, launches: list[Launch], rules: Rules) -> list[Launch]:
        """Return the launches in the order of the strategy; ties keep the order of the request."""

        def price(launch: Launch) -> float:
            found = self.catalogue.price(launch.pool)
            return math.inf if found is None else found

        if rules.strategy == "capacity-optimized":
            return sorted(launches, key=lambda launch: (-self.pools.free(launch.pool), price(launch)))
        return sorted(launches, key=price)

    def _grant(self, launch: Launch, count: int, refusal: Refusal | None) -> Grant:
        if refusal is not None:
            return Grant(0, refusal)
        grant, addresses = self.pools.grant(launch.pool, count), launch.subnet.free
        if addresses < grant.count:
            text = (
                f"There are not enough free addresses in subnet '{launch.subnet.id}' to satisfy the requested number "
                "of instances."
            )
            return Grant(addresses, Refusal("InsufficientFreeAddressesInSubnet", text))
        disks = initialization.grant(self._initialization_rates(), launch.initialization_rate)
        return disks if disks is not None and disks.count < grant.count else grant

    def _initialization_rates(self) -> list[int]:
        """Return the rates in MiB/s of all volumes that are being initialized."""
        return [
            each.initialization_rate
            for each in self.instances.values()
            if each.ended is None
            and initialization.is_initializing(
                gib=each.snapshot_gib, rate=each.initialization_rate, made=each.created, now=self.world.now
            )
        ]

    def _shorten(self, batches: list[Batch[Launch]]) -> list[Batch[Launch]]:
        if not self.short:
            return batches
        left, shortened = self.short.pop(0), []
        for batch in batches:
            count = min(left, batch.count)
            left -= count
            shortened += [Batch(batch.override, count)] if count else []
        return shortened


def read_request(request: Mapping[str, Any]) -> tuple[str, int, Rules]:
    """Return the market, the number of hosts and the rules of a fleet."""
    expect(
        request, "Type", "ClientToken", "SpotOptions", "OnDemandOptions", "LaunchTemplateConfigs",
        "TargetCapacitySpecification", "TagSpecifications",
    )  # fmt: skip
    if request.get("Type") != "instant":
        raise ServiceError("NotSimulated", "EC2 simulates fleets of Type instant only")
    capacity = request["TargetCapacitySpecification"]
    expect(capacity, "TotalTargetCapacity", "DefaultTargetCapacityType")
    market, wanted = (
        capacity.get("DefaultTargetCapacityType", "on-demand"),
        int(capacity["TotalTargetCapacity"]),
    )
    if market not in MARKETS:
        raise ServiceError("NotSimulated", f"EC2 does not simulate {market} capacity")
    if wanted < 1:
        raise ServiceError("InvalidTargetCapacitySpecification", "TotalTargetCapacity must be at least 1.")
    options = request.get(MARKETS[market]) or {}
    expect(options, *OPTIONS)
    rules = Rules(
        strategy=options.get("AllocationStrategy") or "lowest-price",
        single_type=bool(options.get("SingleInstanceType")),
        single_zone=bool(options.get("SingleAvailabilityZone")),
        least=int(options.get("MinTargetCapacity") or 0),
    )
    if rules.strategy not in ("lowest-price", "capacity-optimized"):
        raise ServiceError("NotSimulated", f"EC2 does not simulate the strategy {rules.strategy}")
    if rules.least and not (rules.single_type or rules.single_zone):
        raise ServiceError(
            "InvalidParameterCombination",
            "MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone.",
        )
    return market, wanted, rules


def _group(launch: Launch, ids: list[str], market: str) -> Structure:
    return {
        "LaunchTemplateAndOverrides": launch.shown,
        "Lifecycle": market,
        "InstanceIds": ids,
        "InstanceType": launch.pool.instance_type,
        "AvailabilityZone": launch.pool.zone,
        "SubnetId": launch.subnet.id,
    }


def _error(shown: Structure, market: str, refusal: Refusal) -> Structure:
    return {
        "LaunchTemplateAndOverrides": shown,
        "Lifecycle": market,
        "ErrorCode": refusal.code,
        "ErrorMessage": refusal.message,
    }
