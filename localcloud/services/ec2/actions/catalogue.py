"""Listings of instances, instance types and zones, with EC2's filters and pages."""

from __future__ import annotations

import base64
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Reservation
from moto.ec2.responses import EC2Response

from localcloud.patches import MOTO
from localcloud.services.ec2.actions.base import Actions, matches, matching_rows, page

INSTANCE_FILTERS = {
    "instance-lifecycle": "lifecycle",
    "spot-instance-request-id": "spot_instance_request_id",
    "client-token": "client_token",
    "iam-instance-profile.arn": "profile_arn",
    "instance-state-code": "state_code_text",
    "launch-time": "launch_time_text",
    "reservation-id": "reservation_id",
    "metadata-options.http-tokens": "metadata_options.http_tokens",
}


def add_filters() -> None:
    """Add missing filters, and wildcards, to moto's DescribeInstances."""
    MOTO.extend("ec2.utils:filter_dict_attribute_mapping", INSTANCE_FILTERS)
    for name, value in {
        "profile_arn": property(lambda i: (i.iam_instance_profile or {}).get("Arn")),
        "state_code_text": property(lambda i: str(i.state_code)),
        "launch_time_text": property(lambda i: i.launch_time.strftime("%Y-%m-%dT%H:%M:%S.000Z")),
        "reservation_id": None,
        "spot_instance_request_id": None,
    }.items():
        MOTO.replace(f"ec2.models.instances:Instance.{name}", value)
    exactly = MOTO.stock("ec2.utils:instance_value_in_filter_values")

    def matching(value: Any, wanted: list[str]) -> bool:
        if exactly(value, wanted):
            return True
        found = value if isinstance(value, list) else [value]
        patterns = [w for w in wanted if "*" in w or "?" in w]
        return any(isinstance(one, str) and matches({"value": [one]}, {"value": patterns}) for one in found)

    MOTO.replace("ec2.utils:instance_value_in_filter_values", matching)


class CatalogueActions(Actions):
    """DescribeInstances in pages of instances, and a catalogue restricted to the zones in the settings."""

    def describe_instances(self) -> ActionResult:
        self.error_on_dryrun()
        ids, size = self._get_param("InstanceIds", []), self._get_param("MaxResults")
        if ids and size is not None:
            raise EC2ClientError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        if size is not None and not 5 <= int(size) <= 1000:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value from 5 to 1000.",
            )
        wanted = self._filters_from_querystring()
        if ids:
            self.ec2_backend.get_multi_instances_by_id(
                ids
            )  # raises an error for an unknown id and accepts a repeated one
            reservations = self.ec2_backend.get_reservations_by_instance_ids(
                list(dict.fromkeys(ids)), filters=wanted
            )
        else:
            reservations = self.ec2_backend.describe_instances(filters=wanted)
        rows = [(reservation, one) for reservation in reservations for one in reservation.instances]
        shown, token = rows, None
        if size is not None:
            shown, token = _after(rows, self._get_param("NextToken"), int(size))
        return ActionResult({"Reservations": _regroup(shown), "NextToken": token})

    def get_launch_template_data(self) -> ActionResult:
        """Refuse the request. moto would return placeholders."""
        raise EC2ClientError(
            "UnsupportedOperation",
            "The local cloud does not derive template data from an instance: see describe-launch-template-versions.",
        )

    def describe_instance_types(self) -> ActionResult:
        self.error_on_dryrun()
        for named in self._get_param("InstanceTypes", []):
            if named not in INSTANCE_TYPES and "*" not in named:
                raise EC2ClientError(
                    "InvalidInstanceType", f"The following supplied instance types do not exist: [{named}]"
                )
        found = self.ec2_backend.describe_instance_types(
            self._get_param("InstanceTypes", []), self._filters_from_querystring()
        )
        return page(self, "InstanceTypes", sorted(found, key=lambda kind: kind["InstanceType"]))

    def describe_instance_type_offerings(self) -> ActionResult:
        self.error_on_dryrun()
        where = self._get_param("LocationType") or "region"
        zones = self.ec2.settings.zones
        allowed = {"availability-zone": set(zones), "availability-zone-id": set(zones.values())}.get(where)
        wanted = self._filters_from_querystring()
        rows = [
            row
            for row in self.ec2_backend.describe_instance_type_offerings(where)
            if allowed is None or row["Location"] in allowed
        ]
        filters = {"instance-type": "InstanceType", "location": "Location"}
        return page(self, "InstanceTypeOfferings", matching_rows(rows, filters, wanted))

    def describe_availability_zones(self) -> ActionResult:
        self.error_on_dryrun()
        named = self._get_param("ZoneNames", [])
        zones = self.ec2.settings.zones
        for name in named:
            if name not in zones:
                raise EC2ClientError("InvalidParameterValue", f"Invalid availability zone: [{name}]")
        wanted = self._filters_from_querystring()
        rows = [
            {
                "ZoneName": name,
                "ZoneId": zone_id,
                "ZoneType": "availability-zone",
                "RegionName": self.region,
                "State": "available",
                "OptInStatus": "opt-in-not-required",
                "GroupName": f"{self.region}-zg-1",
                "NetworkBorderGroup": self.region,
                "Messages": [],
            }
            for name, zone_id in zones.items()
            if not named or name in named
        ]
        filters = {
            "zone-name": "ZoneName",
            "zone-id": "ZoneId",
            "zone-type": "ZoneType",
            "region-name": "RegionName",
            "state": "State",
            "opt-in-status": "OptInStatus",
            "group-name": "GroupName",
        }
        return ActionResult({"AvailabilityZones": matching_rows(rows, filters, wanted)})

    def create_subnet(self) -> ActionResult:
        """Choose a zone from the settings if the request names none. moto would choose any of its zones."""
        if not (self._get_param("AvailabilityZone") or self._get_param("AvailabilityZoneId")):
            self.params["AvailabilityZone"] = next(iter(self.ec2.settings.zones))
        return EC2Response.create_subnet(self)


Row = tuple[Any, Any]


def _after(rows: list[Row], token: str | None, size: int) -> tuple[list[Row], str | None]:
    """Return the next `size` rows after the instance that the token names, even if it is gone."""
    ranked = sorted(rows, key=lambda row: row[1].id)
    last = base64.urlsafe_b64decode(token.encode()).decode() if token else ""
    left = [row for row in ranked if row[1].id > last]
    shown = left[:size]
    more = base64.urlsafe_b64encode(shown[-1][1].id.encode()).decode() if len(left) > size else None
    return shown, more


def _regroup(rows: list[Row]) -> list[Reservation]:
    """Group the rows into reservations without changing moto's objects."""
    groups: dict[str, Reservation] = {}
    for reservation, one in rows:
        group = groups.setdefault(reservation.id, Reservation(reservation.id, reservation.owner_id))
        group.instances.append(one)
    return list(groups.values())
