"""AWS's price list, read with the free Query API
(docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-pelong.html).

The API accepts ten concurrent requests and five a second. Three regions serve it for the whole world, and one in China
serves prices in yuan. GovCloud has no such API, and its credentials work in no other partition
(aws/karpenter-provider-aws#5432)."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from lambdas.core.capacity.prices import MOST_SHOWN, dollars, usage_type
from trainyard.core.model.errors import AccessDenied, ServiceUnavailable
from trainyard.core.model.instance_types import all_types
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.storage import Storage

SERVED_IN, CHINAS = "us-east-1", "cn-northwest-1"
PAGE = 100
"""The most products in one answer of GetProducts."""
LINUX = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
STORAGE = {
    Storage.DISK: ("AmazonEC2", "EBS:VolumeUsage.gp3", {"volumeApiName": "gp3", "productFamily": "Storage"}),
    Storage.SNAPSHOT: ("AmazonEC2", "EBS:SnapshotUsage", {"productFamily": "Storage Snapshot"}),
    Storage.BUCKET: ("AmazonS3", "TimedStorage-ByteHrs", {"volumeType": "Standard"}),
    Storage.TABLE: ("AmazonDynamoDB", "TimedStorage-ByteHrs", {}),
    Storage.LOGS: ("AmazonCloudWatch", "TimedStorage-ByteHrs", {}),
}
"""The service, its usage type on bills (docs.aws.amazon.com/ebs/latest/userguide/ebs-billing-usage-reports.html and
similar pages) and the filters of the request."""


def read(region: str, earlier: PriceList | None, now: datetime) -> PriceList:
    """Return the current price list of the region. If AWS does not return it, repeat the prices of `earlier` with the
    reason."""
    try:
        return PriceList(on_demand=_on_demand(region), storage=_storage(region), read=now, requested=now)
    except (ServiceUnavailable, AccessDenied) as error:
        trouble = error.reason
    except ClientError as error:
        trouble = str(error)
    before = earlier or PriceList(requested=now)
    return PriceList(
        on_demand=before.on_demand,
        storage=before.storage,
        read=before.read,
        requested=now,
        trouble=f"the price list was not read: {trouble[:MOST_SHOWN]}",
    )


def _on_demand(region: str) -> dict[str, float]:
    """Return the hourly prices of the catalogue's types that are sold in the region."""
    found = _dearest("AmazonEC2", region, LINUX)
    priced = {name: found.get(f"BoxUsage:{name}") for name in all_types()}
    return {name: price for name, price in priced.items() if price}


def _storage(region: str) -> dict[str, float]:
    priced = {
        kind.value: _dearest(service, region, narrowed).get(usage)
        for kind, (service, usage, narrowed) in STORAGE.items()
    }
    return {kind: price for kind, price in priced.items() if price}


def _dearest(service: str, region: str, narrowed: dict[str, str]) -> dict[str, float]:
    """Return dollars by usage type. If several products share a usage type, the highest price counts."""
    found: dict[str, float] = {}
    for product in _products(service, region, narrowed):
        usage, price = usage_type(product), dollars(product)
        if price is not None:
            found[usage] = max(price, found.get(usage, 0.0))
    return found


def _products(service: str, region: str, narrowed: dict[str, str]) -> Iterator[Any]:
    """Yield the products of the service that match the filters; None for an entry that is not JSON."""
    terms = {"regionCode": region, **narrowed}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in terms.items()]
    served = CHINAS if region.startswith("cn-") else SERVED_IN
    pages = client("pricing", served).get_paginator("get_products")
    for page in pages.paginate(ServiceCode=service, Filters=filters, PaginationConfig={"PageSize": PAGE}):
        yield from map(_parse_product, page["PriceList"])


def _parse_product(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
