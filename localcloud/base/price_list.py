"""AWS's price list built from the settings: the answers and refusals of the Price List Query API's GetProducts.

As on AWS, similar products surround each product: other systems, tenancies and reservations of a type, tiers with a
free allowance, and storage with a similar name.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from localcloud.base.settings import Settings

ENDPOINTS = ("us-east-1", "eu-central-1", "ap-south-1")
MOST = 100
PREFIXES = {
    "us-east-1": "",
    "us-west-2": "USW2-",
    "eu-central-1": "EUC1-",
    "eu-west-1": "EU-",
    "ap-northeast-1": "APN1-",
}
"""Prefixes of the usage types of each region."""
VARIANTS = (
    ("Linux", "Shared", "Used", "BoxUsage", 1.0),
    ("Linux", "Shared", "AllocatedCapacityReservation", "Reservation", 0.0),
    ("Linux", "Shared", "UnusedCapacityReservation", "UnusedBox", 1.0),
    ("Linux", "Dedicated", "Used", "DedicatedUsage", 1.06),
    ("Windows", "Shared", "Used", "BoxUsage", 1.4),
)
"""Products of an instance type: system, tenancy, reservation, usage type, and factor on the price."""
SHARED = {"servicecode", "regionCode", "usagetype", "productFamily"}
FIELDS = {
    "AmazonEC2": {
        "instanceType", "operatingSystem", "tenancy", "capacitystatus", "preInstalledSw", "marketoption",
        "volumeApiName",
    },
    "AmazonS3": {"volumeType"},
    "AmazonDynamoDB": set(),
    "AmazonCloudWatch": set(),
}  # fmt: skip
"""Filterable attributes of each service, besides those that all services have."""
MATCHES: Mapping[str, Callable[[str, str], bool]] = {
    "TERM_MATCH": operator.eq,
    "EQUALS": operator.eq,
    "CONTAINS": operator.contains,
    "ANY_OF": lambda found, wanted: found in wanted.split(","),
    "NONE_OF": lambda found, wanted: found not in wanted.split(","),
}


class PriceListError(Exception):
    """An error from the service: its code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class PriceList:
    """Products of all regions that the settings price."""

    settings: Settings

    def get_products(self, request: Mapping[str, Any], *, asked_in: str) -> dict[str, Any]:
        """Answer GetProducts or raise PriceListError. `asked_in` is the region of the called endpoint."""
        if asked_in not in ENDPOINTS:
            raise PriceListError(
                "UnknownEndpoint",
                f"The price list has no endpoint in {asked_in}; it has in {', '.join(ENDPOINTS)}",
            )
        service, size = request.get("ServiceCode"), int(request.get("MaxResults", MOST))
        if not service:
            raise _invalid("serviceCode cannot be null or empty")
        if service not in FIELDS:
            raise PriceListError("NotFoundException", f"The service {service} was not found")
        if not 1 <= size <= MOST:
            raise _invalid(f"maxResults must be between 1 and {MOST}")
        if request.get("FormatVersion", "aws_v1") != "aws_v1":
            raise _invalid("formatVersion must be aws_v1")
        wanted = tuple(_filter(service, each) for each in request.get("Filters", ()))
        found = self._fitting(service, wanted)
        start = _start(request.get("NextToken"), len(found))
        answer = {"FormatVersion": "aws_v1", "PriceList": found[start : start + size]}
        return answer if start + size >= len(found) else {**answer, "NextToken": str(start + size)}

    @cached_property
    def _fitting(self) -> Callable[[str, tuple[Filter, ...]], list[str]]:
        """Return the function that finds a service's products by filters.

        It caches results, because clients request page by page.
        """

        def fitting(service: str, filters: tuple[Filter, ...]) -> list[str]:
            return [
                text
                for attributes, text in self._products
                if attributes["servicecode"] == service
                and all(fits(attributes.get(field, ""), value) for field, fits, value in filters)
            ]

        return lru_cache(maxsize=64)(fitting)

    @cached_property
    def _products(self) -> list[tuple[dict[str, str], str]]:
        """Return attributes and text of every product."""
        return [
            made
            for region, factor in self.settings.price_factors.items()
            for made in self._of(region, factor)
        ]

    def _of(self, region: str, factor: float) -> Iterator[tuple[dict[str, str], str]]:
        prefix = PREFIXES.get(region, "XXX1-")

        def product(
            service: str, family: str, usage: str, *tiers: float, **more: str
        ) -> tuple[dict[str, str], str]:
            attributes = {
                "servicecode": service,
                "regionCode": region,
                "usagetype": f"{prefix}{usage}",
                **more,
            }
            return {**attributes, "productFamily": family}, _text(
                family, attributes, [factor * each for each in tiers]
            )

        for name, price in self.settings.prices.items():
            for system, tenancy, capacity, usage, share in VARIANTS:
                yield product(
                    "AmazonEC2", "Compute Instance", f"{usage}:{name}", share * price, instanceType=name,
                    operatingSystem=system, tenancy=tenancy, capacitystatus=capacity, preInstalledSw="NA",
                    marketoption="OnDemand",
                )  # fmt: skip
        disk, snapshot, bucket, table, logs = (
            self.settings.storage_prices[kind] for kind in ("gp3", "snapshot", "s3", "dynamodb", "logs")
        )
        yield product("AmazonEC2", "Storage", "EBS:VolumeUsage.gp3", disk, volumeApiName="gp3")
        yield product("AmazonEC2", "System Operation", "EBS:VolumeP-IOPS.gp3", 0.005, volumeApiName="gp3")
        yield product("AmazonEC2", "Storage Snapshot", "EBS:SnapshotUsage", snapshot)
        yield product("AmazonEC2", "Storage Snapshot", "EBS:SnapshotArchiveStorage", snapshot / 4)
        yield product(
            "AmazonS3", "Storage", "TimedStorage-ByteHrs", bucket, 0.96 * bucket, volumeType="Standard"
        )
        yield product(
            "AmazonS3", "Storage", "TimedStorage-SIA-ByteHrs", 0.54 * bucket, volumeType="Standard - IA"
        )
        yield product("AmazonDynamoDB", "Database Storage", "TimedStorage-ByteHrs", 0.0, table)
        yield product("AmazonDynamoDB", "Database Storage", "IA-TimedStorage-ByteHrs", 0.4 * table)
        yield product("AmazonCloudWatch", "Storage Snapshot", "TimedStorage-ByteHrs", logs)


Filter = tuple[str, Callable[[str, str], bool], str]
"""Attribute, comparison, and value to compare with."""


def _text(family: str, attributes: Mapping[str, str], tiers: Sequence[float]) -> str:
    """Return a product in AWS's format: one term with a dimension for each tier, and dollars as text."""
    sku = hashlib.sha256(json.dumps(attributes).encode()).hexdigest()[:16].upper()
    dimensions = {
        f"{sku}.JRTCKXETXF.{number}": {
            "unit": "Hrs",
            "beginRange": str(number),
            "pricePerUnit": {"USD": f"{tier:.10f}"},
        }
        for number, tier in enumerate(tiers)
    }
    terms = {"OnDemand": {f"{sku}.JRTCKXETXF": {"sku": sku, "priceDimensions": dimensions}}}
    product = {"productFamily": family, "sku": sku, "attributes": attributes}
    return json.dumps({"product": product, "serviceCode": attributes["servicecode"], "terms": terms})


def _filter(service: str, each: Mapping[str, Any]) -> Filter:
    field, value, how = each.get("Field"), each.get("Value"), MATCHES.get(str(each.get("Type")))
    if not field or not value or how is None:
        raise _invalid(f"a filter needs Type ({', '.join(MATCHES)}), Field and Value")
    if field not in SHARED and field not in FIELDS[service]:
        raise _invalid(f"{field} is not an attribute of {service}")
    return str(field), how, str(value)


def _invalid(message: str) -> PriceListError:
    return PriceListError("InvalidParameterException", f"Input Parameters are invalid. {message}")


def _start(token: Any, length: int) -> int:
    if token is None:
        return 0
    if not str(token).isdigit() or int(token) >= length:
        raise PriceListError("InvalidNextTokenException", "The pagination token is invalid")
    return int(token)
