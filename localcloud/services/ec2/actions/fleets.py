"""CreateFleet of type instant: one attempt over several capacity pools, all or nothing on request."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ministack.core.responses import new_uuid
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError

from localcloud.base.settings import Settings
from localcloud.services.ec2.actions.base import Actions, Ec2, matches, page
from localcloud.services.ec2.actions.launch import Launch, idempotent, launch_instances, validate_launch
from localcloud.services.ec2.actions.template import Parameters, plain, template_version
from localcloud.services.ec2.capacity.allocation import Grant, Pool, Refusal, Rules, plan
from localcloud.services.ec2.instances.lifecycle import BY_USER
from localcloud.services.ec2.store.records import GONE, MARKETS, Fleet, backend, here, instances, now

OVERRIDES_OF_A_LAUNCH = (
    "InstanceType", "SubnetId", "ImageId", "KeyName", "BlockDeviceMappings", "IamInstanceProfile", "MetadataOptions",
)  # fmt: skip


@dataclass(frozen=True)
class Override:
    """A way to launch a member: a template version combined with one entry of Overrides."""

    launch: Launch
    shown: Parameters
    priority: float
    weight: int

    @property
    def pool(self) -> Pool:
        return self.launch.pool


def rank_overrides(ec2: Ec2, overrides: list[Override], market: str, strategy: str) -> list[Override]:
    """Sort the overrides by a strategy. Ties keep the request's order."""
    if strategy in ("prioritized", "capacity-optimized-prioritized"):
        return sorted(overrides, key=lambda override: override.priority)
    if strategy in ("capacity-optimized", "price-capacity-optimized"):
        return sorted(
            overrides, key=lambda o: (-ec2.capacity.free(o.pool), _price(ec2.settings, o.pool, market))
        )
    return sorted(overrides, key=lambda override: _price(ec2.settings, override.pool, market))


def _price(settings: Settings, pool: Pool, market: str) -> float:
    price = (
        settings.spot_price(pool.instance_type, pool.zone)
        if market == "spot"
        else settings.on_demand_price(pool.instance_type)
    )
    return math.inf if price is None else price


def rules_of(options: Parameters) -> Rules:
    """Return the rules in SpotOptions or OnDemandOptions of a request. Refuse those that this cloud would ignore."""
    if unknown := [key for key in ("MaxTotalPrice", "CapacityReservationOptions") if options.get(key)]:
        raise EC2ClientError(
            "UnsupportedOperation", f"The local cloud does not support {', '.join(unknown)}."
        )

    def is_set(key: str) -> bool:
        return str(options.get(key)).lower() == "true"

    rules = Rules(
        strategy=options.get("AllocationStrategy") or "lowest-price",
        single_type=is_set("SingleInstanceType"),
        single_zone=is_set("SingleAvailabilityZone"),
        least=int(options.get("MinTargetCapacity") or 0),
    )
    if rules.least and not (rules.single_type or rules.single_zone):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone.",
        )
    return rules


# ------------------------------------------------------------------------------------------ the API


def targets(capacity: Parameters) -> dict[str, int]:
    """Return the target capacity of each market. Unspecified capacity goes to the default market."""
    total, default = (
        int(capacity["TotalTargetCapacity"]),
        capacity.get("DefaultTargetCapacityType") or "on-demand",
    )
    if default not in MARKETS:
        raise EC2ClientError("UnsupportedOperation", f"The local cloud has no {default} capacity.")
    wanted = {
        "spot": int(capacity.get("SpotTargetCapacity") or 0),
        "on-demand": int(capacity.get("OnDemandTargetCapacity") or 0),
    }
    rest = total - sum(wanted.values())
    if total < 1 or rest < 0:
        raise EC2ClientError(
            "InvalidTargetCapacitySpecification",
            "TotalTargetCapacity must be at least 1 and not less than its parts.",
        )
    wanted[default] += rest
    return wanted


def launch_requests(fleet: Parameters, market: str) -> list[tuple[Parameters, Parameters, Parameters]]:
    """Return for each override: the parameters for RunInstances, the entry for the answer, and the override."""
    requests = []
    for config in fleet["LaunchTemplateConfigs"]:
        specification = dict(config["LaunchTemplateSpecification"])
        user_data = specification.pop("LaunchTemplateSpecificationUserData", None)
        version = template_version(specification)
        shown = {"LaunchTemplateId": version.template.id, "Version": str(version.number)}
        for override in config.get("Overrides") or [{}]:
            request: Parameters = {"LaunchTemplate": specification}
            request |= {key: override[key] for key in OVERRIDES_OF_A_LAUNCH if override.get(key)}
            if user_data:
                request["UserData"] = user_data
            placement = {
                "AvailabilityZone": override.get("AvailabilityZone"),
                "GroupName": (override.get("Placement") or {}).get("GroupName"),
            }
            if any(placement.values()):
                request["Placement"] = {key: value for key, value in placement.items() if value}
            request["TagSpecifications"] = [
                s for s in fleet.get("TagSpecifications") or [] if s["ResourceType"] != "fleet"
            ]
            if market == "spot":
                options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
                if override.get("MaxPrice"):
                    options["MaxPrice"] = override["MaxPrice"]
                request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
            requests.append(
                (request, {"LaunchTemplateSpecification": shown, "Overrides": override}, override)
            )
    return requests


class FleetActions(Actions):
    def create_fleet(self) -> ActionResult:
        request = plain(self.params)
        request.pop("DryRun", None)
        if request.get("Type", "maintain") != "instant":
            raise EC2ClientError(
                "UnsupportedOperation",
                "The local cloud creates fleets of Type instant only.",
            )
        wanted = targets(request["TargetCapacitySpecification"])
        rules = {market: rules_of(request.get(block) or {}) for market, block in MARKETS.items()}
        for config in request["LaunchTemplateConfigs"]:
            template_version(config["LaunchTemplateSpecification"])
        self.error_on_dryrun()

        def make() -> Parameters:
            fleet = Fleet("fleet-" + new_uuid(), request, now(), [], [])
            for market, count in wanted.items():
                if count:
                    self._launch_market(fleet, market, count, rules[market])
            here().fleets[fleet.id] = fleet
            tags = [s for s in request.get("TagSpecifications") or [] if s["ResourceType"] == "fleet"]
            backend().create_tags([fleet.id], {t["Key"]: t["Value"] for s in tags for t in s["Tags"]})
            return {"FleetId": fleet.id, "Instances": fleet.rows, "Errors": fleet.errors}

        return ActionResult(idempotent("CreateFleet", request.get("ClientToken"), request, make))

    def _launch_market(self, fleet: Fleet, market: str, wanted: int, rules: Rules) -> None:
        overrides = []
        for request, shown, override in launch_requests(fleet.request, market):
            try:
                launch = validate_launch(request, self.ec2.settings.zones)
            except EC2ClientError as wrong:
                fleet.errors.append(_error(shown, market, Refusal(wrong.code, wrong.message)))
                continue
            weight = int(float(override.get("WeightedCapacity") or 1))
            overrides.append(Override(launch, shown, _priority(override), weight))
        _one_subnet_in_each_zone(overrides)

        def room(override: Override, count: int) -> Grant:
            limit = _too_cheap(self.ec2.settings, override)
            if limit is not None:
                return Grant(0, limit)
            launch = override.launch
            return self.ec2.capacity.grant(override.pool, count, launch.subnet_id, launch.initialization_rate)

        planned = plan(rank_overrides(self.ec2, overrides, market, rules.strategy), wanted, rules, room)
        fleet.errors += [_error(override.shown, market, refusal) for override, refusal in planned.refusals]
        for batch in planned.batches:
            members = launch_instances(self, batch.override.launch, batch.count, fleet.id).instances
            fleet.members += [member.id for member in members]
            pool = batch.override.pool
            fleet.rows.append(
                {
                    "LaunchTemplateAndOverrides": batch.override.shown,
                    "Lifecycle": market,
                    "InstanceIds": [member.id for member in members],
                    "InstanceType": pool.instance_type,
                    "AvailabilityZone": pool.zone,
                    "AvailabilityZoneId": self.ec2.settings.zones[pool.zone],
                    "SubnetId": batch.override.launch.subnet_id,
                }
            )

    def describe_fleets(self) -> ActionResult:
        """Show an instant fleet only to requests that name it."""
        self.error_on_dryrun()
        chosen = [_require_fleet(fleet_id) for fleet_id in self._get_param("FleetIds", [])]
        wanted = self._filters_from_querystring()
        matching = [
            fleet
            for fleet in chosen
            if matches(
                {"fleet-state": [fleet.state], "type": ["instant"], "activity-status": ["fulfilled"]}, wanted
            )
        ]
        return page(self, "Fleets", [fleet.describe() for fleet in matching])

    def describe_fleet_instances(self) -> ActionResult:
        fleet = _require_fleet(self._get_param("FleetId"))
        raise EC2ClientError(
            "UnsupportedOperation", f"DescribeFleetInstances does not support instant fleets ({fleet.id})."
        )

    def delete_fleets(self) -> ActionResult:
        """Delete instant fleets together with their instances."""
        self.error_on_dryrun()
        ids = self._get_param("FleetIds", [])
        if len(ids) > 25:
            raise EC2ClientError(
                "InvalidParameterValue", "At most 25 instant fleets can be deleted in one request."
            )
        gone, failed = [], []
        for fleet_id in ids:
            fleet = here().fleets.get(fleet_id)
            if fleet is None:
                failed.append(
                    {"FleetId": fleet_id, "Error": {"Code": "fleetIdDoesNotExist", "Message": fleet_id}}
                )
            elif str(self._get_param("TerminateInstances")).lower() != "true":
                message = "An instant fleet cannot be deleted without terminating its instances."
                failed.append({"FleetId": fleet_id, "Error": {"Code": "unexpectedError", "Message": message}})
            else:
                before, fleet.state = fleet.state, "deleted_terminating"
                for member in [i for i in instances() if i.id in fleet.members and i.state not in GONE]:
                    self.ec2.lifecycle.terminate(member, BY_USER)
                gone.append(
                    {"FleetId": fleet_id, "PreviousFleetState": before, "CurrentFleetState": fleet.state}
                )
        return ActionResult({"SuccessfulFleetDeletions": gone, "UnsuccessfulFleetDeletions": failed})


def _one_subnet_in_each_zone(overrides: list[Override]) -> None:
    subnets = {(each.pool.zone, each.launch.subnet_id) for each in overrides}
    if len(subnets) > len({zone for zone, _ in subnets}):
        raise EC2ClientError(
            "InvalidParameterCombination", "A fleet cannot use two subnets of one Availability Zone."
        )


def _priority(override: Parameters) -> float:
    """Return the priority. 0 is the highest, and overrides without one come last."""
    return math.inf if override.get("Priority") is None else float(override["Priority"])


def _too_cheap(settings: Settings, override: Override) -> Refusal | None:
    offered, pool = override.launch.spot_options.get("MaxPrice"), override.pool
    price = settings.spot_price(pool.instance_type, pool.zone) if pool.market == "spot" else None
    if offered is None or price is None or float(offered) >= price:
        return None
    return Refusal(
        "SpotMaxPriceTooLow",
        f"Your Spot request price of {offered} is lower than the minimum required {price:g}.",
    )


def _error(shown: Parameters, market: str, refusal: Refusal) -> Parameters:
    return {
        "LaunchTemplateAndOverrides": shown,
        "Lifecycle": market,
        "ErrorCode": refusal.code,
        "ErrorMessage": refusal.message,
    }


def _require_fleet(fleet_id: str) -> Fleet:
    try:
        return here().fleets[fleet_id]
    except KeyError:
        raise EC2ClientError("InvalidFleetId.NotFound", f"The fleet ID '{fleet_id}' does not exist") from None
